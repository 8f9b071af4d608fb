//! Orders of bundles: taken only where they say every byte, and told to a worker as they are.

use fencepost_domain::attempt::Phase;
use fencepost_tests::Site;
use fencepost_tests::buyer::clip;
use fencepost_tests::gateway::MAX_UPLOAD_BYTES;
use reqwest::StatusCode;
use serde_json::{Value, json};

const URL: &str = "https://8.8.8.8/site/fencepost.json?sig=s3cret";

fn of(bundle: &Value) -> Value {
    json!({
        "service": "remotion.render.v1",
        "params": { "composition": "Main", "encode": { "codec": "h264" } },
        "inputs": { "bundle": bundle },
    })
}

#[tokio::test]
async fn a_bundle_that_is_not_fixed_by_the_order_is_refused_by_its_field() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let upload = buyer.upload(clip().await).await;
    let sha256 = "0a".repeat(32);
    for (bundle, field, says) in [
        (json!({ "upload_id": upload }), "upload_id", "give url"),
        (
            json!({ "upload_id": upload, "url": URL, "sha256": sha256 }),
            "upload_id",
            "give url",
        ),
        (json!({ "url": URL }), "sha256", "fencepost bundle manifest"),
        (
            json!({ "url": URL, "sha256": "0A".repeat(32) }),
            "sha256",
            "lower case",
        ),
        (json!({}), "url", "manifest"),
        (
            json!({ "url": "https://10.0.0.1/x", "sha256": sha256 }),
            "url",
            "public",
        ),
        (
            json!({ "url": URL, "sha256": sha256, "size_bytes": 1_048_577 }),
            "size_bytes",
            "",
        ),
    ] {
        for path in ["/v1/jobs", "/v1/quotes"] {
            let (status, problem) = buyer.post(path, &of(&bundle)).await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{bundle}: {problem}");
            assert_eq!(problem["code"], "invalid_request", "{bundle}: {problem}");
            let field = format!("inputs.bundle.{field}");
            assert_eq!(problem["field"], field, "{bundle}: {problem}");
            let detail = problem["detail"].as_str().expect("a detail");
            assert!(detail.contains(says), "{bundle}: {problem}");
            assert!(!detail.contains("s3cret"), "{problem}");
        }
    }
    assert_eq!(site.db.text("select count(*) from jobs").await, "0");
}

#[tokio::test]
async fn a_worker_is_told_the_manifest_of_a_bundle_with_its_digest() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let sha256 = "0a".repeat(32);
    let order = of(&json!({ "url": URL, "sha256": sha256 }));
    let (status, quote) = buyer.post("/v1/quotes", &order).await;
    assert_eq!(status, StatusCode::OK, "{quote}");
    let job = buyer.submit(&order).await;
    let mut device = site.device(&gateway, "mac").await;
    let words = ["input.url", "remotion.render.v1"].map(str::to_owned);
    device.words.extend(words);
    let mut mac = device.connect(&gateway).await;
    let offer = mac.lease_in(Phase::Downloading).await;
    assert_eq!(offer.job_id.to_string(), job);
    let bundle = &offer.inputs[0];
    assert_eq!((bundle.name.as_str(), bundle.url.as_str()), ("bundle", URL));
    assert_eq!(
        (bundle.sha256.as_ref(), bundle.size_bytes),
        (Some(&sha256), None)
    );
    assert_eq!(bundle.max_bytes, Some(MAX_UPLOAD_BYTES as u64));
}

#[tokio::test]
async fn the_catalogue_says_in_what_form_each_input_is_given() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let (status, catalogue) = site.buyer(&gateway).get("/v1/services").await;
    assert_eq!(status, StatusCode::OK);
    let mut forms = Vec::new();
    for service in catalogue["services"].as_array().expect("services") {
        for input in service["inputs"].as_array().expect("inputs") {
            let is_remotion = service["name"]
                .as_str()
                .is_some_and(|name| name.starts_with("remotion."));
            let expected = if is_remotion { "bundle" } else { "file" };
            assert_eq!(input["form"], expected, "{service}");
            forms.push(expected);
        }
    }
    assert_eq!(forms.iter().filter(|form| **form == "bundle").count(), 2);
    assert!(forms.len() > 5, "{forms:?}");
}
