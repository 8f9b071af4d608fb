//! Requests that are sent twice, and requests that wait.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_tests::Site;
use fencepost_tests::agent_frames::commit;
use fencepost_tests::buyer::{Buyer, answer};
use fencepost_tests::gateway::HELD;
use reqwest::header::HeaderMap;
use reqwest::{Method, StatusCode};
use serde_json::Value;

const KEY: &str = "Idempotency-Key";

async fn post(buyer: &Buyer, key: &str, body: &str) -> (StatusCode, HeaderMap, Value) {
    let request = buyer.request(Method::POST, "/v1/jobs").header(KEY, key);
    let request = request.header("content-type", "application/json");
    let response = request
        .body(body.to_owned())
        .send()
        .await
        .expect("an answer");
    let headers = response.headers().clone();
    let (status, body) = answer(response).await;
    (status, headers, body)
}

#[tokio::test]
async fn the_same_request_again_is_the_same_job_also_on_another_gateway_and_after_its_end() {
    let site = Site::new().await;
    let mut gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let body = r#"{"service":"noop.v1","metadata":{"a":1,"b":[1,2]}}"#;
    let (status, headers, job) = post(&buyer, "order 42", body).await;
    assert_eq!(status, StatusCode::CREATED, "{job}");
    assert!(!headers.contains_key("idempotency-replayed"));
    let id = job["id"].as_str().unwrap();
    let spelled = r#"{ "metadata": {"b":[1,2], "a":1}, "service": "noop.v1" }"#;
    let (status, headers, again) = post(&buyer, "order 42", spelled).await;
    assert_eq!((status, again["id"].as_str()), (StatusCode::OK, Some(id)));
    assert_eq!(headers["idempotency-replayed"], "true");
    // The gateway dies before its answer arrives, as far as the buyer knows.
    gateway.kill();
    let other = site.gateway().await;
    let elsewhere = buyer.at(&other);
    let mut session = site.device(&other, "mac").await.connect(&other).await;
    let (offer, output) = session.lease_and_upload(&other, b"bytes").await;
    session.ask(commit(&offer, &output)).await;
    let (status, _, ended) = post(&elsewhere, "order 42", body).await;
    assert_eq!((status, ended["id"].as_str()), (StatusCode::OK, Some(id)));
    assert_eq!(ended["status"], "succeeded");
}

#[tokio::test]
async fn another_request_with_a_used_key_is_refused_and_changes_nothing() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    post(&buyer, "k", r#"{"service":"noop.v1"}"#).await;
    let before = site.rows().await;
    let (status, _, problem) = post(&buyer, "k", r#"{"service":"noop.v1","max_attempts":2}"#).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
    assert_eq!(problem["code"], "idempotency_key_reused");
    assert_eq!(problem["field"], KEY);
    assert_eq!(problem["retryable"], false);
    let long = "k".repeat(256);
    for odd in ["", long.as_str()] {
        let (status, _, problem) = post(&buyer, odd, r#"{"service":"noop.v1"}"#).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{problem}");
        assert_eq!(problem["field"], KEY);
    }
    assert_eq!(site.rows().await, before);
    // A refusal does not burn a key.
    let (status, _, _) = post(&buyer, "new", r#"{"service":"noop.v1","max_attempts":0}"#).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let (status, _, _) = post(&buyer, "new", r#"{"service":"noop.v1"}"#).await;
    assert_eq!(status, StatusCode::CREATED);
}

#[tokio::test]
async fn twenty_buyers_clients_at_once_with_one_key_make_one_job() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let mut clients = Vec::new();
    for _ in 0..20 {
        let buyer = buyer.clone();
        clients.push(tokio::spawn(async move {
            let (status, _, job) = post(&buyer, "k", r#"{"service":"noop.v1"}"#).await;
            (status, job["id"].as_str().map(str::to_owned))
        }));
    }
    let mut answers = Vec::new();
    for client in clients {
        answers.push(client.await.unwrap());
    }
    let created = answers
        .iter()
        .filter(|(status, _)| *status == StatusCode::CREATED);
    assert_eq!(created.count(), 1, "{answers:?}");
    assert!(
        answers.iter().all(|(_, id)| *id == answers[0].1),
        "{answers:?}"
    );
    let (_, balance) = buyer.get("/v1/balance").await;
    assert_eq!(balance["held_micros"], HELD);
}

#[tokio::test]
async fn a_create_that_prefers_to_wait_answers_with_the_end_or_when_its_time_is_over() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let wait = |seconds: u64| {
        let request = buyer.request(Method::POST, "/v1/jobs");
        let request = request.header("content-type", "application/json");
        let request = request.header("Prefer", format!("wait={seconds}"));
        request.body(r#"{"service":"noop.v1"}"#).send()
    };
    let response = wait(1).await.unwrap();
    assert_eq!(response.headers()["preference-applied"], "wait=1");
    let (status, job) = answer(response).await;
    assert_eq!(
        (status, job["status"].as_str()),
        (StatusCode::CREATED, Some("queued"))
    );
    session.lease_in(Phase::Running).await;
    let work = async {
        let (offer, output) = session.lease_and_upload(&gateway, b"bytes").await;
        session.ask(commit(&offer, &output)).await;
    };
    let waiting = tokio::time::timeout(Duration::from_secs(50), wait(60));
    let (response, ()) = tokio::join!(waiting, work);
    let (status, job) = answer(response.expect("it ends early").unwrap()).await;
    assert_eq!(
        (status, job["status"].as_str()),
        (StatusCode::CREATED, Some("succeeded"))
    );
}
