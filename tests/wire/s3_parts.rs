//! Large outputs in parts, a bucket that is away, and what is cleaned up in it.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_protocol::{AgentFrame, Code, GatewayFrame, LeaseOffer, PartLinks};
use fencepost_store::artifacts::{ArtifactStore, Bucket as OwnBucket};
use fencepost_tests::agent_client::Session;
use fencepost_tests::agent_frames::{assert_won, commit, declared};
use fencepost_tests::buyer::{clip, film, text, transcode};
use fencepost_tests::gateway::hex_sha256;
use fencepost_tests::wait::until;
use fencepost_tests::{Bucket, Site, TestGateway};
use reqwest::StatusCode;
use serde_json::json;

pub(crate) const PART: usize = 5 * 1024 * 1024;
/// Outputs that need parts, and the smallest ones that S3 takes.
pub(crate) const LARGE: [(&str, &str); 2] = [
    ("artifacts.max_upload_bytes", "40000000"),
    ("artifacts.s3.part_bytes", "5242880"),
];
/// After this, no link and no transfer is left, and what a collector put off by an hour is due too.
const LATER: Duration = Duration::from_hours(8);

/// Bytes of which no two parts are the same.
pub(crate) fn bytes(length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| u8::try_from(at / PART * 50 + at % 47).expect("small"))
        .collect()
}

pub(crate) async fn part_links(session: &mut Session, offer: &LeaseOffer, first: u32) -> PartLinks {
    let grant = AgentFrame::Grant {
        lease: offer.lease(),
        name: "output".to_owned(),
        direction: "put".to_owned(),
        first_part: Some(first),
    };
    match session.ask(grant).await {
        GatewayFrame::Granted {
            parts: Some(parts), ..
        } => parts,
        other => panic!("no parts: {other:?}"),
    }
}

/// Sends these parts, by number from 1.
pub(crate) async fn send(
    gateway: &TestGateway,
    links: &PartLinks,
    bytes: &[u8],
    numbers: &[usize],
) {
    for number in numbers {
        let part = bytes.chunks(PART).nth(number - 1).expect("there is one");
        let sent = gateway.put(&links.urls[number - 1], part).await;
        assert!(sent.status().is_success(), "{sent:?}");
    }
}

#[tokio::test]
async fn parts_become_an_object_only_when_they_are_committed() {
    let site = Site::new().await;
    let bucket = Bucket::start(site.folder.path()).await;
    let gateway = site.gateway_on(&bucket, &LARGE).await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = session.lease_in(Phase::Uploading).await;
    assert_eq!(offer.output.parts_above, Some(PART as u64));
    let bytes = bytes(2 * PART + 1_000);
    let links = part_links(&mut session, &offer, 1).await;
    assert_eq!((links.part_bytes, links.first_part), (PART as u64, 1));
    // An earlier run made more of it; and the same upload goes on whoever asks again.
    let more = part_links(&mut session, &offer, 4).await;
    assert!(
        gateway
            .put(&more.urls[0], b"too much")
            .await
            .status()
            .is_success()
    );
    send(&gateway, &links, &bytes, &[3, 1, 2]).await;
    assert_eq!(bucket.inside.unfinished(), 1);
    let object = site.object(&offer.output.object_key);
    assert!(!object.exists(), "nobody has committed it");
    // The answer to the completion is lost.
    bucket.inside.lose_completions(1);
    let answer = session.ask(commit(&offer, &declared(&offer, &bytes))).await;
    assert_won(&answer);
    assert_eq!(hex_sha256(&buyer.download(&job).await), hex_sha256(&bytes));
    assert_eq!(bucket.inside.unfinished(), 0);
}

#[tokio::test]
async fn a_missing_part_is_a_failed_upload_and_all_of_it_is_cleared_away_later() {
    let site = Site::new().await;
    let bucket = Bucket::start(site.folder.path()).await;
    let gateway = site.gateway_on(&bucket, &LARGE).await;
    let buyer = site.buyer(&gateway);
    let before = site.objects().len();
    let job = buyer.submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = session.lease_in(Phase::Uploading).await;
    let bytes = bytes(2 * PART + 1_000);
    let links = part_links(&mut session, &offer, 1).await;
    send(&gateway, &links, &bytes, &[1, 3]).await;
    // Uploads whose names were lost when a gateway died; more than a page of them.
    let own = OwnBucket::open(bucket.settings_of_store(PART as u64)).expect("it opens");
    for _ in 0..3 {
        own.begin_parts(&offer.output.object_key)
            .await
            .expect("it begins");
    }
    let other = own
        .begin_parts("outputs/of-somebody-else")
        .await
        .expect("it begins");
    let answer = session.ask(commit(&offer, &declared(&offer, &bytes))).await;
    let GatewayFrame::CommitRejected { code, .. } = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(code, Code::UploadFailed);
    assert_eq!(buyer.cancel(&job).await.0, "cancelled");
    assert_eq!(bucket.inside.unfinished(), 5);
    site.clock.advance(LATER).await;
    until("unfinished uploads to be ended", || async {
        bucket.inside.unfinished() == 1
    })
    .await;
    own.abandon_parts("outputs/of-somebody-else", &other)
        .await
        .expect("it is still there");
    assert_eq!(site.objects().len(), before);
    assert_eq!(buyer.balance().await.1, 0, "nothing is held");
}

#[tokio::test]
async fn what_loses_is_cleared_away_twice_and_what_won_stays() {
    let site = Site::new().await;
    let bucket = Bucket::start(site.folder.path()).await;
    let gateway = site.gateway_on(&bucket, &[]).await;
    let buyer = site.buyer(&gateway);
    let (abandoned, link) = buyer.new_upload(&json!({})).await;
    assert!(
        gateway
            .put(&link, b"never completed")
            .await
            .status()
            .is_success()
    );
    let kept = buyer.upload(clip().await).await;
    let job = buyer.submit(&transcode(&kept)).await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let (offer, output) = session.lease_and_upload(&gateway, clip().await).await;
    let answer = session.ask(commit(&offer, &output)).await;
    assert_won(&answer);
    let late = "comes after the first pass";
    for pass in 0..2 {
        assert!(
            gateway
                .put(&offer.output.url, late.as_bytes())
                .await
                .status()
                .is_success()
        );
        assert!(
            gateway
                .put(&link, late.as_bytes())
                .await
                .status()
                .is_success()
        );
        site.clock.advance(LATER).await;
        site.believe_the_clock().await;
        // The upload's bytes and the output: nothing else.
        until(&format!("pass {pass} to leave two objects"), || async {
            site.objects().len() == 2
        })
        .await;
    }
    assert_eq!(buyer.download(&job).await, clip().await);
    let (status, problem) = buyer.complete(&abandoned).await;
    let code = text(&problem["code"]);
    assert_eq!(
        (status, &*code),
        (StatusCode::CONFLICT, "upload_incomplete")
    );
    assert_eq!(buyer.complete(&kept).await.0, StatusCode::OK);
    buyer.submit(&transcode(&kept)).await;
}

#[tokio::test]
async fn a_bucket_that_is_away_for_a_while_costs_no_attempt() {
    let site = Site::new().await;
    let mut bucket = Bucket::start(site.folder.path()).await;
    let gateway = site.gateway_on(&bucket, &LARGE).await;
    let buyer = site.buyer(&gateway);
    let upload = buyer.upload(clip().await).await;
    // While its output is verified.
    let job = buyer.submit_noop().await;
    let mut session = site
        .device(&gateway, "by hand")
        .await
        .connect(&gateway)
        .await;
    let (offer, output) = session.lease_and_upload(&gateway, b"whole").await;
    bucket.go_away();
    let asked = session.say(commit(&offer, &output)).await;
    site.becomes(&job, "verifying: committing").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(site.statuses(&job).await, "verifying: committing");
    bucket.come_back().await;
    let answer = session.answer(asked).await.frame;
    assert_won(&answer);
    assert_eq!(buyer.download(&job).await, b"whole");
    session.cut().await;

    // While a Mac fetches its input; and buyers are told to come back.
    bucket.go_away();
    let job = buyer.submit(&transcode(&upload)).await;
    let mut agent = site.agent(&gateway.url, "mac").await;
    agent.start();
    site.becomes(&job, "active: downloading").await;
    // Longer than four tries of a transfer that fails.
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(site.statuses(&job).await, "active: downloading");
    bucket.come_back().await;
    buyer.until(&job, "succeeded").await;
    assert_eq!(site.statuses(&job).await, "succeeded: succeeded");
    assert_eq!(buyer.job(&job).await["charged_attempts"], 0);
}

#[tokio::test]
async fn a_real_agent_sends_a_large_output_in_parts_and_refused_ones_again() {
    let site = Site::new().await;
    let bucket = Bucket::start(site.folder.path()).await;
    let level = ("telemetry.level", "debug");
    let gateway = site.gateway_on(&bucket, &[LARGE[0], LARGE[1], level]).await;
    let buyer = site.buyer(&gateway);
    let mut agent = site.agent(&gateway.url, "mac").await;
    agent.start();
    let upload = buyer.upload(&film(8, 640, 360).await).await;
    let mut order = transcode(&upload);
    order["params"] = json!({ "codec": "prores" });
    bucket.inside.refuse_part(2, 2);
    let job = buyer.submit(&order).await;
    let seen = buyer.until(&job, "succeeded").await;
    assert!(
        seen["output"]["size_bytes"].as_u64().unwrap() > PART as u64,
        "{seen}"
    );
    assert!(bucket.inside.parts_taken() >= 2);
    assert_eq!(site.statuses(&job).await, "succeeded: succeeded");
    agent.is_idle().await;
    // Links and keys are with their owners only.
    let places = [
        ("a table", site.db.dump().await),
        ("the gateway's log", gateway.process.log()),
        ("the agent's log", agent.log()),
        ("the metrics", gateway.metrics().await),
    ];
    for (place, text) in &places {
        assert!(text.len() > 100, "{place} was not searched");
        for secret in ["X-Amz-Signature", "X-Amz-Credential", Bucket::secret()] {
            assert!(!text.contains(secret), "{secret} is in {place}");
        }
    }
}

#[tokio::test]
async fn a_copy_of_many_parts_is_the_same_bytes_and_is_not_cleared_away_with_others() {
    let site = Site::new().await;
    let bucket = Bucket::start(site.folder.path()).await;
    let own = OwnBucket::open(bucket.settings_of_store(PART as u64)).expect("it opens");
    let store = ArtifactStore::in_bucket(own);
    let bytes = bytes(2 * PART + 1_000);
    std::fs::create_dir_all(site.object("outputs")).unwrap();
    std::fs::write(site.object("outputs/large"), &bytes).unwrap();
    let first = store
        .seal("outputs/large", "verified/a")
        .await
        .expect("it is copied");
    let found = store.digest(&first).await.expect("it can be read");
    assert_eq!(found.sha256_hex(), hex_sha256(&bytes));
    assert_eq!(bucket.inside.unfinished(), 0);
    std::fs::write(site.object("outputs/large"), b"other").unwrap();
    let other = store
        .seal("outputs/large", "verified/b")
        .await
        .expect("it is copied");
    store
        .remove_copies("verified/a", Some(&first))
        .await
        .expect("they go");
    store
        .remove_copies("verified/b", Some(&first))
        .await
        .expect("they go");
    assert_eq!(store.digest(&first).await.expect("it stays"), found);
    assert!(store.size(&other).await.is_err());
}
