//! Objects in a bucket: bytes go past the gateway, and only what was verified is served.

use fencepost_protocol::GatewayFrame;
use fencepost_tests::agent_frames::{assert_won, commit};
use fencepost_tests::buyer::{clip, film, text, transcode};
use fencepost_tests::gateway::hex_sha256;
use fencepost_tests::processes::Process;
use fencepost_tests::{Bucket, Site};
use reqwest::StatusCode;
use serde_json::json;

#[tokio::test]
async fn a_real_agent_does_a_real_job_past_the_gateway() {
    let site = Site::new().await;
    let bucket = Bucket::start(site.folder.path()).await;
    let gateway = site.gateway_on(&bucket, &[]).await;
    let buyer = site.buyer(&gateway);
    let mut agent = site.agent(&gateway.url, "mac").await;
    agent.start();
    let upload = buyer.upload(&film(3, 96, 64).await).await;
    let mut order = transcode(&upload);
    order["params"]["height"] = json!(32);
    let job = buyer.submit(&order).await;
    buyer.until(&job, "succeeded").await;
    assert_eq!(site.statuses(&job).await, "succeeded: succeeded");
    let link = buyer.output_link(&job).await.expect("there is an output");
    assert!(link.starts_with(&bucket.endpoint()), "{link}");
    let answer = gateway.get(&link).await;
    assert_eq!(answer.status(), StatusCode::OK);
    let named = format!("attachment; filename=\"{job}.mp4\"");
    assert_eq!(answer.headers()["content-disposition"], *named);
    assert_eq!(answer.headers()["content-type"], "application/octet-stream");
    assert!(answer.bytes().await.expect("a body").len() > 1_000);
    agent.is_idle().await;
}

#[tokio::test]
async fn what_is_written_after_the_commit_is_never_served() {
    let site = Site::new().await;
    let bucket = Bucket::start(site.folder.path()).await;
    let gateway = site.gateway_on(&bucket, &[]).await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let (offer, output) = session.lease_and_upload(&gateway, b"verified").await;
    let answer = session.ask(commit(&offer, &output)).await;
    assert_won(&answer);
    // Nobody can take the link back.
    let again = gateway.put(&offer.output.url, b"swapped!").await;
    assert!(again.status().is_success());
    assert_eq!(
        std::fs::read(site.object(&offer.output.object_key)).unwrap(),
        b"swapped!"
    );
    assert_eq!(buyer.download(&job).await, b"verified");
}

#[tokio::test]
async fn a_buyers_file_is_what_was_read_when_it_was_completed() {
    let site = Site::new().await;
    let bucket = Bucket::start(site.folder.path()).await;
    let gateway = site.gateway_on(&bucket, &[]).await;
    let buyer = site.buyer(&gateway);
    let (upload, link) = buyer.new_upload(&json!({})).await;
    let order = transcode(&upload);
    let (status, problem) = buyer.complete(&upload).await;
    assert_eq!(
        (status, text(&problem["code"])),
        (StatusCode::CONFLICT, "upload_incomplete".into())
    );
    assert!(gateway.put(&link, b"first").await.status().is_success());
    let (status, problem) = buyer.post("/v1/jobs", &order).await;
    assert_eq!(
        (status, text(&problem["code"])),
        (StatusCode::CONFLICT, "upload_incomplete".into())
    );
    let (status, completed) = buyer.complete(&upload).await;
    assert_eq!(status, StatusCode::OK, "{completed}");
    assert_eq!(completed["sha256"], hex_sha256(b"first"));
    assert_eq!(completed["size_bytes"], 5);
    // The link can still be used, and changes nothing.
    assert!(gateway.put(&link, b"other").await.status().is_success());
    assert_eq!(buyer.complete(&upload).await.1, completed);
    let job = buyer.submit(&order).await;
    assert_eq!(
        buyer.job(&job).await["inputs"]["source"]["upload_id"],
        upload
    );
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = session
        .lease_in(fencepost_domain::attempt::Phase::Downloading)
        .await;
    assert!(offer.inputs[0].url.starts_with(&bucket.endpoint()));
    let input = gateway.get(&offer.inputs[0].url).await;
    assert_eq!(input.bytes().await.expect("a body").as_ref(), b"first");
}

#[tokio::test]
async fn who_completes_what_another_gateway_has_just_completed_is_told_what_arrived() {
    let site = Site::new().await;
    let bucket = Bucket::start(site.folder.path()).await;
    let gateway = site.gateway_on(&bucket, &[]).await;
    let buyer = site.buyer(&gateway);
    let (upload, link) = buyer.new_upload(&json!({})).await;
    assert!(gateway.put(&link, b"first").await.status().is_success());
    let mut looking = bucket.inside.hold("head_object");
    // What the other one does: it writes down its copy, and takes away what was sent.
    let the_other = async {
        looking.came().await;
        let completed = format!(
            "update uploads set object_key = 'uploads/{upload}/copy/1', size_bytes = 5,
                sha256 = sha256('first'), stored_at = authority_now() where id = '{upload}'"
        );
        assert_eq!(site.db.execute(&completed).await, 1);
        let sent = site.object(&format!("incoming/{upload}"));
        std::fs::remove_file(sent).expect("it was there");
        looking.let_go();
    };
    let ((status, completed), ()) = tokio::join!(buyer.complete(&upload), the_other);
    assert_eq!(status, StatusCode::OK, "{completed}");
    assert_eq!(completed["sha256"], hex_sha256(b"first"));
}

#[tokio::test]
async fn a_buyer_who_says_what_will_come_is_held_to_it() {
    let site = Site::new().await;
    let bucket = Bucket::start(site.folder.path()).await;
    let gateway = site.gateway_on(&bucket, &[]).await;
    let buyer = site.buyer(&gateway);
    let declared = json!({ "size_bytes": 5, "sha256": hex_sha256(b"right") });
    let (status, upload) = buyer.post("/v1/uploads", &declared).await;
    assert_eq!(status, StatusCode::CREATED, "{upload}");
    let (header, value) = upload["headers"]
        .as_object()
        .unwrap()
        .iter()
        .next()
        .unwrap();
    let send = |bytes: &'static [u8], with_header: bool| {
        let mut request = gateway.client.put(text(&upload["url"])).body(bytes);
        if with_header {
            request = request.header(header, text(value));
        }
        request.send()
    };
    assert!(
        !send(b"right", false).await.unwrap().status().is_success(),
        "no header"
    );
    assert!(
        !send(b"wrong", true).await.unwrap().status().is_success(),
        "other bytes"
    );
    assert!(send(b"right", true).await.unwrap().status().is_success());
    let id = text(&upload["upload_id"]);
    let (status, completed) = buyer.complete(&id).await;
    assert_eq!(status, StatusCode::OK, "{completed}");
    // More than was announced is not taken, and somebody else's file is not there.
    let (id, link) = buyer.new_upload(&json!({ "size_bytes": 3 })).await;
    assert!(gateway.put(&link, b"four").await.status().is_success());
    let (status, problem) = buyer.complete(&id).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{problem}");
    let other = site.other_buyer(&gateway).await;
    assert_eq!(other.complete(&id).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_object_of_a_lost_attempt_is_never_an_answer() {
    let site = Site::new().await;
    let bucket = Bucket::start(site.folder.path()).await;
    let gateway = site.gateway_on(&bucket, &[]).await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let device = site.device(&gateway, "mac").await;
    let mut session = device.connect(&gateway).await;
    let (lost, output) = session.lease_and_upload(&gateway, b"lost").await;
    site.clock.advance(fencepost_tests::gateway::TTL).await;
    let mut other = site.device(&gateway, "other").await.connect(&gateway).await;
    let offer = other
        .lease_in(fencepost_domain::attempt::Phase::Uploading)
        .await;
    let not_ready = (StatusCode::CONFLICT, "not_ready".to_owned());
    assert_eq!(buyer.output_link(&job).await, Err(not_ready.clone()));
    session.ask(commit(&lost, &output)).await;
    assert_eq!(buyer.output_link(&job).await, Err(not_ready));
    // Its key is another one, which the second attempt cannot commit either.
    assert_ne!(lost.output.object_key, offer.output.object_key);
    let mut foreign = fencepost_tests::agent_frames::declared(&offer, b"lost");
    foreign.object_key.clone_from(&lost.output.object_key);
    let refused = other.ask(commit(&offer, &foreign)).await;
    assert!(
        matches!(refused, GatewayFrame::Rejected { .. }),
        "{refused:?}"
    );
    assert!(
        gateway
            .put(&offer.output.url, clip().await)
            .await
            .status()
            .is_success()
    );
    let right = fencepost_tests::agent_frames::declared(&offer, clip().await);
    let answer = other.ask(commit(&offer, &right)).await;
    assert_won(&answer);
    assert_eq!(buyer.download(&job).await, clip().await);
    let still = std::fs::read(site.object(&lost.output.object_key));
    assert_eq!(still.expect("nobody deleted it yet"), b"lost");
}

#[tokio::test]
async fn a_gateway_on_another_bucket_is_refused_and_one_on_the_same_is_not() {
    let site = Site::new().await;
    let bucket = Bucket::start(site.folder.path()).await;
    let elsewhere = site.folder.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a folder");
    let other = Bucket::start(&elsewhere).await;
    let (_one, _two) = (
        site.gateway_on(&bucket, &[]).await,
        site.gateway_on(&bucket, &[]).await,
    );
    let settings = other.settings();
    let settings: Vec<_> = settings
        .iter()
        .map(|(key, value)| (*key, value.as_str()))
        .collect();
    let log_file = site.folder.path().join("refused.log");
    let mut process = Process::start(&mut site.command(&settings), &log_file);
    let status = process.wait().await;
    assert_eq!(status.code(), Some(78), "{}", process.log());
    assert!(process.log().contains("artifacts.s3"), "{}", process.log());
}
