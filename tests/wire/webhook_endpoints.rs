//! Endpoints as their buyer makes, reads and changes them; what is refused; where secrets are not.

use fencepost_tests::buyer::{Buyer, text};
use fencepost_tests::receiver::{Act, Receiver};
use fencepost_tests::wait::{until, until_some};
use fencepost_tests::{Site, TestGateway};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

const ENDPOINTS: &str = "/v1/webhook-endpoints";

async fn refused(buyer: &Buyer, body: &Value) -> (StatusCode, String, String) {
    let (status, problem) = buyer.post(ENDPOINTS, body).await;
    let field = problem["field"].as_str().unwrap_or_default().to_owned();
    (status, field, text(&problem["detail"]))
}

#[tokio::test]
async fn an_endpoint_is_made_read_changed_and_deleted_and_its_secret_is_shown_once() {
    let site = Site::new().await;
    let gateway = site.gateway_for_webhooks().await;
    let buyer = site.buyer(&gateway);
    let url = "http://127.0.0.1:9/hook#part";
    let (status, made) = buyer.post(ENDPOINTS, &json!({ "url": url })).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    assert!(text(&made["secret"]).starts_with("whsec_"), "{made}");
    assert_eq!(made["url"], "http://127.0.0.1:9/hook");
    let kinds = json!(["job.succeeded", "job.failed", "job.cancelled"]);
    assert_eq!(
        (&made["event_types"], &made["enabled"]),
        (&kinds, &json!(true))
    );
    let path = text(&made["links"]["self"]);
    let (_, shown) = buyer.get(&path).await;
    assert_eq!(
        (&shown["id"], &shown["secret"]),
        (&made["id"], &Value::Null)
    );
    let (_, list) = buyer.get(ENDPOINTS).await;
    assert_eq!(list["webhook_endpoints"][0], shown);

    let change = json!({ "event_types": ["job.failed", "job.failed"], "enabled": false });
    let (status, changed) = buyer.patch(&path, &change).await;
    assert_eq!(status, StatusCode::OK, "{changed}");
    assert_eq!(changed["event_types"], json!(["job.failed"]));
    assert_eq!(changed["disabled"]["reason"], "buyer");
    assert_eq!(changed["url"], shown["url"], "what is not given stays");

    let stranger = site.other_buyer(&gateway).await;
    for (method, path) in [
        (Method::GET, path.clone()),
        (Method::PATCH, path.clone()),
        (Method::DELETE, path.clone()),
        (Method::POST, format!("{path}/rotate-secret")),
        (Method::GET, format!("{path}/deliveries")),
        (Method::GET, format!("{ENDPOINTS}/none")),
    ] {
        let answer = stranger
            .request(method.clone(), &path)
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{method} {path}");
    }
    let delete = || async {
        buyer
            .request(Method::DELETE, &path)
            .send()
            .await
            .unwrap()
            .status()
    };
    assert_eq!(delete().await, StatusCode::NO_CONTENT);
    assert_eq!(delete().await, StatusCode::NOT_FOUND);
    assert_eq!(buyer.get(&path).await.0, StatusCode::NOT_FOUND);
    let kept = "select length(secret) from webhook_endpoints";
    assert_eq!(site.db.text(kept).await, "0");
}

#[tokio::test]
async fn what_is_wrong_with_an_endpoint_is_said_by_the_name_of_the_field() {
    let site = Site::new().await;
    let gateway = site.gateway_for_webhooks().await;
    let buyer = site.buyer(&gateway);
    let good = "http://127.0.0.1:9/";
    let long = format!("http://127.0.0.1:9/{}", "x".repeat(2_000));
    for (body, field) in [
        (json!({}), "url"),
        (json!({ "url": 5 }), "url"),
        (json!({ "url": "" }), "url"),
        (json!({ "url": "hook" }), "url"),
        (json!({ "url": "http://127.0.0.1:9/a b" }), "url"),
        (json!({ "url": "http://127.0.0.1:9/a\nb" }), "url"),
        (json!({ "url": long }), "url"),
        (
            json!({ "url": good, "event_types": "job.failed" }),
            "event_types",
        ),
        (
            json!({ "url": good, "event_types": ["job.failed", "job.queued"] }),
            "event_types[1]",
        ),
        (json!({ "url": good, "enable": true }), "enable"),
    ] {
        let (status, named, _) = refused(&buyer, &body).await;
        assert_eq!(
            (status, named.as_str()),
            (StatusCode::BAD_REQUEST, field),
            "{body}"
        );
    }
    for odd in [
        r#"{"url":"http://127.0.0.1:9/\u0000"}"#,
        r#"{"url":"http://127.0.0.1:9/\ud800"}"#,
    ] {
        let answer = buyer.post_raw(ENDPOINTS, odd).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
        let problem: Value = answer.json().await.unwrap();
        assert_eq!(problem["field"], "url", "{problem}");
    }
    assert_eq!(
        site.db.text("select count(*) from webhook_endpoints").await,
        "0"
    );
}

#[tokio::test]
async fn an_org_has_so_many_endpoints_and_no_more() {
    let site = Site::new().await;
    let gateway = site.gateway_for_webhooks().await;
    let buyer = site.buyer(&gateway);
    let body = json!({ "url": "http://127.0.0.1:9/" });
    for _ in 0..48 {
        assert_eq!(buyer.post(ENDPOINTS, &body).await.0, StatusCode::CREATED);
    }
    let making = (0..5).map(|_| buyer.post(ENDPOINTS, &body));
    let made = futures_util::future::join_all(making).await;
    let created = made
        .iter()
        .filter(|(status, _)| *status == StatusCode::CREATED);
    assert_eq!(created.count(), 2);
    let (_, problem) = made
        .iter()
        .find(|(status, _)| *status == StatusCode::CONFLICT)
        .unwrap();
    assert_eq!(problem["code"], "too_many_endpoints");
}

/// Every spelling of a place that buyers have no business at.
const WITHIN: [&str; 20] = [
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:7f00:1]/",
    "https://[2002:7f00:1::]/",
    "https://[64:ff9b::7f00:1]/",
    "https://[::127.0.0.1]/",
    "https://[fe81::1]/",
    "https://[::1]/",
    "https://0/",
    "https://0x7f000001/",
    "https://2130706433/",
    "https://127.1/",
    "https://127.0.0.1:5432/",
    "https://localhost/",
    "https://localhost./",
    "https://169.254.169.254/latest/meta-data",
    "https://100.64.0.1/",
    "https://10.0.0.1/",
    "https://user@127.0.0.1/",
    "http://127.0.0.1/",
    "ftp://127.0.0.1/",
];

#[tokio::test]
async fn no_spelling_of_a_place_within_can_be_registered_or_is_sent_to() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    for url in WITHIN {
        let (status, field, _) = refused(&buyer, &json!({ "url": url })).await;
        assert_eq!(
            (status, field.as_str()),
            (StatusCode::BAD_REQUEST, "url"),
            "{url}"
        );
    }
    // What was written down when it was allowed, or pointed elsewhere, is not used either.
    let receiver = Receiver::good().await;
    let port = receiver
        .url
        .split(':')
        .nth(2)
        .unwrap()
        .split('/')
        .next()
        .unwrap()
        .to_owned();
    let lenient = site.gateway_for_webhooks().await;
    let mut endpoints = Vec::new();
    for _ in 0..WITHIN.len() {
        endpoints.push(buyer.at(&lenient).endpoint("http://127.0.0.1:9/").await.0);
    }
    drop(lenient);
    for (endpoint, url) in endpoints.iter().zip(WITHIN) {
        let mut url = reqwest::Url::parse(url).unwrap();
        if url.port().is_none() {
            url.set_port(Some(port.parse().unwrap())).unwrap();
        }
        let change = format!("update webhook_endpoints set url = '{url}' where id = '{endpoint}'");
        site.db.execute(&change).await;
    }
    buyer.submit_and_cancel().await;
    for (endpoint, url) in endpoints.iter().zip(WITHIN) {
        let error = until_some("a try", || async {
            let delivery = buyer.deliveries(endpoint).await.pop()?;
            delivery["tries"][0]["error"]
                .as_str()
                .map(ToOwned::to_owned)
        })
        .await;
        assert!(error.starts_with("the address"), "{url}: {error}");
    }
    assert!(receiver.heard().is_empty());
}

#[tokio::test]
async fn a_redirect_to_a_place_within_is_a_failure_and_is_not_followed() {
    let site = Site::new().await;
    let gateway = site.gateway_for_webhooks().await;
    let buyer = site.buyer(&gateway);
    let inside = Receiver::good().await;
    let to = vec![format!("location: {}", inside.url)];
    let moved = Receiver::start(&[Act::Say(307, to, String::new())]).await;
    let (endpoint, _) = buyer.endpoint(&moved.url).await;
    buyer.submit_and_cancel().await;
    let delivery = until_some("a try", || async {
        let delivery = buyer.deliveries(&endpoint).await.pop()?;
        delivery["tries"][0].is_object().then_some(delivery)
    })
    .await;
    assert_eq!(delivery["tries"][0]["status"], 307, "{delivery}");
    assert_eq!(delivery["state"], "pending");
    assert!(inside.heard().is_empty());
}

/// A gateway that says all there is to say.
async fn talkative(site: &Site) -> TestGateway {
    let level = ("telemetry.level", "trace");
    site.gateway_with(&[fencepost_tests::gateway::TO_THIS_MACHINE, level])
        .await
}

#[tokio::test]
async fn webhook_secrets_are_in_no_table_log_metric_or_message() {
    let site = Site::new().await;
    let gateway = talkative(&site).await;
    let buyer = site.buyer(&gateway);
    let receiver = Receiver::start(&[Act::Status(500), Act::Status(200)]).await;
    let (endpoint, first) = buyer.endpoint(&receiver.url).await;
    let rotate = format!("{ENDPOINTS}/{endpoint}/rotate-secret");
    let (_, rotated) = buyer.post(&rotate, &json!({})).await;
    buyer.submit_and_cancel().await;
    until("a try", || async {
        !buyer.deliveries(&endpoint).await[0]["tries"]
            .as_array()
            .unwrap()
            .is_empty()
    })
    .await;
    let heard = receiver.until_heard(1).await.remove(0);
    let places = [
        ("a table", site.db.dump().await),
        ("the log", gateway.process.log()),
        ("the metrics", gateway.metrics().await),
        ("the message", String::from_utf8(heard.body).unwrap()),
        ("the list", buyer.get(ENDPOINTS).await.1.to_string()),
    ];
    for secret in [first, text(&rotated["secret"])] {
        let bare = secret.trim_start_matches("whsec_").to_owned();
        for (place, content) in &places {
            assert!(content.len() > 50, "{place} was not searched: {content}");
            assert!(!content.contains(&bare), "a secret is in {place}");
        }
    }
    for (place, content) in &places[1..4] {
        assert!(
            !content.contains("receivers-own-word"),
            "the address is in {place}"
        );
    }
}
