//! A bucket that goes away in the middle of things, and comes back.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_protocol::{Code, GatewayFrame};
use fencepost_tests::agent_frames::{assert_won, commit, declared};
use fencepost_tests::buyer::{Buyer, film, text, transcode};
use fencepost_tests::gateway::hex_sha256;
use fencepost_tests::wait::{PATIENCE, until, until_some};
use fencepost_tests::{Bucket, Site, TestGateway};
use futures_util::{StreamExt as _, stream};
use reqwest::{Body, StatusCode};
use serde_json::{Value, json};

use crate::s3_parts::{LARGE, PART, bytes, part_links, send};

/// Sends half of what it says that it sends, until the bucket goes away under it.
async fn cut_in_half(gateway: &TestGateway, bucket: &mut Bucket, link: &str, bytes: &[u8]) {
    let name = if link.contains("partNumber=") {
        "upload_part"
    } else {
        "put_object"
    };
    let mut held = bucket.inside.hold(name);
    let half = bytes[..bytes.len() / 2].to_vec();
    let half = stream::iter([Ok::<_, std::io::Error>(half)]).chain(stream::pending());
    let request = gateway
        .client
        .put(gateway.address(link))
        .header("content-length", bytes.len())
        .body(Body::wrap_stream(half));
    let sending = tokio::spawn(request.send());
    held.came().await;
    held.let_go();
    // What has come by now is written.
    tokio::time::sleep(Duration::from_millis(300)).await;
    bucket.go_away();
    let sent = tokio::time::timeout(PATIENCE, sending).await;
    let sent = sent.expect("it is cut off").expect("it does not panic");
    assert!(sent.is_err(), "half of it was taken: {sent:?}");
}

/// A refusal that asks to come back, with when.
async fn told_to_come_back(buyer: &Buyer, upload: &str) {
    let path = format!("/v1/uploads/{upload}/complete");
    let asking = buyer.post_raw(&path, "{}");
    let answer = tokio::time::timeout(PATIENCE, asking).await;
    let answer = answer.expect("it is answered");
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    let after = answer.headers()["retry-after"].to_str().expect("a text");
    assert!(after.parse::<u64>().expect("seconds") >= 1);
    let problem: Value = answer.json().await.expect("JSON");
    assert_eq!(
        (&problem["code"], &problem["retryable"]),
        (&json!("unavailable"), &json!(true))
    );
}

#[tokio::test]
async fn half_a_file_of_a_buyer_is_no_file_and_the_same_upload_can_be_completed_later() {
    let site = Site::new().await;
    let mut bucket = Bucket::start(site.folder.path()).await;
    let gateway = site.gateway_on(&bucket, &[]).await;
    let buyer = site.buyer(&gateway);
    let (upload, link) = buyer.new_upload(&json!({})).await;
    let bytes = bytes(1_000_000);
    cut_in_half(&gateway, &mut bucket, &link, &bytes).await;
    told_to_come_back(&buyer, &upload).await;
    bucket.come_back().await;
    let (status, problem) = buyer.complete(&upload).await;
    assert_eq!(
        (status, text(&problem["code"])),
        (StatusCode::CONFLICT, "upload_incomplete".to_owned())
    );
    let (status, problem) = buyer.post("/v1/jobs", &transcode(&upload)).await;
    assert_eq!(status, StatusCode::CONFLICT, "{problem}");
    assert!(gateway.put(&link, &bytes).await.status().is_success());
    let (status, completed) = buyer.complete(&upload).await;
    assert_eq!(status, StatusCode::OK, "{completed}");
    assert_eq!(completed["size_bytes"], bytes.len());
    assert_eq!(completed["sha256"], hex_sha256(&bytes));
    buyer.submit(&transcode(&upload)).await;
}

#[tokio::test]
async fn while_the_bucket_is_away_or_says_nothing_buyers_are_told_to_come_back_and_may_order() {
    let site = Site::new().await;
    let mut bucket = Bucket::start(site.folder.path()).await;
    let gateway = site.gateway_on(&bucket, &[]).await;
    let buyer = site.buyer(&gateway);
    let there = buyer.upload(b"it is there").await;
    let job = buyer.submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let (offer, output) = session.lease_and_upload(&gateway, b"output").await;
    session.ask(commit(&offer, &output)).await;
    let (sent, link) = buyer.new_upload(&json!({})).await;
    assert!(gateway.put(&link, b"it came").await.status().is_success());
    for is_silent in [false, true] {
        if is_silent {
            bucket.fall_silent().await;
        } else {
            bucket.go_away();
        }
        told_to_come_back(&buyer, &sent).await;
        // For what is stored nobody has to ask the bucket.
        assert_eq!(buyer.complete(&there).await.0, StatusCode::OK);
        buyer.new_upload(&json!({})).await;
        buyer.submit(&transcode(&there)).await;
        assert!(buyer.output_link(&job).await.is_ok());
        assert!(gateway.readiness().await.0);
    }
    bucket.come_back().await;
    assert_eq!(buyer.complete(&sent).await.0, StatusCode::OK);
    assert_eq!(buyer.download(&job).await, b"output");
}

#[tokio::test]
async fn half_a_part_is_no_part_and_costs_one_attempt_only_if_it_is_committed_so() {
    let site = Site::new().await;
    let mut bucket = Bucket::start(site.folder.path()).await;
    let gateway = site.gateway_on(&bucket, &LARGE).await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let bytes = bytes(2 * PART + 1_000);
    for is_mended in [false, true] {
        let offer = session.lease_in(Phase::Uploading).await;
        let links = part_links(&mut session, &offer, 1).await;
        send(&gateway, &links, &bytes, &[1, 3]).await;
        let second = &bytes[PART..2 * PART];
        cut_in_half(&gateway, &mut bucket, &links.urls[1], second).await;
        bucket.come_back().await;
        if is_mended {
            // By the same link, into the same upload.
            send(&gateway, &links, &bytes, &[2]).await;
            assert_eq!(bucket.inside.unfinished(), 2);
        }
        let answer = session.ask(commit(&offer, &declared(&offer, &bytes))).await;
        if is_mended {
            assert_won(&answer);
            continue;
        }
        let GatewayFrame::CommitRejected { code, .. } = answer else {
            panic!("{answer:?}")
        };
        assert_eq!(code, Code::UploadFailed);
        assert_eq!(site.statuses(&job).await, "queued: failed");
        site.pass(Duration::from_secs(12)).await;
    }
    assert_eq!(site.statuses(&job).await, "succeeded: failed, succeeded");
    assert_eq!(buyer.job(&job).await["charged_attempts"], 1);
    assert_eq!(hex_sha256(&buyer.download(&job).await), hex_sha256(&bytes));
}

#[tokio::test]
async fn a_whole_file_of_an_agent_that_was_cut_off_can_be_sent_again_under_the_same_lease() {
    let site = Site::new().await;
    let mut bucket = Bucket::start(site.folder.path()).await;
    let gateway = site.gateway_on(&bucket, &[]).await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = session.lease_in(Phase::Uploading).await;
    let bytes = bytes(1_000_000);
    cut_in_half(&gateway, &mut bucket, &offer.output.url, &bytes).await;
    bucket.come_back().await;
    let object = site.object(&offer.output.object_key);
    assert!(!object.exists(), "half of it is there");
    assert!(
        gateway
            .put(&offer.output.url, &bytes)
            .await
            .status()
            .is_success()
    );
    let answer = session.ask(commit(&offer, &declared(&offer, &bytes))).await;
    assert_won(&answer);
    assert_eq!(buyer.job(&job).await["charged_attempts"], 0);
    assert_eq!(buyer.download(&job).await, bytes);
}

#[tokio::test]
async fn a_real_agent_whose_bucket_dies_in_the_middle_of_a_part_goes_on_when_it_is_back() {
    let site = Site::new().await;
    let mut bucket = Bucket::start(site.folder.path()).await;
    let gateway = site.gateway_on(&bucket, &LARGE).await;
    let buyer = site.buyer(&gateway);
    let upload = buyer.upload(&film(8, 640, 360).await).await;
    let mut order = transcode(&upload);
    order["params"] = json!({ "codec": "prores" });
    let mut agent = site.agent(&gateway.url, "mac").await;
    agent.start();
    let mut held = bucket.inside.hold("upload_part");
    let job = buyer.submit(&order).await;
    held.came().await;
    bucket.go_away();
    held.let_go();
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(site.statuses(&job).await, "active: uploading");
    bucket.come_back().await;
    let seen = buyer.until(&job, "succeeded").await;
    assert_eq!(site.statuses(&job).await, "succeeded: succeeded");
    assert_eq!(seen["charged_attempts"], 0);
    assert_eq!(bucket.inside.unfinished(), 0);
    let sha256 = hex_sha256(&buyer.download(&job).await);
    assert_eq!(seen["output"]["sha256"], sha256);
    agent.is_idle().await;
}

/// How often a verification came to nothing so far, and was put off.
fn put_off(gateway: &TestGateway) -> usize {
    let log = gateway.process.log();
    log.matches("checked again later").count()
}

#[tokio::test]
async fn a_bucket_that_is_away_for_minutes_of_pick_ups_costs_no_attempt() {
    let site = Site::new().await;
    let mut bucket = Bucket::start(site.folder.path()).await;
    let gateway = site.gateway_on(&bucket, &LARGE).await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = session.lease_in(Phase::Uploading).await;
    let bytes = bytes(PART + 1_000);
    let links = part_links(&mut session, &offer, 1).await;
    send(&gateway, &links, &bytes, &[1, 2]).await;
    // It dies when it is to make one object of them.
    let mut held = bucket.inside.hold("complete_multipart_upload");
    let asked = session.say(commit(&offer, &declared(&offer, &bytes))).await;
    held.came().await;
    bucket.go_away();
    held.let_go();
    for (pick_ups, pause) in [(1, 5), (2, 20), (3, 80)] {
        until(&format!("pick-up {pick_ups} to fail"), || async {
            put_off(&gateway) == pick_ups
        })
        .await;
        assert_eq!(site.statuses(&job).await, "verifying: committing");
        if pick_ups < 3 {
            site.pass(Duration::from_secs(pause)).await;
        }
    }
    bucket.come_back().await;
    site.pass(Duration::from_secs(80)).await;
    let answer = session.answer(asked).await.frame;
    assert_won(&answer);
    assert_eq!(site.statuses(&job).await, "succeeded: succeeded");
    assert_eq!(buyer.job(&job).await["charged_attempts"], 0);
    assert_eq!(hex_sha256(&buyer.download(&job).await), hex_sha256(&bytes));
}

#[tokio::test]
async fn gateways_that_die_while_the_bucket_is_away_hand_a_verification_on() {
    let site = Site::new().await;
    let mut bucket = Bucket::start(site.folder.path()).await;
    let mut gateways = Vec::new();
    for _ in 0..4 {
        gateways.push(site.gateway_on(&bucket, &[]).await);
    }
    let first = &gateways[0];
    let job = site.buyer(first).submit_noop().await;
    let mut session = site.device(first, "mac").await.connect(first).await;
    let (offer, output) = session.lease_and_upload(first, b"whole").await;
    bucket.go_away();
    session.say(commit(&offer, &output)).await;
    site.becomes(&job, "verifying: committing").await;
    let mut holder = 0;
    for pick_up in 2..=4 {
        gateways.remove(holder).kill();
        let epoch = format!("select verification_epoch from attempts where job_id = '{job}'");
        until("the next one to pick it up", || async {
            // Silences after which another gateway takes over.
            site.pass(Duration::from_secs(3)).await;
            site.db.text(&epoch).await == pick_up.to_string()
        })
        .await;
        assert_eq!(site.statuses(&job).await, "verifying: committing");
        let took_over = |one: &TestGateway| one.process.log().contains("is taken over");
        holder = until_some("one that says so", || async {
            gateways.iter().position(took_over)
        })
        .await;
    }
    bucket.come_back().await;
    site.becomes(&job, "succeeded: succeeded").await;
    let last = site.buyer(&gateways[0]);
    assert_eq!(last.download(&job).await, b"whole");
}
