//! Bodies that nobody means well: refused by the name of the field, quickly, and nothing is stored.

use fencepost_tests::Site;
use fencepost_tests::buyer::answer;
use fencepost_tests::gateway::CREDIT;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

fn order(rest: &str) -> Vec<u8> {
    format!(r#"{{"service":"noop.v1",{rest}}}"#).into_bytes()
}

#[tokio::test]
async fn bodies_that_are_wrong_are_refused_by_the_name_of_the_field() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let deep = format!("\"metadata\":{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let long = format!("\"metadata\":[{}0]", "0,".repeat(100_000));
    let odd = [
        (order(r#""metadata":{"a":"x\u0000"}"#), Some("metadata.a")),
        (order(r#""metadata":{"a\u0000b":1}"#), None),
        (order(r#""metadata":{"a":"\ud800"}"#), Some("metadata.a")),
        (order(r#""metadata":{"a":1,"a":2}"#), Some("metadata.a")),
        (order(r#""service":"transcode.v1""#), Some("service")),
        (order(r#""metadata":{"a":1e400}"#), Some("metadata.a")),
        (order(r#""max_attempts":1e400"#), Some("max_attempts")),
        (
            order(r#""max_attempts":9223372036854775808"#),
            Some("max_attempts"),
        ),
        (order(r#""max_attempts":0"#), Some("max_attempts")),
        (order(r#""max_attempts":11"#), Some("max_attempts")),
        (order(r#""max_attempts":-1"#), Some("max_attempts")),
        (order(r#""max_attempts":1.5"#), Some("max_attempts")),
        (order(r#""max_attempts":"3""#), Some("max_attempts")),
        (order(r#""deadline_seconds":0"#), Some("deadline_seconds")),
        (order(r#""priority":"urgent""#), Some("priority")),
        (order(r#""max_attemps":3"#), Some("max_attemps")),
        (order(r#""params":[]"#), Some("params")),
        (order(r#""params":{"codec":"h264"}"#), Some("params.codec")),
        (order(r#""inputs":{"source":1}"#), Some("inputs.source")),
        (order(&deep), None),
        (order(&long), Some("metadata")),
        (b"".to_vec(), Some("service")),
        (b"[]".to_vec(), None),
        (b"{".to_vec(), None),
        (b"{}{}".to_vec(), None),
        (b"\xff\xfe{}".to_vec(), None),
        (vec![0; 1_000], None),
    ];
    for (body, field) in odd {
        let shown = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
        let (status, problem) = answer(buyer.post_raw("/v1/jobs", body).await).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{shown}: {problem}");
        assert_eq!(problem["code"], "invalid_request", "{shown}: {problem}");
        assert_eq!(problem["retryable"], false, "{shown}");
        if let Some(field) = field {
            assert_eq!(problem["field"], field, "{shown}: {problem}");
        }
    }
    for megabytes in [1, 10] {
        let body = vec![b' '; megabytes << 20];
        let (status, problem) = answer(buyer.post_raw("/v1/jobs", body).await).await;
        assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{problem}");
    }
    assert_eq!(buyer.get("/v1/jobs").await.1["jobs"], json!([]));
    assert_eq!(buyer.balance().await, (CREDIT, 0));
    assert!(gateway.readiness().await.0);
}

#[tokio::test]
async fn odd_ids_cursors_and_filters_are_refused_and_never_an_error_of_ours() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    for id in [
        "x",
        "%00",
        "..%2f..",
        "00000000-0000-0000-0000-000000000000",
        "%ff%fe",
        "'",
    ] {
        let response = buyer
            .request(Method::GET, &format!("/v1/jobs/{id}"))
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), StatusCode::NOT_FOUND, "{id}");
    }
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=99999999999999999999", "limit"),
        ("cursor=%00", "cursor"),
        ("status=done", "status"),
        ("limit=1&limit=2", "limit"),
        ("colour=red", "colour"),
    ] {
        let (status, problem) = buyer.get(&format!("/v1/jobs?{query}")).await;
        assert_eq!(
            (status, &problem["field"]),
            (StatusCode::BAD_REQUEST, &json!(field)),
            "{query}"
        );
    }
    // Nor is a wait that is asked for in the wrong place a job without one.
    let order = json!({ "service": "noop.v1" });
    let (status, problem) = buyer.post("/v1/jobs?wait=20", &order).await;
    assert_eq!(
        (status, &problem["field"]),
        (StatusCode::BAD_REQUEST, &json!("wait"))
    );
    assert_eq!(site.db.text("select count(*)::text from jobs").await, "0");
    let (status, problem) = buyer.get("/v1/nothing").await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::NOT_FOUND, &json!("not_found"))
    );
    let delete = buyer
        .request(Method::DELETE, "/v1/jobs")
        .send()
        .await
        .unwrap();
    assert_eq!(delete.status(), StatusCode::METHOD_NOT_ALLOWED);
    let text = buyer
        .request(Method::POST, "/v1/jobs")
        .header("content-type", "text/plain");
    let text = text.body("{}").send().await.unwrap();
    assert_eq!(text.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

#[tokio::test]
async fn jobs_are_listed_newest_first_page_by_page() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let mut jobs = Vec::new();
    for _ in 0..5 {
        jobs.push(buyer.submit_noop().await);
    }
    buyer.cancel(&jobs[0]).await;
    let (mut seen, mut path) = (Vec::new(), "/v1/jobs?limit=2".to_owned());
    loop {
        let (_, page) = buyer.get(&path).await;
        let ids = page["jobs"].as_array().unwrap().iter();
        seen.extend(ids.map(|job| job["id"].as_str().unwrap().to_owned()));
        let Value::String(cursor) = &page["next_cursor"] else {
            break;
        };
        path = format!("/v1/jobs?limit=2&cursor={cursor}");
    }
    jobs.reverse();
    assert_eq!(seen, jobs);
    let (_, cancelled) = buyer.get("/v1/jobs?status=cancelled").await;
    assert_eq!(cancelled["jobs"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_job_that_cannot_be_paid_or_has_no_file_yet_holds_nothing() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let (upload, _) = buyer.new_upload(&json!({})).await;
    let order = fencepost_tests::buyer::transcode(&upload);
    let (status, problem) = buyer.post("/v1/jobs", &order).await;
    assert_eq!(status, StatusCode::CONFLICT, "{problem}");
    assert_eq!(problem["code"], "upload_incomplete");
    assert_eq!(problem["field"], "inputs.source.upload_id");

    let org = site.store.create_org("poor", None).await.unwrap();
    let key = site
        .store
        .create_api_key(org, true)
        .await
        .unwrap()
        .unwrap()
        .1;
    let poor = fencepost_tests::buyer::Buyer::new(&gateway, key.expose());
    let (status, problem) = poor
        .post("/v1/jobs", &json!({ "service": "noop.v1" }))
        .await;
    assert_eq!(status, StatusCode::PAYMENT_REQUIRED, "{problem}");
    assert_eq!(poor.balance().await, (0, 0));
    assert_eq!(buyer.balance().await, (CREDIT, 0));
}
