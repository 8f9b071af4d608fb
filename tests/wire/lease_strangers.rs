//! Who and what is turned away by the lease routes, and which secrets they never repeat.

use fencepost_domain::ids::RequestId;
use fencepost_tests::Site;
use fencepost_tests::worker::{Worker, about, output, path, with_secret};
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::leases::{refusal, worker};

#[tokio::test]
async fn nobody_asks_without_a_devices_own_token() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    site.buyer(&gateway).submit_noop().await;
    let device = site.device(&gateway, "mac").await;
    let lease = Worker::new(&gateway, &device).claim().await;
    let before = site.rows().await;
    let code = site.enrollment(None).await;
    for token in [
        site.api_key.as_str(),
        &code,
        "fp_device_unknown",
        "fp_op_x",
        "",
    ] {
        let stranger = Worker::with_token(&gateway, token);
        let claimed = stranger.ask(RequestId::new()).await;
        assert_eq!(claimed.0, StatusCode::UNAUTHORIZED, "{token}");
        for operation in [
            "progress",
            "renew",
            "grants",
            "commit",
            "fail",
            "release",
            "events",
            "artifacts",
        ] {
            let asked = stranger.end(&lease, operation, json!({})).await;
            assert_eq!(refusal(&asked), (401, "unauthorized", ""), "{operation}");
        }
    }
    assert_eq!(site.rows().await, before);
}

#[tokio::test]
async fn what_is_malformed_is_named_by_its_field_and_never_repeated() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    site.buyer(&gateway).submit_noop().await;
    let mac = worker(&site, &gateway).await;
    let lease = mac.claim().await;
    let right = output(&lease, b"it");
    let mut wrong_digest = right.clone();
    wrong_digest["output"]["sha256"] = json!("ABC");
    let secret = |token: Value| json!({ "commit_token": token });
    for (operation, what, field) in [
        ("progress", json!({}), "phase"),
        ("progress", json!({ "phase": "singing" }), "phase"),
        (
            "progress",
            json!({ "phase": "running", "percent": 101 }),
            "percent",
        ),
        ("renew", json!({ "lease_ms": 0 }), "lease_ms"),
        ("renew", json!({ "lease_ms": 8_001 }), "lease_ms"),
        ("renew", json!({ "lease_ms": 1.5 }), "lease_ms"),
        ("renew", json!({ "length": 1 }), "length"),
        (
            "grants",
            json!({ "name": "output", "direction": "push" }),
            "direction",
        ),
        ("commit", right.clone(), "commit_token"),
        ("commit", with_secret(&lease, json!({})), "output"),
        ("commit", with_secret(&lease, wrong_digest), "output.sha256"),
        ("fail", with_secret(&lease, json!({})), "failure_code"),
        ("fail", secret(json!("hunter2")), "commit_token"),
        ("release", json!({}), "commit_token"),
        (
            "release",
            with_secret(&lease, json!({ "claim_request_id": RequestId::new() })),
            "claim_request_id",
        ),
    ] {
        let (status, problem) = mac.say(&lease, operation, what).await;
        assert_eq!(
            (status, &problem["field"]),
            (StatusCode::BAD_REQUEST, &json!(field)),
            "{problem}"
        );
        assert!(!problem.to_string().contains("hunter2"));
    }
    let mut nameless = about(&lease, RequestId::new(), json!({ "phase": "running" }));
    nameless["request_id"] = json!("7");
    let (_, problem) = mac.post(&path(&lease, "progress"), &nameless).await;
    assert_eq!(problem["field"], "request_id");
    let (_, problem) = mac.post("/7/progress", &nameless).await;
    assert_eq!(problem["field"], "attempt");
    for body in [
        json!({}),
        json!({ "request_id": RequestId::new(), "capabilities": ["a b"] }),
    ] {
        assert_eq!(mac.post("", &body).await.0, StatusCode::BAD_REQUEST);
    }
    // Too short a renewal is well-formed, and the lease stands.
    let refused = mac.say(&lease, "renew", json!({ "lease_ms": 1_000 })).await;
    assert_eq!(refusal(&refused), (409, "invalid_request", "fix"));
}

#[tokio::test]
async fn no_secret_is_in_a_log_a_metric_or_a_later_answer() {
    let site = Site::new().await;
    let gateway = site.gateway_with(&[("telemetry.level", "debug")]).await;
    let job = site.buyer(&gateway).submit_noop().await;
    let device = site.device(&gateway, "mac").await;
    let mac = Worker::new(&gateway, &device);
    let id = RequestId::new();
    let (_, lease) = mac.ask(id).await;
    let token = lease["commit_token"].as_str().unwrap().to_owned();
    let again = mac.ask(id).await.1.to_string();
    let wrong = mac
        .end(&lease, "commit", output(&lease, b"never sent"))
        .await
        .1
        .to_string();
    mac.upload(&lease, b"it").await;
    let done = mac
        .end(&lease, "commit", output(&lease, b"it"))
        .await
        .1
        .to_string();
    let attempts = format!("{:?}", site.buyer(&gateway).attempts(&job).await);
    let texts = [
        again,
        wrong,
        done,
        attempts,
        gateway.process.log(),
        gateway.metrics().await,
        site.db.dump().await,
    ];
    for text in texts {
        assert!(!text.contains(&token), "{text}");
        assert!(!text.contains(&device.token));
    }
}
