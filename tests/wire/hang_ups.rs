//! Buyers who hang up in the middle: all or nothing has happened, and asking again is the same
//! request. And buyers who are slow, or enormous: they cost the others nothing.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_protocol::GatewayFrame;
use fencepost_tests::agent_frames::progress;
use fencepost_tests::buyer::answer;
use fencepost_tests::gateway::{CREDIT, HELD};
use fencepost_tests::wait::until;
use fencepost_tests::{Blocker, Site, TestGateway};
use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const BODY: &str = r#"{"service":"noop.v1"}"#;

fn post(site: &Site, path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nIdempotency-Key: k\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        site.api_key,
        body.len()
    )
}

/// A connection over which this much was said.
async fn said(gateway: &TestGateway, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", gateway.port()))
        .await
        .expect("the gateway takes connections");
    stream.write_all(text.as_bytes()).await.expect("it reads");
    stream
}

/// The same order once more, over a good line.
async fn once_more(site: &Site, gateway: &TestGateway) -> String {
    let request = site.buyer(gateway).request(Method::POST, "/v1/jobs");
    let request = request
        .header("Idempotency-Key", "k")
        .header("content-type", "application/json");
    let (status, job) = answer(request.body(BODY).send().await.expect("an answer")).await;
    assert!(status.is_success(), "{job}");
    job["id"].as_str().expect("a text").to_owned()
}

/// A gateway that waits at this point for as long as the file `held` is there.
async fn held_gateway(site: &Site, point: &str) -> TestGateway {
    let file = site.folder.path().join("held");
    std::fs::write(&file, "").expect("a file can be made");
    let mut command = site.command(&[]);
    command.env(
        "FENCEPOST_TEST_FAULT",
        format!("{point}=pause:{}", file.display()),
    );
    fencepost_tests::stage::start(&mut command, &site.folder.path().join("held.log")).await
}

/// Says something to a gateway, hangs up when it is at its point, and lets it go on.
async fn hang_up_at_the_point(site: &Site, gateway: &TestGateway, text: &str) {
    let stream = said(gateway, text).await;
    let mark = site.folder.path().join("held.reached");
    until("the point to be reached", || async { mark.exists() }).await;
    // Nothing is read and everything is dropped: the peer gets a reset.
    stream.set_zero_linger().expect("a socket has options");
    drop(stream);
    std::fs::remove_file(site.folder.path().join("held")).expect("it was held");
}

async fn at_each_point<F: Future<Output = ()> + Send + 'static>(
    points: &[&'static str],
    scenario: fn(Site, &'static str) -> F,
) {
    let mut running = JoinSet::new();
    for &point in points {
        running.spawn(async move { scenario(Site::new().await, point).await });
    }
    while let Some(ended) = running.join_next().await {
        ended.expect("it holds at each point");
    }
}

#[tokio::test]
async fn an_order_cut_at_any_point_is_one_job_when_it_is_sent_again() {
    let points = [
        "submit_job:begun",
        "submit_job:locked",
        "submit_job:written",
        "submit_job:committed",
    ];
    at_each_point(&points, |site, point| async move {
        let gateway = held_gateway(&site, point).await;
        let whole = post(&site, "/v1/jobs", BODY);
        hang_up_at_the_point(&site, &gateway, &whole).await;
        let job = once_more(&site, &gateway).await;
        assert_eq!(once_more(&site, &gateway).await, job);
        let jobs = site.db.texts("select id from jobs").await;
        assert_eq!(jobs, [job], "{point}");
        assert_eq!(site.buyer(&gateway).balance().await, (CREDIT - HELD, HELD));
    })
    .await;
}

#[tokio::test]
async fn an_order_cut_while_it_is_said_is_none() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let whole = post(&site, "/v1/jobs", BODY);
    for length in [
        1,
        20,
        whole.len() - BODY.len() - 1,
        whole.len() - BODY.len(),
        whole.len() - 1,
    ] {
        let stream = said(&gateway, &whole[..length]).await;
        stream.set_zero_linger().expect("a socket has options");
        drop(stream);
    }
    // Half a body and a proper end of it is no order either.
    let mut stream = said(&gateway, &whole[..whole.len() - 1]).await;
    stream.shutdown().await.expect("it can end");
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert_eq!(site.db.texts("select id from jobs").await, [""; 0]);
    let job = once_more(&site, &gateway).await;
    assert_eq!(site.db.texts("select id from jobs").await, [job]);
    assert!(gateway.readiness().await.0);
}

#[tokio::test]
async fn a_cancel_cut_at_any_point_is_a_cancel_when_it_is_sent_again() {
    let points = [
        "cancel_job:begun",
        "cancel_job:written",
        "cancel_job:committed",
    ];
    at_each_point(&points, |site, point| async move {
        let gateway = held_gateway(&site, point).await;
        let buyer = site.buyer(&gateway);
        let job = buyer.submit_noop().await;
        let whole = post(&site, &format!("/v1/jobs/{job}/cancel"), "{}");
        hang_up_at_the_point(&site, &gateway, &whole).await;
        let (status, _) = buyer.cancel(&job).await;
        assert_eq!(status, "cancelled", "{point}");
        assert_eq!(buyer.cancel(&job).await, ("cancelled".to_owned(), false));
        assert_eq!(buyer.balance().await, (CREDIT, 0));
    })
    .await;
}

#[tokio::test]
async fn fifty_slow_uploads_hold_no_connection_and_nobody_waits_for_them() {
    let site = Site::new().await;
    let gateway = site
        .gateway_with(&[("database.max_connections", "5")])
        .await;
    let buyer = site.buyer(&gateway);
    buyer.submit_noop().await;
    let mut mac = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = mac.lease_in(Phase::Running).await;
    let mut slow = Vec::new();
    for _ in 0..50 {
        let (id, link) = buyer.new_upload(&json!({})).await;
        let head =
            format!("PUT {link} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhalf of it");
        slow.push((id, said(&gateway, &head).await));
    }
    let busy = "select count(*) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid() and state like 'idle in transaction%'
            and xact_start < clock_timestamp() - interval '2 seconds'";
    for _ in 0..20 {
        assert_eq!(buyer.get("/v1/jobs").await.0, StatusCode::OK);
        let answer = mac.ask(progress(&offer, Phase::Running)).await;
        assert!(
            matches!(answer, GatewayFrame::ProgressOk { .. }),
            "{answer:?}"
        );
        assert_eq!(site.db.text(busy).await, "0");
    }
    // Whoever takes their time is taken in the end.
    for (_, stream) in &mut slow {
        stream.write_all(&[b'x'; 990]).await.expect("it reads");
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.expect("an answer");
        assert_eq!(&head, b"HTTP/1.1 201");
    }
    assert_eq!(
        site.db
            .text("select count(*) from uploads where stored_at is not null")
            .await,
        "50"
    );
}

#[tokio::test]
async fn who_finds_no_connection_is_told_when_to_come_again_and_leases_go_on() {
    let site = Site::new().await;
    let gateway = site
        .gateway_with(&[("database.max_connections", "5")])
        .await;
    let buyer = site.buyer(&gateway);
    buyer.submit_noop().await;
    let mut mac = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = mac.lease_in(Phase::Running).await;
    // What buyers read of jobs stands still; renewals do not look there.
    let blocker = Blocker::hold(&site.db, "lock table postings in access exclusive mode").await;
    let mut asking = JoinSet::new();
    for _ in 0..24 {
        let request = buyer.request(Method::GET, "/v1/jobs");
        asking.spawn(async move {
            let response = request.send().await.expect("an answer");
            let after = response.headers().get("retry-after").cloned();
            let (status, problem) = answer(response).await;
            (status, after.is_some(), problem)
        });
    }
    let mut refused = 0;
    while refused < 20 {
        let (status, says_when, problem) =
            asking.join_next().await.expect("more").expect("no panic");
        assert_eq!(
            (status, says_when),
            (StatusCode::SERVICE_UNAVAILABLE, true),
            "{problem}"
        );
        assert_eq!(problem["retryable"], true, "{problem}");
        refused += 1;
        let answer = mac.ask(progress(&offer, Phase::Running)).await;
        assert!(
            matches!(answer, GatewayFrame::ProgressOk { .. }),
            "{answer:?}"
        );
    }
    drop(blocker);
    while let Some(answered) = asking.join_next().await {
        let (status, _, problem) = answered.expect("no panic");
        assert_eq!(status, StatusCode::OK, "{problem}");
    }
    assert_eq!(buyer.get("/v1/jobs").await.0, StatusCode::OK);
}

#[tokio::test]
async fn enormous_requests_are_refused_and_their_size_is_not_kept() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let array = format!(
        r#"{{"service":"noop.v1","metadata":{{"a":[{}0]}}}}"#,
        "0,".repeat(1_000_000)
    );
    let (status, problem) = answer(buyer.post_raw("/v1/jobs", array).await).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{problem}");
    let memory = || memory_kib(&gateway);
    let before = memory();
    let mut many = JoinSet::new();
    for _ in 0..30 {
        let buyer = buyer.clone();
        many.spawn(async move {
            let response = buyer.post_raw("/v1/jobs", vec![b' '; 10 << 20]).await;
            assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
        });
    }
    while let Some(ended) = many.join_next().await {
        ended.expect("it is refused");
    }
    let (before, after) = (before.unwrap_or(0), memory().unwrap_or(0));
    assert!(after < before + 64 * 1024, "{before} KiB, then {after} KiB");
    // A head of this size is no head: whatever is answered, it is no job.
    let mut head = post(&site, "/v1/jobs", BODY);
    head = head.replace("Key: k", &format!("Key: {}", "k".repeat(1 << 20)));
    let mut stream = TcpStream::connect(("127.0.0.1", gateway.port()))
        .await
        .expect("it listens");
    // It may be refused before it is all said.
    let _ = stream.write_all(head.as_bytes()).await;
    let mut said = [0; 10];
    if stream.read_exact(&mut said).await.is_ok() {
        assert_eq!(&said, b"HTTP/1.1 4");
    }
    assert_eq!(buyer.get("/v1/jobs").await.1["jobs"], json!([]));
    tokio::time::timeout(Duration::from_secs(5), buyer.submit_noop())
        .await
        .expect("as ever");
}

/// The most memory that a process has had, where the system tells.
fn memory_kib(gateway: &TestGateway) -> Option<u64> {
    let pid = gateway.process.pid().as_raw_nonzero();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}
