//! Following a job, and what Ctrl-C does meanwhile.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::ids::EventId;
use fencepost_tests::agent_frames::{event, fail};
use fencepost_tests::terminal::{Terminal, complaint, lines};
use fencepost_tests::wait::until;
use fencepost_tests::{Line, Proxy, Site};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{at_port, path, terminal};

fn numbers(lines: &[Value]) -> Vec<i64> {
    lines
        .iter()
        .filter_map(|line| line["seq"].as_i64())
        .collect()
}

#[tokio::test]
async fn a_watch_goes_on_through_cut_connections_and_says_everything_once() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let proxy = Proxy::to(gateway.port()).await;
    let job = site.buyer(&gateway).submit_noop().await;
    let mut mac = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = mac.lease_in(Phase::Running).await;
    let log = site.folder.path().join("watch.log");
    let mut watch = at_port(&site, proxy.port()).start(&["watch", &job, "--json"], &log);
    for seq in 0..3 {
        mac.ask(event(&offer, EventId::new(), seq)).await;
        until("the event to be told", || async {
            watch.log().contains(&format!("\"seq\":{}", seq + 1))
        })
        .await;
        proxy.cut();
    }
    mac.ask(fail(&offer, "runner_failed")).await;
    let status = watch.wait().await;
    assert_eq!(status.code(), Some(3), "{}", watch.log());
    let told = lines(watch.log().as_bytes());
    assert_eq!(numbers(&told), [1, 2, 3, 4]);
    let types: Vec<_> = told
        .iter()
        .filter_map(|line| line["type"].as_str())
        .collect();
    assert_eq!(types.last(), Some(&"job"));
    let error = &told.last().unwrap();
    let error = if error["error"].is_null() {
        &told[told.len() - 2]
    } else {
        error
    };
    assert_eq!(error["error"]["exit_code"], 3);
}

#[tokio::test]
async fn each_end_has_its_exit_code() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let terminal = terminal(&site, &gateway);
    let buyer = site.buyer(&gateway);
    let cancelled = buyer.submit_noop().await;
    let told = terminal.json(&["cancel", &cancelled], 0).await;
    assert_eq!(
        (&told[0]["status"], &told[0]["changed"]),
        (&json!("cancelled"), &json!(true))
    );
    terminal.json(&["cancel", &cancelled], 0).await;
    terminal.json(&["watch", &cancelled], 4).await;
    terminal.json(&["download", &cancelled], 4).await;
    let waiting = buyer.submit_noop().await;
    let got = terminal.json(&["get", &waiting], 0).await;
    assert_eq!(got[0]["status"], "queued");
    // Not ready, not there, not understood.
    terminal.json(&["download", &waiting], 2).await;
    terminal
        .json(&["watch", "00000000-0000-0000-0000-000000000000"], 2)
        .await;
    terminal.json(&["watch", "x"], 2).await;
    let output = terminal
        .run(&["submit", "--service", "noop.v1", "--max-attempts", "99"])
        .await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let told = complaint(&output);
    assert!(
        told.contains("max_attempts: must be") && told.contains("request 01"),
        "{told}"
    );
    assert!(!told.contains(&site.api_key), "{told}");
    // Nobody there, nobody known, no key, no safe way to send it.
    let nobody = at_port(&site, 1);
    nobody.json(&["list", "--patience", "1ms"], 5).await;
    let stranger = Terminal::new(&gateway.url, "fp_live_nobody");
    stranger.json(&["list"], 2).await;
    Terminal::new(&gateway.url, "").json(&["list"], 2).await;
    let in_clear = Terminal::new("http://fencepost.example", &site.api_key);
    in_clear.json(&["list"], 2).await;
}

#[tokio::test]
async fn ctrl_c_leaves_the_job_or_cancels_it_if_asked_to() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let terminal = terminal(&site, &gateway);
    let log = site.folder.path().join("submit.log");
    let mut waiting = terminal.start(&["submit", "--service", "noop.v1", "--wait"], &log);
    until("it waits", || async { waiting.log().contains("queued") }).await;
    waiting.signal(Signal::INT);
    let status = waiting.wait().await;
    assert_eq!(
        (status.code(), status.signal()),
        (Some(130), None),
        "{}",
        waiting.log()
    );
    let job = site.db.text("select id from jobs").await;
    assert!(
        waiting
            .log()
            .contains(&format!("fencepost job watch {job}")),
        "{}",
        waiting.log()
    );
    assert_eq!(site.statuses(&job).await, "queued: none");
    let log = site.folder.path().join("watch.log");
    let mut waiting = terminal.start(&["watch", &job, "--cancel-on-interrupt"], &log);
    until("it waits", || async { waiting.log().contains("queued") }).await;
    waiting.signal(Signal::INT);
    assert_eq!(waiting.wait().await.code(), Some(4), "{}", waiting.log());
    assert_eq!(site.statuses(&job).await, "cancelled: none");
}

#[tokio::test]
async fn ctrl_c_says_what_was_sent_and_ordered_until_then() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let film = path(&site, "film.mp4");
    std::fs::write(&film, vec![7; 1_900_000]).unwrap();
    let slow = Line::to(gateway.port()).await;
    slow.delay(Duration::from_millis(20));
    let input = format!("source={film}");
    let words = [
        "submit",
        "--service",
        "transcode.v1",
        "--param",
        "codec=h264",
        "--input",
        &input,
    ];
    let log = site.folder.path().join("submit.log");
    let mut submit = at_port(&site, slow.port()).start(&words, &log);
    until("a place for the file", || async {
        site.db.text("select count(*)::text from uploads").await == "1"
    })
    .await;
    submit.signal(Signal::INT);
    assert_eq!(submit.wait().await.code(), Some(130), "{}", submit.log());
    let told = submit.log();
    assert!(
        told.contains("nothing was ordered") && told.contains("not sent whole"),
        "{told}"
    );
    assert_eq!(site.db.text("select count(*)::text from jobs").await, "0");
}

#[tokio::test]
async fn a_second_ctrl_c_does_not_wait_for_a_cancel_that_nobody_answers() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let job = site.buyer(&gateway).submit_noop().await;
    let line = Line::to(gateway.port()).await;
    let log = site.folder.path().join("watch.log");
    let words = ["watch", &job, "--cancel-on-interrupt", "--patience", "1h"];
    let mut watch = at_port(&site, line.port()).start(&words, &log);
    until("it waits", || async { watch.log().contains("queued") }).await;
    line.black_hole(true);
    watch.signal(Signal::INT);
    until("it cancels", || async {
        watch.log().contains("cancelling the job")
    })
    .await;
    watch.signal(Signal::INT);
    assert_eq!(watch.wait().await.code(), Some(130), "{}", watch.log());
    assert_eq!(site.statuses(&job).await, "queued: none");
}
