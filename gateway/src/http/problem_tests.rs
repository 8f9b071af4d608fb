//! What a refused caller gets to see.

use actix_web::body::to_bytes;
use serde_json::Value;

use super::*;

async fn shown(problem: Problem) -> (HttpResponse<()>, Value) {
    let response = problem.error_response();
    let (head, body) = response.into_parts();
    let bytes = to_bytes(body).await.map_err(|_| "unreadable").unwrap();
    (head, serde_json::from_slice(&bytes).unwrap())
}

#[actix_web::test]
async fn a_refusal_names_the_field_and_says_whether_to_retry() {
    let error = FieldError::new("params.height", "must be even, got 301");
    let (head, body) = shown(error.into()).await;
    assert_eq!(head.status(), 400);
    assert_eq!(
        head.headers().get("content-type").unwrap(),
        "application/problem+json"
    );
    assert_eq!(body["code"], "invalid_request");
    assert_eq!(body["type"], "/docs/problems#invalid_request");
    assert_eq!(body["status"], 400);
    assert_eq!(body["field"], "params.height");
    assert_eq!(body["detail"], "must be even, got 301");
    assert_eq!(body["retryable"], false);
}

#[actix_web::test]
async fn database_trouble_says_when_to_come_back_and_nothing_of_the_database() {
    let error = StoreError::Unavailable("pool timed out at 10.0.0.5".to_owned());
    let (head, body) = shown(error.into()).await;
    assert_eq!(head.status(), 503);
    assert_eq!(head.headers().get("retry-after").unwrap(), "2");
    assert_eq!(body["retryable"], true);
    assert!(!body.to_string().contains("10.0.0.5"), "{body}");
}

#[actix_web::test]
async fn our_own_mistakes_are_not_explained_to_strangers() {
    let error = StoreError::Inconsistency {
        table: "attempts",
        what: "two winners".to_owned(),
    };
    let (head, body) = shown(error.into()).await;
    assert_eq!(head.status(), 500);
    assert!(!body.to_string().contains("winners"), "{body}");
}

#[test]
fn only_passing_troubles_are_worth_a_retry_without_a_change() {
    for code in ProblemCode::ALL {
        let ours = code.status().is_server_error();
        assert!(!ours || code.is_retryable(), "{}", code.as_str());
    }
}

#[test]
fn every_word_of_the_wire_is_in_the_table() {
    let words = [
        Code::LeaseConflict,
        Code::CommitConflict,
        Code::RunLeaseConflict,
        Code::RunEventConflict,
        Code::RunArtifactConflict,
        Code::BuyerCancelled,
        Code::VerificationFailed,
        Code::UploadFailed,
        Code::ProviderOffline,
        Code::InternalError,
        Code::Verifying,
        Code::ClockRegressed,
        Code::RequestConflict,
        Code::InvalidRequest,
        Code::Unauthorized,
        Code::Busy,
    ];
    for code in words {
        assert_eq!(ProblemCode::of_wire(code).as_str(), code.as_str());
    }
}

#[actix_web::test]
async fn a_refusal_about_a_lease_says_what_to_do_with_the_work() {
    let verifying = Problem::of_lease(Code::Verifying, None, Some(1_500));
    let (head, body) = shown(verifying).await;
    assert_eq!(head.status(), 409);
    assert_eq!(head.headers().get("retry-after").unwrap(), "2");
    assert_eq!(body["disposition"], "retry");
    assert_eq!(body["retryable"], true);
    assert_eq!(body["retry_after_ms"], 1_500);
    let lost = Problem::of_lease(Code::InternalError, None, None);
    let (head, body) = shown(lost).await;
    assert_eq!(head.status(), 409);
    assert_eq!(body["disposition"], "stop");
    assert_eq!(body["retryable"], false);
}
