//! Who may do what: every credential opens its own door and no other.

use fencepost_tests::Site;
use fencepost_tests::agent_client::Device;
use fencepost_tests::buyer::{Buyer, transcode};
use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio_tungstenite::tungstenite::Error;

#[tokio::test]
async fn the_jobs_of_another_org_do_not_exist() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let owner = site.buyer(&gateway);
    let stranger = site.other_buyer(&gateway).await;
    let job = owner.submit_noop().await;
    for path in ["", "/attempts", "/output"] {
        let path = format!("/v1/jobs/{job}{path}");
        let (status, problem) = stranger.get(&path).await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::NOT_FOUND, &json!("not_found"))
        );
        assert!(!problem.to_string().contains("queued"), "{problem}");
    }
    let (_, list) = stranger.get("/v1/jobs").await;
    assert_eq!(list["jobs"], json!([]));

    let upload = owner.upload(b"a film").await;
    let (status, problem) = stranger.post("/v1/jobs", &transcode(&upload)).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{problem}");
    assert_eq!(problem["field"], "inputs.source.upload_id");
    assert_eq!(owner.job(&job).await["status"], "queued");
}

#[tokio::test]
async fn credentials_never_stand_in_for_one_another() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let device = site.device(&gateway, "mac").await;
    let code = site.enrollment(None).await;
    let strange = [
        "fp_op_operator",
        "fp_live_unknown",
        "fp_device_unknown",
        "x",
        "",
    ];
    let all = [site.api_key.as_str(), &device.token, &code];
    for credential in all.into_iter().chain(strange) {
        let buyer = Buyer::new(&gateway, credential);
        let expected = if credential == site.api_key { 200 } else { 401 };
        for path in ["/v1/jobs", "/v1/balance", "/v1/services"] {
            let response = buyer.request(Method::GET, path).send().await.unwrap();
            assert_eq!(response.status(), expected, "{path}");
        }
        let dialled = Device {
            token: credential.to_owned(),
            ..device.clone()
        };
        let dialled = dialled.try_dial(gateway.port()).await.map(drop);
        match dialled {
            Ok(()) => assert_eq!(credential, device.token),
            Err(Error::Http(response)) => {
                assert_eq!(response.status(), 401);
                assert_ne!(credential, device.token);
            }
            Err(other) => panic!("{other}"),
        }
        if credential != code {
            let (status, _) = Device::try_pair(&gateway, credential, "mac").await;
            assert_eq!(status, StatusCode::BAD_REQUEST);
        }
    }
    Device::pair(&gateway, &code, "mac").await;
}

#[tokio::test]
async fn a_request_without_a_credential_is_told_which_one_to_send() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let response = gateway.get("/v1/jobs").await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(response.headers()["www-authenticate"], "Bearer");
    assert_eq!(
        response.headers()["content-type"],
        "application/problem+json"
    );
}

#[tokio::test]
async fn a_revoked_key_opens_nothing_at_once() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let (id, key) = site
        .store
        .create_api_key(site.org, false)
        .await
        .unwrap()
        .unwrap();
    assert!(key.expose().starts_with("fp_test_"));
    let buyer = Buyer::new(&gateway, key.expose());
    assert_eq!(buyer.get("/v1/balance").await.0, StatusCode::OK);
    assert!(site.store.revoke_api_key(id).await.unwrap());
    assert_eq!(buyer.get("/v1/balance").await.0, StatusCode::UNAUTHORIZED);
    site.buyer(&gateway).balance().await;
}
