//! How often an org may ask.

use fencepost_tests::Site;
use fencepost_tests::buyer::{Buyer, answer};
use reqwest::header::HeaderMap;
use reqwest::{Method, StatusCode};
use serde_json::Value;

async fn ask(buyer: &Buyer) -> (StatusCode, HeaderMap, Value) {
    let request = buyer.request(Method::GET, "/v1/balance");
    let response = request.send().await.expect("the gateway answers");
    let headers = response.headers().clone();
    let (status, said) = answer(response).await;
    (status, headers, said)
}

fn number(headers: &HeaderMap, name: &str) -> u32 {
    let value = headers.get(name).unwrap_or_else(|| panic!("no {name}"));
    let text = value.to_str().expect("a text");
    text.parse().expect("a number")
}

#[tokio::test]
async fn an_org_that_asks_too_often_is_told_when_to_come_back_and_others_are_answered() {
    let site = Site::new().await;
    let slow = [
        ("http.requests_per_second", "1"),
        ("http.request_burst", "5"),
    ];
    let gateway = site.gateway_with(&slow).await;
    let (buyer, other) = (site.buyer(&gateway), site.other_buyer(&gateway).await);
    let (status, headers, _) = ask(&buyer).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(number(&headers, "ratelimit-limit"), 5);
    assert!(number(&headers, "ratelimit-remaining") < 5);
    // The bucket fills while this machine is busy with other things, but not as fast as it is emptied.
    let mut refused = None;
    for _ in 0..1_000 {
        let (status, headers, said) = ask(&buyer).await;
        if status == StatusCode::TOO_MANY_REQUESTS {
            refused = Some((headers, said));
            break;
        }
    }
    let (headers, problem) = refused.expect("there is a limit");
    assert_eq!(problem["code"], "too_many_requests");
    assert_eq!(problem["retryable"], true);
    assert_eq!(number(&headers, "ratelimit-remaining"), 0);
    assert_eq!(number(&headers, "retry-after"), 1);
    assert!(number(&headers, "ratelimit-reset") >= 1);
    assert_eq!(ask(&other).await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_limit_of_nothing_is_refused_by_the_name_of_its_key() {
    let site = Site::new().await;
    let output = site
        .command(&[("http.request_burst", "0")])
        .output()
        .expect("it runs");
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("request_burst"), "{said}");
}
