//! What an attempt may write besides its result: journal events and named artifacts, and how much.
//!
//! Names and kinds are identifiers, so what is wrong with one is said. What is inside a payload is
//! text of tools that nobody controls: it is cleaned, and never the reason to lose an event.

use serde_json::Value;

use crate::field::FieldError;
use crate::text::clean;

/// The longest kind or name, in bytes.
pub const MAX_NAME_BYTES: usize = 64;
/// The largest payload of an event, in bytes of compact JSON.
pub const MAX_PAYLOAD_BYTES: usize = 16 * 1024;
/// The most events of one attempt, over all its epochs.
pub const MAX_EVENTS: i64 = 1_000;
/// The most artifacts of one attempt, over all its epochs.
pub const MAX_ARTIFACTS: i64 = 32;
/// The largest artifact.
pub const MAX_ARTIFACT_BYTES: u64 = 256 * 1024 * 1024;

/// Checks an event's kind, such as `encoder.exit`.
pub fn check_kind(kind: &str) -> Result<(), FieldError> {
    check_name("kind", kind)
}

/// Checks an artifact's name, such as `encoder.log`.
pub fn check_artifact_name(name: &str) -> Result<(), FieldError> {
    check_name("name", name)?;
    if name == "output" {
        let problem = "output is the result itself: commit it, or choose another name";
        return Err(FieldError::new("name", problem));
    }
    Ok(())
}

/// Checks an event's number.
pub fn check_seq(seq: i64) -> Result<(), FieldError> {
    if seq >= 0 {
        Ok(())
    } else {
        Err(FieldError::new("seq", "must not be negative"))
    }
}

/// Checks an artifact's size.
pub fn check_artifact_size(size_bytes: i64) -> Result<(), FieldError> {
    match u64::try_from(size_bytes) {
        Ok(size) if size <= MAX_ARTIFACT_BYTES => Ok(()),
        Ok(_) | Err(_) => {
            let problem = format!("must be between 0 and {MAX_ARTIFACT_BYTES}");
            Err(FieldError::new("size_bytes", problem))
        }
    }
}

/// The payload as it is stored: text cleaned everywhere, the whole of it bounded.
pub fn clean_payload(payload: Value) -> Result<Value, FieldError> {
    let payload = cleaned(payload);
    let size = payload.to_string().len();
    if size <= MAX_PAYLOAD_BYTES {
        return Ok(payload);
    }
    let problem = format!("must be at most {MAX_PAYLOAD_BYTES} bytes as JSON, got {size}");
    Err(FieldError::new("payload", problem))
}

/// What is said when an attempt has written all that it may.
pub fn is_full(what: &'static str, limit: i64) -> FieldError {
    let problem = format!("the attempt has {limit} already, which is all it may have");
    FieldError::new(what, problem)
}

fn check_name(field: &'static str, name: &str) -> Result<(), FieldError> {
    let allowed = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"._-".contains(&c);
    let good = (1..=MAX_NAME_BYTES).contains(&name.len())
        && name.bytes().all(allowed)
        && !name.starts_with(['.', '-']);
    if good {
        return Ok(());
    }
    let problem = format!(
        "must be 1 to {MAX_NAME_BYTES} of a-z, 0-9, '.', '_' and '-', beginning with a letter, \
         a digit or '_'"
    );
    Err(FieldError::new(field, problem))
}

fn cleaned(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(clean(&text, usize::MAX)),
        Value::Array(items) => items.into_iter().map(cleaned).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(key, value)| (clean(&key, usize::MAX), cleaned(value)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_limits_are_those_that_buyers_are_told() {
        assert_eq!(MAX_PAYLOAD_BYTES, 16_384);
        assert_eq!(MAX_ARTIFACT_BYTES, 268_435_456);
    }

    #[test]
    fn names_are_identifiers_and_what_is_wrong_is_said() {
        for good in ["a", "encoder.log", "x-1_2", "_", &"a".repeat(64)] {
            assert_eq!(check_artifact_name(good), Ok(()));
        }
        for bad in [
            "",
            ".hidden",
            "-f",
            "a/b",
            "..",
            "Ä",
            "A",
            "a b",
            &"a".repeat(65),
        ] {
            assert_eq!(check_kind(bad).unwrap_err().field, "kind");
        }
        assert_eq!(check_artifact_name("output").unwrap_err().field, "name");
    }

    #[test]
    fn a_payload_is_cleaned_to_the_bottom_and_never_refused_for_its_text() {
        let dirty = json!({"a\0": ["x\0\u{1b}", {"b": "\0"}], "n": 1.5});
        assert_eq!(
            clean_payload(dirty).unwrap(),
            json!({"a": ["x", {"b": ""}], "n": 1.5})
        );
    }

    #[test]
    fn a_payload_is_bounded_to_the_byte() {
        let exactly = "x".repeat(MAX_PAYLOAD_BYTES - 2);
        assert!(clean_payload(json!(exactly)).is_ok());
        let error = clean_payload(json!(exactly + "x")).unwrap_err();
        assert_eq!(error.field, "payload");
        assert!(error.problem.contains("16384"), "{error}");
    }

    #[test]
    fn numbers_and_sizes_are_bounded() {
        assert!(check_seq(0).is_ok() && check_seq(-1).is_err());
        assert!(check_artifact_size(0).is_ok() && check_artifact_size(-1).is_err());
        let most = i64::try_from(MAX_ARTIFACT_BYTES).unwrap();
        assert!(check_artifact_size(most).is_ok() && check_artifact_size(most + 1).is_err());
    }
}
