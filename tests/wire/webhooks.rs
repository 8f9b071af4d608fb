//! Webhooks as a buyer's server sees them.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_tests::agent_frames::commit;
use fencepost_tests::buyer::text;
use fencepost_tests::receiver::{Act, Receiver};
use fencepost_tests::wait::{until, until_some};
use fencepost_tests::{Site, TestGateway};
use reqwest::StatusCode;
use serde_json::{Value, json};

/// The longest that a wait of the table is, with what chance adds.
fn at_most(seconds: u64) -> Duration {
    Duration::from_millis(seconds * 1_100)
}

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

/// Waits until the endpoint's only delivery has been tried so often.
async fn tried(site: &Site, gateway: &TestGateway, endpoint: &str, times: usize) -> Value {
    let buyer = site.buyer(gateway);
    until_some(&format!("{times} tries"), || async {
        let delivery = buyer.deliveries(endpoint).await.pop()?;
        let tries = delivery["tries"].as_array().map(Vec::len);
        (tries == Some(times)).then_some(delivery)
    })
    .await
}

#[tokio::test]
async fn a_receiver_that_fails_twice_is_tried_again_when_the_table_says_and_not_before() {
    let site = Site::new().await;
    let gateway = site.gateway_for_webhooks().await;
    let buyer = site.buyer(&gateway);
    let sorry = Act::Say(500, Vec::new(), "a\0 sorry <b>sight</b>".to_owned());
    let receiver = Receiver::start(&[sorry, Act::Status(404), Act::Status(200)]).await;
    let (endpoint, secret) = buyer.endpoint(&receiver.url).await;
    buyer.submit_and_cancel().await;
    let first = tried(&site, &gateway, &endpoint, 1).await;
    assert_eq!(first["state"], "pending");
    assert_eq!(
        first["tries"][0]["answer"], "a sorry <b>sight</b>",
        "{first}"
    );
    site.clock.advance(Duration::from_millis(4_999)).await;
    // The dispatcher has looked meanwhile, more than once.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(receiver.heard().len(), 1);
    // The rest of the five seconds, and the tenth of them that chance may add.
    site.clock.advance(Duration::from_millis(501)).await;
    tried(&site, &gateway, &endpoint, 2).await;
    site.clock.advance(at_most(300)).await;
    let done = tried(&site, &gateway, &endpoint, 3).await;
    assert_eq!(done["state"], "succeeded", "{done}");
    let heard = receiver.heard();
    let ids: Vec<_> = heard.iter().map(|one| one.header("webhook-id")).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert!(heard.iter().all(|one| one.body == heard[0].body));
    assert!(heard[1].is_signed_with(&secret));
    site.clock.advance(Duration::from_secs(100_000)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(receiver.heard().len(), 3);
}

#[tokio::test]
async fn a_delivery_that_no_try_is_left_of_is_seen_and_can_be_asked_for_again() {
    let site = Site::new().await;
    let gateway = site.gateway_for_webhooks().await;
    let buyer = site.buyer(&gateway);
    let receiver = Receiver::start(&[Act::Status(500)]).await;
    let (endpoint, _) = buyer.endpoint(&receiver.url).await;
    let began = site.clock.now().await;
    buyer.submit_and_cancel().await;
    for (tries, wait) in [5, 300, 1_800, 7_200, 18_000, 36_000, 36_000]
        .into_iter()
        .enumerate()
    {
        tried(&site, &gateway, &endpoint, tries + 1).await;
        site.clock.advance(at_most(wait)).await;
    }
    let failed = tried(&site, &gateway, &endpoint, 8).await;
    assert_eq!(
        (&failed["state"], &failed["next_try_at"]),
        (&json!("failed"), &Value::Null)
    );
    assert_eq!(failed["tries"][7]["outcome"], "exhausted");
    // One event that failed to its end switches nothing off.
    let base = format!("/v1/webhook-endpoints/{endpoint}");
    let (_, shown) = buyer.get(&base).await;
    assert_eq!(shown["enabled"], true, "{shown}");
    assert!(shown["failing_since"].is_string(), "{shown}");

    receiver.acts(Act::Status(200));
    let event = text(&failed["event_id"]);
    let one = format!("{base}/deliveries/{event}");
    let (status, answer) = buyer.post(&format!("{one}/redeliver"), &json!({})).await;
    assert_eq!(
        (status, &answer["redelivered"]),
        (StatusCode::ACCEPTED, &json!(1))
    );
    let done = tried(&site, &gateway, &endpoint, 9).await;
    assert_eq!(done["state"], "succeeded", "{done}");
    assert_eq!(buyer.get(&one).await.1, done);
    let (_, shown) = buyer.get(&base).await;
    assert_eq!(shown["failing_since"], Value::Null, "{shown}");
    // All that failed since then: there is none any more.
    let since = began
        .format(&time::format_description::well_known::Rfc3339)
        .unwrap();
    let all = json!({ "since": since });
    let (status, answer) = buyer.post(&format!("{base}/redeliver"), &all).await;
    assert_eq!(
        (status, &answer["redelivered"]),
        (StatusCode::ACCEPTED, &json!(0))
    );
}

#[tokio::test]
async fn a_receiver_that_asks_for_patience_gets_it_and_one_that_is_gone_is_left_alone() {
    let site = Site::new().await;
    let gateway = site.gateway_for_webhooks().await;
    let buyer = site.buyer(&gateway);
    let wait = vec!["retry-after: 600".to_owned()];
    let busy = Receiver::start(&[Act::Say(429, wait, String::new()), Act::Status(200)]).await;
    let gone = Receiver::start(&[Act::Status(410)]).await;
    let (busy_id, _) = buyer.endpoint(&busy.url).await;
    let (gone_id, _) = buyer.endpoint(&gone.url).await;
    buyer.submit_and_cancel().await;
    tried(&site, &gateway, &busy_id, 1).await;
    tried(&site, &gateway, &gone_id, 1).await;
    // Another event waits too: it asked to be left alone with all of them.
    buyer.submit_and_cancel().await;
    site.clock.advance(Duration::from_secs(599)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(busy.heard().len(), 1);
    site.clock.advance(Duration::from_secs(1)).await;
    busy.until_heard(3).await;

    let (_, shown) = buyer.get(&format!("/v1/webhook-endpoints/{gone_id}")).await;
    assert_eq!(shown["disabled"]["reason"], "gone", "{shown}");
    assert_eq!(gone.heard().len(), 1);
    let states: Vec<_> = buyer.deliveries(&gone_id).await;
    assert!(
        states.iter().all(|one| one["state"] == "held"),
        "{states:?}"
    );
    // Switched on again, it gets what was held when it is asked for, and what happens from then on.
    gone.acts(Act::Status(200));
    let base = format!("/v1/webhook-endpoints/{gone_id}");
    let redeliver = format!("{base}/redeliver");
    let all = json!({ "since": "2020-01-01T00:00:00Z" });
    let (status, problem) = buyer.post(&redeliver, &all).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::CONFLICT, &json!("endpoint_disabled"))
    );
    let (status, shown) = buyer.patch(&base, &json!({ "enabled": true })).await;
    assert_eq!(
        (status, &shown["disabled"]),
        (StatusCode::OK, &Value::Null),
        "{shown}"
    );
    let (_, answer) = buyer.post(&redeliver, &all).await;
    assert_eq!(answer["redelivered"], 2, "{answer}");
    gone.until_heard(3).await;
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

#[tokio::test]
async fn a_receiver_that_is_dead_for_days_is_switched_off_once_and_gets_everything_when_it_is_back()
{
    let site = Site::new().await;
    let gateway = site.gateway_for_webhooks().await;
    let buyer = site.buyer(&gateway);
    let dead = Receiver::start(&[Act::Status(503)]).await;
    let watching = Receiver::good().await;
    let (endpoint, _) = buyer.endpoint(&dead.url).await;
    let watch = json!({ "url": watching.url, "event_types": ["webhook_endpoint.disabled"] });
    buyer.post("/v1/webhook-endpoints", &watch).await;
    let base = format!("/v1/webhook-endpoints/{endpoint}");
    let (mut jobs, mut rounds) = (Vec::new(), 0);
    // An event every twelve hours, and not one that arrives.
    loop {
        let (_, shown) = buyer.get(&base).await;
        if shown["enabled"] == false {
            assert_eq!(shown["disabled"]["reason"], "failing", "{shown}");
            break;
        }
        let before = dead.heard().len();
        jobs.push(buyer.submit_and_cancel().await);
        dead.until_heard(before + 1).await;
        site.clock.advance(Duration::from_hours(12)).await;
        until("all that is due to fail", || async {
            let due = "select count(*) from webhook_deliveries where claim is not null
                or (state = 'pending' and next_at <= authority_now())";
            site.db.text(due).await == "0"
        })
        .await;
        rounds += 1;
        assert!(rounds < 20, "it is never given up");
    }
    assert!(rounds > 9, "given up after {rounds} half days");
    let told = watching.until_heard(1).await.remove(0).json();
    assert_eq!(
        (&told["data"]["endpoint_id"], &told["data"]["reason"]),
        (&json!(endpoint), &json!("failing"))
    );
    // Nothing is sent there any more, however long it takes, and what happens is kept.
    let heard = dead.heard().len();
    jobs.push(buyer.submit_and_cancel().await);
    site.clock.advance(Duration::from_hours(36)).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!((dead.heard().len(), watching.heard().len()), (heard, 1));
    dead.acts(Act::Status(200));
    buyer.patch(&base, &json!({ "enabled": true })).await;
    let all = json!({ "since": "2020-01-01T00:00:00Z" });
    let (status, answer) = buyer.post(&format!("{base}/redeliver"), &all).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    assert_eq!(answer["redelivered"], jobs.len(), "{answer}");
    let arrived = &dead.until_heard(heard + jobs.len()).await[heard..];
    let mut ids: Vec<String> = arrived
        .iter()
        .map(|one| text(&one.json()["data"]["job_id"]))
        .collect();
    ids.sort();
    jobs.sort();
    assert_eq!(ids, jobs);
    until("all deliveries to be over", || async {
        let deliveries = buyer.deliveries(&endpoint).await;
        deliveries.iter().all(|one| one["state"] == "succeeded")
    })
    .await;
    assert_eq!(watching.heard().len(), 1, "told more than once");
}
