//! A bucket that is away for a whole minute, as the machine's clock counts it: nothing is lost, and
//! nobody is charged.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_protocol::{AgentFrame, GatewayFrame, LeaseOffer, OutputDeclaration};
use fencepost_tests::agent_client::Session;
use fencepost_tests::agent_frames::{commit, declared};
use fencepost_tests::buyer::{clip, transcode};
use fencepost_tests::{Bucket, Site, TestGateway};
use reqwest::StatusCode;
use serde_json::json;
use tokio::time::Instant;

const MINUTE: Duration = Duration::from_mins(1);
/// After the bucket is back, the next try is at most a pause of eighty seconds away.
const RECOVERED: Duration = Duration::from_mins(4);
const PART: usize = 5 * 1024 * 1024;
const SETTINGS: [(&str, &str); 2] = [
    ("artifacts.max_upload_bytes", "40000000"),
    ("artifacts.s3.part_bytes", "5242880"),
];

/// A lease whose output was sent in parts.
async fn in_parts(
    session: &mut Session,
    gateway: &TestGateway,
    bytes: &[u8],
) -> (LeaseOffer, OutputDeclaration) {
    let offer = session.lease_in(Phase::Uploading).await;
    let grant = AgentFrame::Grant {
        lease: offer.lease(),
        name: "output".to_owned(),
        direction: "put".to_owned(),
        first_part: Some(1),
    };
    let GatewayFrame::Granted {
        parts: Some(links), ..
    } = session.ask(grant).await
    else {
        panic!("no links to parts")
    };
    for (part, link) in bytes.chunks(PART).zip(&links.urls) {
        assert!(gateway.put(link, part).await.status().is_success());
    }
    let output = declared(&offer, bytes);
    (offer, output)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_is_away_for_a_whole_minute_costs_nobody_anything() {
    let site = Site::new().await;
    let mut bucket = Bucket::start(site.folder.path()).await;
    site.clock.run().await;
    let gateway = site.gateway_on(&bucket, &SETTINGS).await;
    let buyer = site.buyer(&gateway);
    let upload = buyer.upload(clip().await).await;
    let (sent, link) = buyer.new_upload(&json!({})).await;
    assert!(gateway.put(&link, b"a film").await.status().is_success());
    let (whole, parts) = (buyer.submit_noop().await, buyer.submit_noop().await);
    let mut session = site
        .device(&gateway, "by hand")
        .await
        .connect(&gateway)
        .await;
    let (first, output) = session.lease_and_upload(&gateway, b"whole").await;
    let large: Vec<u8> = (0..PART + 1_000).map(|at| (at % 251) as u8).collect();
    let (second, large_output) = in_parts(&mut session, &gateway, &large).await;
    bucket.go_away();
    let began = Instant::now();
    session.say(commit(&first, &output)).await;
    session.say(commit(&second, &large_output)).await;
    let fetching = buyer.submit(&transcode(&upload)).await;
    let mut agent = site.agent(&gateway.url, "mac").await;
    agent.start();
    site.becomes(&fetching, "active: downloading").await;
    let mut refused = 0;
    while began.elapsed() < MINUTE {
        let (status, problem) = buyer.complete(&sent).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{problem}");
        refused += 1;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    for job in [&whole, &parts] {
        assert_eq!(site.statuses(job).await, "verifying: committing");
    }
    bucket.come_back().await;
    assert_eq!(buyer.complete(&sent).await.0, StatusCode::OK);
    let back = Instant::now();
    for job in [&whole, &parts, &fetching] {
        while site.statuses(job).await != "succeeded: succeeded" {
            let is_late = back.elapsed() > RECOVERED;
            assert!(!is_late, "{job}: {}", site.statuses(job).await);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        assert_eq!(buyer.job(job).await["charged_attempts"], 0);
    }
    assert_eq!(buyer.download(&whole).await, b"whole");
    assert!(buyer.download(&parts).await == large, "other bytes");
    agent.is_idle().await;
    println!(
        "soak: a bucket away for {} s, {refused} buyers told to come back; all 3 jobs: succeeded {} s after it was back",
        MINUTE.as_secs(),
        back.elapsed().as_secs()
    );
}
