//! What buyers delete, and how much they may have, over HTTP.

use std::time::Duration;

use fencepost_tests::agent_frames::commit;
use fencepost_tests::buyer::{Buyer, answer, transcode};
use fencepost_tests::{Site, TestGateway};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

/// A job that succeeded.
async fn finished(site: &Site, gateway: &TestGateway, buyer: &Buyer) -> String {
    let job = buyer.submit_noop().await;
    let device = site.device(gateway, "mac").await;
    let mut session = device.connect(gateway).await;
    let (offer, output) = session.lease_and_upload(gateway, b"bytes").await;
    session.ask(commit(&offer, &output)).await;
    assert_eq!(buyer.download(&job).await, b"bytes");
    job
}

async fn delete(buyer: &Buyer, path: &str) -> (StatusCode, Value) {
    let request = buyer.request(Method::DELETE, path);
    let response = request.send().await.expect("the gateway answers");
    if response.status() == StatusCode::NO_CONTENT {
        return (StatusCode::NO_CONTENT, Value::Null);
    }
    answer(response).await
}

#[tokio::test]
async fn a_buyer_deletes_an_output_and_it_is_gone() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = finished(&site, &gateway, &buyer).await;
    let before = buyer.job(&job).await;
    assert!(before["expires_at"].is_string(), "{before}");
    assert_eq!(before["output"]["deleted_at"], Value::Null);
    let copy = site
        .db
        .text(&format!("select output_key from jobs where id = '{job}'"))
        .await;
    assert!(site.object(&copy).is_file());
    let path = format!("/v1/jobs/{job}/output");
    let stranger = site.other_buyer(&gateway).await;
    assert_eq!(delete(&stranger, &path).await.0, StatusCode::NOT_FOUND);
    assert_eq!(delete(&buyer, &path).await.0, StatusCode::NO_CONTENT);
    assert_eq!(delete(&buyer, &path).await.0, StatusCode::NO_CONTENT);
    let gone = Err((StatusCode::GONE, "gone".to_owned()));
    assert_eq!(buyer.output_link(&job).await, gone);
    let after = buyer.job(&job).await;
    assert_eq!(after["status"], "succeeded");
    assert_eq!(after["money"], before["money"]);
    assert!(after["output"]["deleted_at"].is_string(), "{after}");
    fencepost_tests::wait::until("the object to be deleted", || async {
        !site.object(&copy).exists()
    })
    .await;
    assert_eq!(site.operate(&["ledger", "check"]).await["is_clean"], true);
}

#[tokio::test]
async fn files_of_a_job_that_lives_are_refused_to_be_deleted() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let upload = buyer.upload(b"bytes").await;
    let job = buyer.submit(&transcode(&upload)).await;
    let (status, problem) = delete(&buyer, &format!("/v1/jobs/{job}/output")).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::CONFLICT, &json!("job_is_live"))
    );
    let path = format!("/v1/uploads/{upload}");
    let (status, problem) = delete(&buyer, &path).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::CONFLICT, &json!("upload_in_use"))
    );
    assert!(
        problem["detail"].as_str().unwrap().contains(&job),
        "{problem}"
    );
    let (_, kept) = buyer.get(&path).await;
    assert_eq!(
        (&kept["expires_at"], &kept["size_bytes"]),
        (&Value::Null, &json!(5))
    );
    buyer.cancel(&job).await;
    let (_, kept) = buyer.get(&path).await;
    assert!(kept["expires_at"].is_string(), "{kept}");
    assert_eq!(delete(&buyer, &path).await.0, StatusCode::NO_CONTENT);
    let (_, kept) = buyer.get(&path).await;
    assert!(kept["deleted_at"].is_string(), "{kept}");
    let (status, problem) = buyer.post("/v1/jobs", &transcode(&upload)).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(problem["field"], "inputs.source.upload_id");
    assert_eq!(
        delete(&buyer, "/v1/uploads/x").await.0,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn a_quota_is_named_when_it_leaves_no_room() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let limits = [
        "org",
        "limits",
        "acme",
        "--max-open-jobs",
        "1",
        "--max-stored-bytes",
        "10",
    ];
    let said = site.operate(&limits).await;
    assert_eq!(said["limits"]["max_open_jobs"], 1, "{said}");
    let job = buyer.submit_noop().await;
    let order = json!({ "service": "noop.v1" });
    for path in ["/v1/jobs", "/v1/quotes"] {
        let (status, problem) = buyer.post(path, &order).await;
        assert_eq!(status, StatusCode::CONFLICT, "{problem}");
        assert_eq!(problem["code"], "quota_exceeded");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.starts_with("open_jobs: 1 of at most 1"), "{detail}");
    }
    buyer.cancel(&job).await;
    buyer.submit_noop().await;
    let (_, link) = buyer.new_upload(&json!({ "size_bytes": 10 })).await;
    buyer.upload(b"123456").await;
    let (status, problem) = buyer.post("/v1/uploads", &json!({ "size_bytes": 5 })).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::CONFLICT, &json!("quota_exceeded"))
    );
    let late = gateway.put(&link, b"12345").await;
    assert_eq!(answer(late).await.1["code"], "quota_exceeded");
    let audit = site.operate(&["audit", "list"]).await;
    assert_eq!(audit["lines"][0]["action"], "org.limits", "{audit}");
    let back = site
        .operate(&["org", "limits", "acme", "--max-stored-bytes", "default"])
        .await;
    assert!(
        back["limits"]["max_stored_bytes"].as_i64().unwrap() > 1 << 30,
        "{back}"
    );
    let small = gateway.put(&link, b"12345").await;
    assert_eq!(small.status(), StatusCode::CREATED);
}

#[tokio::test]
async fn what_piles_up_faster_than_a_batch_in_each_pass_goes_all_the_same() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    assert_eq!(buyer.cancel(&job).await.0, "cancelled");
    let keys = "insert into idempotency_keys (org_id, key, fingerprint, job_id)
        select org_id, n::text, sha256(''), id from jobs, generate_series(1, 5000) n";
    assert_eq!(site.db.execute(keys).await, 5000);
    site.clock.advance(Duration::from_hours(48)).await;
    site.believe_the_clock().await;
    fencepost_tests::wait::until("all keys to be forgotten", || async {
        site.db.text("select count(*) from idempotency_keys").await == "0"
    })
    .await;
}
