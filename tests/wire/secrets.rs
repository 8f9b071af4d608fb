//! Secrets are where they belong, and nowhere else: no table, log, metric, answer or argument.

use std::cell::RefCell;

use fencepost_domain::attempt::Phase;
use fencepost_tests::agent_client::Device;
use fencepost_tests::agent_frames::{commit, fail, progress};
use fencepost_tests::agent_process::AgentProcess;
use fencepost_tests::buyer::{Buyer, clip, text, transcode};
use fencepost_tests::gateway::hex_sha256;
use fencepost_tests::wait::until_some;
use fencepost_tests::{Site, TestGateway};
use serde_json::{Value, json};

/// Secrets, or places to look for them, each with what it is.
pub(crate) type Named = Vec<(&'static str, String)>;

/// The part of a link that makes it one.
fn signature(link: &str) -> String {
    text(&Value::from(link.rsplit('.').next()))
}

/// A life by hand, with refusals and an agent's mistakes in it: its job, and what was secret in it.
async fn life_by_hand(site: &Site, gateway: &TestGateway, buyer: &Buyer) -> (String, Named) {
    let code = site.enrollment(None).await;
    let device = Device::pair(gateway, &code, "mac").await;
    let job = buyer.submit_noop().await;
    let mut session = device.connect(gateway).await;
    let (offer, output) = session.lease_and_upload(gateway, b"bytes").await;
    let token = offer.commit_token.expose();
    let digest = format!(
        "select encode(token_digest, 'hex') from attempts where id = '{}'",
        offer.attempt_id
    );
    assert_eq!(site.db.text(&digest).await, hex_sha256(token.as_bytes()));
    let mut stale = offer.clone();
    stale.lease_epoch = 9;
    session.ask(commit(&stale, &output)).await;
    session.ask(progress(&stale, Phase::Running)).await;
    session.ask(fail(&stale, "upload_failed")).await;
    for mistake in [
        json!({ "type": "commit", "commit_token": token }),
        json!({ "type": "commit", "commit_token": format!("{token}x"), "request_id": 1 }),
        json!({ "type": token, "request_id": token }),
    ] {
        session.say_text(mistake.to_string()).await;
    }
    session.ask(commit(&offer, &output)).await;
    let link = buyer.output_link(&job).await.unwrap_or_default();
    gateway.get(&link).await;
    gateway.get(&format!("{link}x")).await;
    let secrets = vec![
        ("an enrollment code", code),
        ("a device token", device.token.clone()),
        ("a commit token", token),
        ("a link to send an output", signature(&offer.output.url)),
        ("a link to an output", signature(&link)),
    ];
    (job, secrets)
}

/// A life by a real agent: its job, what was secret in it, and the arguments of all programs then.
async fn life_of(
    agent: &mut AgentProcess,
    gateway: &TestGateway,
    buyer: &Buyer,
) -> (String, Named, String) {
    let (upload, link) = buyer.new_upload(&json!({})).await;
    gateway.put(&link, clip().await).await;
    let job = buyer.submit(&transcode(&upload)).await;
    let held = agent.lease("a lease", |lease| lease["job_id"] == job).await;
    let (_, arguments) = done(agent, gateway, buyer, &job).await;
    agent.is_idle().await;
    let secrets = vec![
        ("a link to send a file", signature(&link)),
        ("a real agent's token", agent.device_token()),
        ("a real agent's commit token", text(&held["commit_token"])),
    ];
    (job, secrets, arguments)
}

/// Waits until a job has succeeded: it, and the arguments of all that its agent and gateway ran till then.
/// Not of the whole machine: other tests say in theirs what may be nowhere in these.
pub(crate) async fn done(
    agent: &mut AgentProcess,
    gateway: &TestGateway,
    buyer: &Buyer,
    job: &str,
) -> (Value, String) {
    let seen = RefCell::new(gateway.process.arguments());
    let agent = agent.process();
    let job = until_some("the job to be succeeded", || async {
        seen.borrow_mut().push_str(&agent.arguments());
        let job = buyer.job(job).await;
        (job["status"] == "succeeded").then_some(job)
    })
    .await;
    let seen = seen.into_inner();
    assert!(seen.contains("fencepost-agent run"), "{seen}");
    (job, seen)
}

#[tokio::test]
async fn no_secret_is_anywhere_but_with_its_owner() {
    let site = Site::new().await;
    let gateway = site.gateway_with(&[("telemetry.level", "debug")]).await;
    let buyer = site.buyer(&gateway);
    let (first, mut secrets) = life_by_hand(&site, &gateway, &buyer).await;
    let mut agent = site.agent(&gateway.url, "real").await;
    agent.start();
    let (second, more, arguments) = life_of(&mut agent, &gateway, &buyer).await;
    secrets.extend(more);
    secrets.push(("the API key", site.api_key.clone()));
    secrets.push(("the signing key", "k".repeat(40)));
    secrets.push(("the database's URL", site.db.url().to_owned()));

    let jobs = [first.as_str(), second.as_str()];
    let places = places(&site, &gateway, (&agent, arguments), (&buyer, jobs)).await;
    for (place, text) in &places {
        assert!(text.len() > 100, "{place} was not searched: {text}");
        for (what, secret) in &secrets {
            assert!(secret.len() > 20, "{what} is too short to be looked for");
            assert!(!text.contains(secret.as_str()), "{what} is in {place}");
        }
    }
}

/// All places where a secret might have come to lie, after the lives of two jobs.
pub(crate) async fn places(
    site: &Site,
    gateway: &TestGateway,
    (agent, arguments): (&AgentProcess, String),
    (buyer, jobs): (&Buyer, [&str; 2]),
) -> Named {
    let mut places: Named = vec![
        ("a table", site.db.dump().await),
        ("the gateway's log", gateway.process.log()),
        ("the agent's log", agent.log()),
        ("the metrics", gateway.metrics().await),
        ("an argument", arguments),
        (
            "the list of jobs",
            buyer.get("/v1/jobs").await.1.to_string(),
        ),
    ];
    for job in jobs {
        places.push(("a job", buyer.job(job).await.to_string()));
        let attempts = Value::from(buyer.attempts(job).await);
        places.push(("the attempts", attempts.to_string()));
    }
    places
}
