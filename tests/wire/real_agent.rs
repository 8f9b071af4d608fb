//! The real agent and the real gateway, with real films.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_tests::Site;
use fencepost_tests::agent_frames::{assert_won, commit, declared, progress};
use fencepost_tests::agent_process::AgentProcess;
use fencepost_tests::buyer::{clip, film, transcode};
use fencepost_tests::gateway::TTL;
use fencepost_tests::stand_ins::real_time_ffmpeg;
use fencepost_tests::wait::until;
use rustix::process::Signal;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A running agent that encodes no faster than the film plays.
async fn slow_agent(site: &Site, url: &str) -> AgentProcess {
    let ffmpeg = real_time_ffmpeg(site.folder.path()).await;
    let agent = site.agent(url, "slow").await;
    let mut agent = agent.with(&["--ffmpeg", ffmpeg.to_str().expect("a plain path")]);
    agent.start();
    agent
}

/// The outputs that agents have put in place.
fn outputs(site: &Site) -> usize {
    let is_output =
        |path: &std::path::PathBuf| path.components().any(|part| part.as_os_str() == "outputs");
    site.objects().iter().filter(|path| is_output(path)).count()
}

#[tokio::test]
async fn a_real_agent_does_a_real_job_to_its_end_whoever_presses_keys() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let mut agent = site.agent(&gateway.url, "mac").await;
    agent.start();
    let upload = buyer.upload(&film(3, 96, 64).await).await;
    let mut order = transcode(&upload);
    order["params"]["height"] = json!(32);
    let job = buyer.submit(&order).await;
    let seen = buyer.until(&job, "succeeded").await;
    let seconds = seen["output"]["duration_seconds"].as_f64().unwrap();
    assert!((2.9..3.2).contains(&seconds), "{seconds}");
    assert_eq!(site.statuses(&job).await, "succeeded: succeeded");
    assert!(buyer.download(&job).await.len() > 1_000);
    agent.is_idle().await;
}

#[tokio::test]
async fn a_real_agent_that_is_cancelled_stops_its_encoder_and_sends_nothing() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let mut agent = slow_agent(&site, &gateway.url).await;
    let upload = buyer.upload(&film(60, 96, 64).await).await;
    let job = buyer.submit(&transcode(&upload)).await;
    until("some of it to be encoded", || async {
        let seen = buyer.job(&job).await;
        seen["phase"] == "running"
            && seen["percent"]
                .as_f64()
                .is_some_and(|percent| percent > 1.0)
    })
    .await;
    assert_eq!(buyer.cancel(&job).await, ("cancelling".to_owned(), true));
    buyer.until(&job, "cancelled").await;
    agent.is_idle().await;
    assert_eq!(outputs(&site), 0);
    // Its slot is free again.
    let upload = buyer.upload(clip().await).await;
    let next = buyer.submit(&transcode(&upload)).await;
    buyer.until(&next, "succeeded").await;
}

#[tokio::test]
async fn a_real_agent_that_froze_learns_that_it_lost_and_sends_nothing() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let mut agent = slow_agent(&site, &gateway.url).await;
    let upload = buyer.upload(&film(60, 96, 64).await).await;
    let job = buyer.submit(&transcode(&upload)).await;
    site.becomes(&job, "active: running").await;
    agent.process().signal_tree(Signal::STOP);
    site.clock.advance(TTL).await;
    let mut other = site.device(&gateway, "other").await.connect(&gateway).await;
    let (offer, output) = other.lease_and_upload(&gateway, clip().await).await;
    assert_eq!(offer.attempt_number, 2);
    let answer = other.ask(commit(&offer, &output)).await;
    assert_won(&answer);
    agent.process().signal_tree(Signal::CONT);
    agent.is_idle().await;
    assert_eq!(site.statuses(&job).await, "succeeded: lost, succeeded");
    assert_eq!(buyer.download(&job).await, clip().await);
    let lost =
        format!("select output_key from attempts where job_id = '{job}' and status = 'lost'");
    assert!(
        !site.object(&site.db.text(&lost).await).exists(),
        "it was uploaded"
    );
}

#[tokio::test]
async fn an_upload_that_goes_on_after_its_lease_was_lost_is_never_served() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let (port, _relay) = slow_relay(gateway.port()).await;
    let mut agent = site.agent(&format!("http://127.0.0.1:{port}"), "mac").await;
    agent.start();
    let upload = buyer.upload(&film(6, 320, 240).await).await;
    let mut order = transcode(&upload);
    order["params"]["bitrate_kbps"] = json!(800);
    let job = buyer.submit(&order).await;
    site.becomes(&job, "active: uploading").await;
    agent.process().signal_tree(Signal::STOP);
    assert_eq!(outputs(&site), 0, "the upload was over already");
    site.clock.advance(TTL).await;

    let mut other = site.device(&gateway, "other").await.connect(&gateway).await;
    let offer = other.lease_in(Phase::Running).await;
    assert_eq!(offer.attempt_number, 2);
    agent.process().signal_tree(Signal::CONT);
    agent.is_idle().await;
    assert_eq!(outputs(&site), 0, "the lost attempt put something in place");
    other.ask(progress(&offer, Phase::Uploading)).await;
    gateway.put(&offer.output.url, clip().await).await;
    let answer = other
        .ask(commit(&offer, &declared(&offer, clip().await)))
        .await;
    assert_won(&answer);
    assert_eq!(site.statuses(&job).await, "succeeded: lost, succeeded");
    assert_eq!(buyer.download(&job).await, clip().await);
}

#[tokio::test]
async fn a_real_agent_outlives_the_restart_of_its_gateway_and_goes_on() {
    let site = Site::new().await;
    let mut gateway = site.gateway().await;
    let mut agent = slow_agent(&site, &gateway.url).await;
    let buyer = site.buyer(&gateway);
    let upload = buyer.upload(&film(6, 96, 64).await).await;
    let job = buyer.submit(&transcode(&upload)).await;
    site.becomes(&job, "active: running").await;
    gateway.stop().await;
    let address = format!("127.0.0.1:{}", gateway.port());
    let gateway = site.gateway_with(&[("http.bind", &address)]).await;
    let buyer = site.buyer(&gateway);
    buyer.until(&job, "succeeded").await;
    assert_eq!(site.statuses(&job).await, "succeeded: succeeded");
    let attempts = buyer.attempts(&job).await;
    assert!(
        attempts[0]["lease_epoch"].as_i64().unwrap() > 1,
        "{attempts:?}"
    );
    agent.is_idle().await;
}

#[tokio::test]
async fn a_real_agent_that_is_told_to_stop_gives_its_work_back_for_free() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let mut agent = slow_agent(&site, &gateway.url).await;
    let upload = buyer.upload(&film(60, 96, 64).await).await;
    let job = buyer.submit(&transcode(&upload)).await;
    site.becomes(&job, "active: running").await;
    agent.process().signal(Signal::TERM);
    let status = agent.process().wait().await;
    assert!(status.success(), "{status}:\n{}", agent.log());
    site.becomes(&job, "queued: lost").await;
    assert_eq!(buyer.job(&job).await["charged_attempts"], 0);
    assert_eq!(outputs(&site), 0);
}

/// A way to a port of this machine on which clients send slowly. Lives as long as what it gives.
async fn slow_relay(port: u16) -> (u16, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port is free");
    let own_port = listener.local_addr().expect("it is bound").port();
    let mut accepting = JoinSet::new();
    accepting.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((client, _)) = listener.accept().await {
            let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else {
                continue;
            };
            connections.spawn(async move {
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let slowly = async {
                    let mut chunk = vec![0; 8 * 1024];
                    while let Ok(length @ 1..) = from_client.read(&mut chunk).await {
                        if to_server.write_all(&chunk[..length]).await.is_err() {
                            return;
                        }
                        tokio::time::sleep(Duration::from_millis(length as u64 / 100)).await;
                    }
                };
                // Whichever side ends ends both, as a socket does that is closed.
                tokio::select! {
                    () = slowly => {}
                    _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
                }
            });
        }
    });
    (own_port, accepting)
}

#[tokio::test]
async fn a_real_agent_keeps_the_log_of_a_failed_run_until_it_is_told_that_the_time_is_over() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let mut agent = site.agent(&gateway.url, "mac").await;
    agent.start();
    let upload = buyer.upload(b"this is no film").await;
    let job = buyer.submit(&transcode(&upload)).await;
    buyer.until(&job, "failed").await;
    let kept = "select handle from workspaces where not leaked and reaped_at is null";
    until("a workspace that is handed over", || async {
        site.db.texts(kept).await.len() == 1
    })
    .await;
    agent.is_idle().await;
    let handle = site.db.text(kept).await;
    let folder = agent.path("kept").join(&handle);
    let log = std::fs::read_to_string(folder.join("run.log")).expect("it is kept");
    assert!(log.starts_with("input_invalid"), "{log}");
    let files = std::fs::read_dir(&folder).expect("it is kept").count();
    assert_eq!(files, 1, "the buyer's file is not kept");
    let attempts = buyer.attempts(&job).await;
    let events = attempts[0]["events"].as_array().expect("a list");
    let kinds: Vec<_> = events.iter().map(|event| &event["kind"]).collect();
    assert_eq!(kinds, ["run.started", "run.failed"]);
    assert_eq!(events[1]["payload"]["code"], "input_invalid");

    site.clock.advance(Duration::from_mins(15)).await;
    until("a workspace that is reaped", || async {
        site.db.texts(kept).await.is_empty()
    })
    .await;
    assert!(!folder.exists());
}
