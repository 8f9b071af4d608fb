//! Webhooks as a buyer's server sees them.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_tests::Site;
use fencepost_tests::agent_frames::commit;
use fencepost_tests::buyer::text;
use fencepost_tests::receiver::{Act, Receiver};
use fencepost_tests::wait::{until, until_some};
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::webhook_retries::tried;

#[tokio::test]
async fn the_end_of_a_job_is_told_once_in_a_small_signed_message() {
    let site = Site::new().await;
    let gateway = site.gateway_for_webhooks().await;
    let buyer = site.buyer(&gateway);
    let receiver = Receiver::good().await;
    let (endpoint, secret) = buyer.endpoint(&receiver.url).await;
    let device = site.device(&gateway, "mac").await;
    let mut session = device.connect(&gateway).await;
    let job = buyer.submit_noop().await;
    let (offer, output) = session.lease_and_upload(&gateway, b"the output").await;
    session.ask(commit(&offer, &output)).await;
    let succeeded = receiver.until_heard(1).await.remove(0);
    let cancelled_job = buyer.submit_and_cancel().await;
    let cancelled = receiver.until_heard(2).await.remove(1);

    for (heard, job, kind) in [
        (&succeeded, &job, "job.succeeded"),
        (&cancelled, &cancelled_job, "job.cancelled"),
    ] {
        assert!(heard.is_signed_with(&secret), "{heard:?}");
        assert_eq!(heard.header("content-type"), "application/json");
        assert!(heard.header("user-agent").starts_with("Fencepost/"));
        assert!(heard.body.len() < 1_000, "{}", heard.body.len());
        let body = heard.json();
        assert_eq!(body["type"], kind, "{body}");
        assert_eq!(body["data"]["job_id"], **job, "{body}");
        assert_eq!(body["data"]["status"], kind.trim_start_matches("job."));
        assert!(body["data"]["seq"].as_i64() >= Some(1), "{body}");
    }
    let mut bent = succeeded.clone();
    bent.body.push(b' ');
    assert!(
        !bent.is_signed_with(&secret),
        "the signature is not over the bytes"
    );
    let delivery = until_some("the delivery to be over", || async {
        let delivery = buyer.deliveries(&endpoint).await.pop()?;
        (delivery["state"] == "succeeded").then_some(delivery)
    })
    .await;
    assert_eq!(delivery["event_id"], succeeded.header("webhook-id"));
    assert_eq!(delivery["job_id"], job);
    assert_eq!(delivery["tries"][0]["status"], 204, "{delivery}");
    until("both to be counted", || async {
        let counted = r#"fencepost_webhook_deliveries_total{outcome="succeeded"} 2"#;
        gateway.metrics().await.contains(counted)
    })
    .await;
}

#[tokio::test]
async fn after_a_rotation_both_secrets_sign_until_the_old_one_is_over() {
    let site = Site::new().await;
    let gateway = site.gateway_for_webhooks().await;
    let buyer = site.buyer(&gateway);
    let receiver = Receiver::good().await;
    let (endpoint, old) = buyer.endpoint(&receiver.url).await;
    let rotate = format!("/v1/webhook-endpoints/{endpoint}/rotate-secret");
    let (status, rotated) = buyer.post(&rotate, &json!({ "keep_seconds": 120 })).await;
    assert_eq!(status, StatusCode::OK, "{rotated}");
    assert!(
        rotated["previous_secret_valid_until"].is_string(),
        "{rotated}"
    );
    let new = text(&rotated["secret"]);
    assert_ne!(new, old);
    buyer.submit_and_cancel().await;
    let both = receiver.until_heard(1).await.remove(0);
    assert_eq!(both.header("webhook-signature").split(' ').count(), 2);
    assert!(both.is_signed_with(&old) && both.is_signed_with(&new));
    site.clock.advance(Duration::from_mins(2)).await;
    buyer.submit_and_cancel().await;
    let one = receiver.until_heard(2).await.remove(1);
    assert!(one.is_signed_with(&new) && !one.is_signed_with(&old));
    let (_, at_once) = buyer.post(&rotate, &json!({ "keep_seconds": 0 })).await;
    assert_eq!(at_once["previous_secret_valid_until"], Value::Null);
    buyer.submit_and_cancel().await;
    let one = receiver.until_heard(3).await.remove(2);
    assert!(one.is_signed_with(&text(&at_once["secret"])) && !one.is_signed_with(&new));
}

#[tokio::test]
async fn endpoints_are_told_of_what_they_are_subscribed_to_and_of_jobs_that_name_them() {
    let site = Site::new().await;
    let gateway = site.gateway_for_webhooks().await;
    let buyer = site.buyer(&gateway);
    let (all, named, other) = (
        Receiver::good().await,
        Receiver::good().await,
        Receiver::good().await,
    );
    buyer.endpoint(&all.url).await;
    let nothing = json!({ "url": named.url, "event_types": [] });
    let (_, quiet) = buyer.post("/v1/webhook-endpoints", &nothing).await;
    let stranger = site.other_buyer(&gateway).await;
    let (foreign, _) = stranger.endpoint(&other.url).await;
    buyer.submit_and_cancel().await;
    all.until_heard(1).await;
    let order =
        |endpoint: &Value| json!({ "service": "noop.v1", "webhook": { "endpoint_id": endpoint } });
    let job = buyer.submit(&order(&quiet["id"])).await;
    assert_eq!(buyer.job(&job).await["webhook"]["endpoint_id"], quiet["id"]);
    buyer.cancel(&job).await;
    let heard = named.until_heard(1).await.remove(0);
    assert_eq!(heard.json()["data"]["job_id"], job);
    all.until_heard(2).await;
    let (status, problem) = buyer.post("/v1/jobs", &order(&json!(foreign))).await;
    assert_eq!(
        (status, &problem["field"]),
        (StatusCode::BAD_REQUEST, &json!("webhook.endpoint_id"))
    );
    assert_eq!((named.heard().len(), other.heard().len()), (1, 0));
    let counted = "select count(*) from webhook_deliveries";
    assert_eq!(site.db.text(counted).await, "3");
}

#[tokio::test]
async fn an_operator_lists_endpoints_switches_them_and_asks_for_what_was_held() {
    let site = Site::new().await;
    let gateway = site.gateway_for_webhooks().await;
    let buyer = site.buyer(&gateway);
    let receiver = Receiver::good().await;
    let watching = Receiver::good().await;
    let (endpoint, _) = buyer.endpoint(&receiver.url).await;
    let watch = json!({ "url": watching.url, "event_types": ["webhook_endpoint.disabled"] });
    buyer.post("/v1/webhook-endpoints", &watch).await;
    let list = site.operate(&["endpoint", "list"]).await;
    assert_eq!(list["endpoints"][0]["host"], "127.0.0.1", "{list}");
    assert!(!list.to_string().contains("receivers-own-word"), "{list}");
    site.operate(&["endpoint", "disable", &endpoint]).await;
    // Its owner is told, by the endpoint itself and by another one.
    let told = watching.until_heard(1).await.remove(0).json();
    assert_eq!(told["data"]["endpoint_id"], endpoint, "{told}");
    assert_eq!(told["data"]["reason"], "operator", "{told}");
    buyer.submit_and_cancel().await;
    let delivery = buyer.deliveries(&endpoint).await.remove(0);
    assert_eq!(delivery["state"], "held", "{delivery}");
    site.operate(&["endpoint", "enable", &endpoint]).await;
    let since: [&str; 5] = [
        "endpoint",
        "redeliver",
        &endpoint,
        "--since",
        "2020-01-01T00:00:00Z",
    ];
    let answer = site.operate(&since).await;
    assert_eq!(answer["redelivered"], 1, "{answer}");
    receiver.until_heard(1).await;
    let event = text(&delivery["event_id"]);
    let one: [&str; 5] = ["endpoint", "redeliver", &endpoint, "--event", &event];
    until("the delivery to be over", || async {
        buyer.deliveries(&endpoint).await[0]["state"] == "succeeded"
    })
    .await;
    site.operate(&one).await;
    receiver.until_heard(2).await;
    let lines = "select action || ' by ' || actor from audit_log
        where action like 'webhook%' order by id";
    let by = |what: &str| format!("webhook_endpoint.{what} by cli:olga");
    let expected = ["disable", "enable", "redeliver", "redeliver"].map(by);
    assert_eq!(site.db.texts(lines).await, expected);
}

#[tokio::test]
async fn a_running_job_that_is_cancelled_is_told_of_when_it_has_really_ended() {
    let site = Site::new().await;
    let gateway = site.gateway_for_webhooks().await;
    let buyer = site.buyer(&gateway);
    let receiver = Receiver::good().await;
    buyer.endpoint(&receiver.url).await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let job = buyer.submit_noop().await;
    session.lease_in(Phase::Running).await;
    assert_eq!(buyer.cancel(&job).await.0, "cancelling");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(receiver.heard().is_empty());
    site.clock.advance(Duration::from_secs(30)).await;
    let heard = receiver.until_heard(1).await.remove(0).json();
    assert_eq!(heard["type"], "job.cancelled", "{heard}");
    assert_eq!(buyer.job(&job).await["status"], "cancelled");
}

#[tokio::test]
async fn a_webhook_bears_the_time_of_the_database_whatever_the_receivers_clock_says() {
    let site = Site::new().await;
    let gateway = site.gateway_for_webhooks().await;
    let buyer = site.buyer(&gateway);
    for date in [
        "Sun, 29 Nov 2020 03:00:00 GMT",
        "Tue, 01 Dec 2048 03:00:00 GMT",
    ] {
        let dated = vec![format!("date: {date}"), format!("retry-after: {date}")];
        let acts = [Act::Say(503, dated, String::new()), Act::Status(204)];
        let receiver = Receiver::start(&acts).await;
        let (endpoint, _) = buyer.endpoint(&receiver.url).await;
        site.clock.advance(Duration::from_hours(24)).await;
        let now = site.clock.now().await.unix_timestamp().to_string();
        buyer.submit_and_cancel().await;
        let first = receiver.until_heard(1).await.remove(0);
        assert_eq!(first.header("webhook-timestamp"), now);
        tried(&site, &gateway, &endpoint, 1).await;
        // A time to come back that is decades away is not believed.
        site.clock.advance(Duration::from_hours(24)).await;
        let now = site.clock.now().await.unix_timestamp().to_string();
        let second = receiver.until_heard(2).await.remove(1);
        assert_eq!(second.header("webhook-timestamp"), now);
        let base = format!("/v1/webhook-endpoints/{endpoint}");
        buyer
            .request(reqwest::Method::DELETE, &base)
            .send()
            .await
            .expect("it answers");
    }
}
