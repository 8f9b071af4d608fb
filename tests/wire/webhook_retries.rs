//! When a delivery is tried again, for how long, and what becomes of an endpoint that is dead.

use std::time::Duration;

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

/// Waits until the endpoint's only delivery has been tried so often.
pub(crate) async fn tried(
    site: &Site,
    gateway: &TestGateway,
    endpoint: &str,
    times: usize,
) -> Value {
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
