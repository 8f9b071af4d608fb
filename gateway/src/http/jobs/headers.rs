//! What a buyer says about a request beside its body.

use std::time::Duration;

use actix_web::HttpRequest;
use fencepost_store::tx::submit_job::IdempotencyKey;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::http::openapi::Parameter;
use crate::http::problem::{Problem, ProblemCode};

/// The header that names a request.
pub(in crate::http) const IDEMPOTENCY_KEY: &str = "Idempotency-Key";
/// The header of an answer that an earlier request made.
pub(in crate::http) const REPLAYED: &str = "Idempotency-Replayed";
const MAX_KEY_BYTES: usize = 255;
/// The longest that a create waits for its job.
const MAX_WAIT_SECONDS: u64 = 60;

/// The headers of a create, as they are described.
pub(super) fn parameters() -> [Parameter; 2] {
    let key = json!({ "type": "string", "pattern": "^[ -~]{1,255}$" });
    let about = "A name of your choice for this request. Sent again with the same body it is the same \
        job: the first answer is 201, later ones 200. Remembered until a day after the job's end.";
    let wait = format!(
        "`wait=SECONDS`: answer when the job has ended or the time (at most {MAX_WAIT_SECONDS} s) is \
         over. A preference that is not understood is ignored."
    );
    [
        Parameter::header(IDEMPOTENCY_KEY, key, about),
        Parameter::header("Prefer", json!({ "type": "string" }), wait),
    ]
}

/// The request's name, with what `body` means: the same in another order of keys or with other
/// spaces.
pub(super) fn idempotency(
    request: &HttpRequest,
    body: &Value,
) -> Result<Option<IdempotencyKey>, Problem> {
    let mut headers = request.headers().get_all(IDEMPOTENCY_KEY);
    let Some(header) = headers.next() else {
        return Ok(None);
    };
    let bytes = header.as_bytes();
    let is_short = (1..=MAX_KEY_BYTES).contains(&bytes.len());
    let is_readable = bytes.iter().all(|byte| (b' '..=b'~').contains(byte));
    let key = std::str::from_utf8(bytes).ok();
    match key {
        Some(key) if is_short && is_readable && headers.next().is_none() => {
            let mut meaning = body.clone();
            meaning.sort_all_objects();
            Ok(Some(IdempotencyKey {
                key: key.to_owned(),
                fingerprint: Sha256::digest(meaning.to_string()).into(),
            }))
        }
        _ => Err(Problem::new(
            ProblemCode::InvalidRequest,
            format!("must be given once, with 1 to {MAX_KEY_BYTES} printable ASCII characters"),
        )
        .at(IDEMPOTENCY_KEY)),
    }
}

/// How long the buyer prefers to wait for the end of the job (`Prefer: wait=10`), at most a minute.
/// A preference that is not understood is no error (RFC 7240).
pub(super) fn wait(request: &HttpRequest) -> Option<Duration> {
    let headers = request.headers().get_all("Prefer");
    let preferences = headers.filter_map(|header| header.to_str().ok());
    let mut waits = preferences
        .flat_map(|header| header.split([',', ';']))
        .filter_map(|preference| preference.trim().split_once('='))
        .filter(|(name, _)| name.trim().eq_ignore_ascii_case("wait"))
        .filter_map(|(_, seconds)| seconds.trim().trim_matches('"').parse::<u64>().ok());
    let seconds = waits.next()?.min(MAX_WAIT_SECONDS);
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::test::TestRequest;

    fn key(headers: &[&str], body: &Value) -> Result<Option<IdempotencyKey>, Problem> {
        let request = headers.iter().fold(TestRequest::post(), |request, value| {
            request.append_header((IDEMPOTENCY_KEY, *value))
        });
        idempotency(&request.to_http_request(), body)
    }

    #[test]
    fn the_same_meaning_has_the_same_fingerprint_and_another_has_not() {
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let one = key(&["k"], &read(r#"{"a":{"x":1,"y":[1,2]},"b":"c"}"#)).unwrap();
        let same = key(&["k"], &read(r#"{ "b": "c", "a": {"y":[1,2], "x":1} }"#)).unwrap();
        let other = key(&["k"], &read(r#"{"a":{"x":1,"y":[2,1]},"b":"c"}"#)).unwrap();
        assert_eq!(one, same);
        assert_ne!(one.unwrap().fingerprint, other.unwrap().fingerprint);
    }

    #[test]
    fn an_odd_key_is_refused_by_name() {
        let long = "k".repeat(MAX_KEY_BYTES + 1);
        for headers in [&[""][..], &[long.as_str()], &["a", "b"], &["caf\u{e9}"]] {
            let problem = key(headers, &json!({})).unwrap_err();
            assert_eq!(
                problem.field.as_deref(),
                Some(IDEMPOTENCY_KEY),
                "{headers:?}"
            );
        }
        assert!(key(&["k".repeat(MAX_KEY_BYTES).as_str()], &json!({})).is_ok());
        assert_eq!(key(&[], &json!({})).unwrap(), None);
    }

    #[test]
    fn a_wait_is_read_among_other_preferences_and_bounded() {
        let wait_of = |text: &str| {
            let request = TestRequest::post().insert_header(("Prefer", text));
            wait(&request.to_http_request()).map(|wait| wait.as_secs())
        };
        assert_eq!(wait_of("wait=10"), Some(10));
        assert_eq!(wait_of("respond-async, Wait = 5"), Some(5));
        assert_eq!(wait_of("wait=86400"), Some(MAX_WAIT_SECONDS));
        for none in ["", "wait", "wait=soon", "wait=-1", "return=minimal"] {
            assert_eq!(wait_of(none), None, "{none}");
        }
    }
}
