//! Requests over HTTP that are repeated, cut off, or whose answer is lost.

use std::time::Duration;

use fencepost_domain::ids::RequestId;
use fencepost_tests::gateway::TTL;
use fencepost_tests::wait::until_some;
use fencepost_tests::worker::{WORDS, Worker, about, output, path, with_secret};
use fencepost_tests::{Site, TestGateway};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_given_back_by_its_request_and_nobody_else_learns_of_it() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let job = site.buyer(&gateway).submit_noop().await;
    let mac = Worker::new(&gateway, &site.device(&gateway, "mac").await);
    let other = Worker::new(&gateway, &site.device(&gateway, "other").await);
    let id = RequestId::new();
    let (status, _) = mac.ask(id).await;
    assert_eq!(status, StatusCode::CREATED);

    // To another device the id is one like any other: there is nothing to claim.
    assert_eq!(other.ask(id).await.0, StatusCode::NO_CONTENT);
    let (status, known) = mac.ask(id).await;
    assert_eq!((status, &known["replayed"]), (StatusCode::OK, &json!(true)));
    assert!(known.get("commit_token").is_none(), "{known}");
    let before = site.rows().await;
    let back = json!({ "claim_request_id": id, "reason": "the answer was lost" });
    let unknown = json!({ "claim_request_id": RequestId::new() });
    let stolen = other.say(&known, "release", back.clone()).await;
    let guessed = mac.say(&known, "release", unknown).await;
    for (status, problem) in [stolen, guessed] {
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::CONFLICT, &json!("commit_conflict"))
        );
    }
    assert_eq!(site.rows().await, before);
    let (status, told) = mac.say(&known, "release", back).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    site.becomes(&job, "queued: lost").await;
    let charged = "select charged from attempts";
    assert_eq!(site.db.text(charged).await, "f");
}

#[tokio::test]
async fn the_same_request_is_answered_the_same_however_late_and_another_under_its_id_is_a_conflict()
{
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let elsewhere = site.gateway().await;
    let job = site.buyer(&gateway).submit_noop().await;
    let device = site.device(&gateway, "mac").await;
    let (mac, there) = (
        Worker::new(&gateway, &device),
        Worker::new(&elsewhere, &device),
    );
    let lease = mac.claim().await;
    mac.upload(&lease, b"it").await;
    let id = RequestId::new();
    let commit = about(&lease, id, with_secret(&lease, output(&lease, b"it")));
    let path = path(&lease, "commit");
    let first = mac.post(&path, &commit).await;
    assert_eq!(
        (first.0, &first.1["replayed"]),
        (StatusCode::OK, &json!(false)),
        "{first:?}"
    );
    site.clock.advance(TTL * 2).await;
    let before = site.rows().await;
    for worker in [&mac, &there] {
        let again = worker.post(&path, &commit).await;
        assert_eq!(
            (again.0, &again.1["replayed"]),
            (StatusCode::OK, &json!(true)),
            "{again:?}"
        );
        let other = about(&lease, id, with_secret(&lease, output(&lease, b"at")));
        let (status, problem) = worker.post(&path, &other).await;
        assert_eq!(
            (status, &problem["code"], &problem["disposition"]),
            (
                StatusCode::CONFLICT,
                &json!("request_conflict"),
                &json!("fix")
            )
        );
    }
    assert_eq!(site.rows().await, before);
    site.becomes(&job, "succeeded: succeeded").await;
}

#[tokio::test]
async fn a_credential_is_checked_before_any_stored_answer() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    site.buyer(&gateway).submit_noop().await;
    let device = site.device(&gateway, "mac").await;
    let mac = Worker::new(&gateway, &device);
    let id = RequestId::new();
    assert_eq!(mac.ask(id).await.0, StatusCode::CREATED);
    site.store.disable_device(device.id, None).await.unwrap();
    assert_eq!(mac.ask(id).await.0, StatusCode::UNAUTHORIZED);
}

/// One whole HTTP request.
fn raw(device_token: &str, gateway: &TestGateway, path: &str, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    let port = gateway.port();
    format!(
        "POST /v1/provider/leases{path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\
         authorization: Bearer {device_token}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Sends so much of it, waits so long, and hangs up without reading.
async fn cut(gateway: &TestGateway, bytes: &[u8], wait: Duration) {
    let stream = TcpStream::connect(("127.0.0.1", gateway.port())).await;
    let mut stream = stream.expect("it listens");
    stream.write_all(bytes).await.expect("it reads");
    stream.flush().await.expect("it reads");
    tokio::time::sleep(wait).await;
    stream.set_zero_linger().expect("it can be cut");
}

/// Half of the request, all but its last byte, and all of it with ever later hang-ups.
fn cuts(whole: &[u8]) -> Vec<(usize, Duration)> {
    let all = whole.len();
    let mut cuts = vec![(all / 2, Duration::ZERO), (all - 1, Duration::ZERO)];
    cuts.extend([0, 1, 2, 4, 8, 16, 32].map(|ms| (all, Duration::from_millis(ms))));
    cuts
}

#[tokio::test]
async fn a_claim_whose_client_hangs_up_anywhere_is_a_whole_lease_or_none() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let mut device = site.device(&gateway, "mac").await;
    device.slots = 4;
    let mac = Worker::new(&gateway, &device);
    let id = RequestId::new();
    let claim = |id: RequestId| json!({ "request_id": id, "capabilities": WORDS, "slots": 4 });
    for (length, wait) in cuts(&raw(&device.token, &gateway, "", &claim(id))) {
        let job = buyer.submit_noop().await;
        let id = RequestId::new();
        let whole = raw(&device.token, &gateway, "", &claim(id));
        cut(&gateway, &whole[..length.min(whole.len())], wait).await;
        // Whatever became of it, the repeat is one lease, with its secret or given back by its id.
        let (status, lease) = mac.ask(id).await;
        let ended = match status {
            StatusCode::CREATED => mac.end(&lease, "release", json!({})).await,
            StatusCode::OK => {
                mac.say(&lease, "release", json!({ "claim_request_id": id }))
                    .await
            }
            other => panic!("{other}: {lease}"),
        };
        assert_eq!(ended.0, StatusCode::OK, "{}", ended.1);
        assert_eq!(lease["job_id"], job);
        assert_eq!(site.statuses(&job).await, "queued: lost");
        buyer.cancel(&job).await;
    }
}

#[tokio::test]
async fn a_commit_whose_client_hangs_up_anywhere_is_settled_whole_or_can_be_made_again() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let device = site.device(&gateway, "mac").await;
    let mac = Worker::new(&gateway, &device);
    for number in 0..9 {
        let job = buyer.submit_noop().await;
        let lease = mac.claim().await;
        mac.upload(&lease, b"it").await;
        let commit = about(
            &lease,
            RequestId::new(),
            with_secret(&lease, output(&lease, b"it")),
        );
        let path = path(&lease, "commit");
        let whole = raw(&device.token, &gateway, &path, &commit);
        let (length, wait) = cuts(&whole)[number];
        cut(&gateway, &whole[..length], wait).await;
        let told = until_some("a verdict", || async {
            let (status, told) = mac.post(&path, &commit).await;
            (told["disposition"] != "retry").then_some((status, told))
        })
        .await;
        assert_eq!(told.0, StatusCode::OK, "{}", told.1);
        assert_eq!(site.statuses(&job).await, "succeeded: succeeded");
    }
}
