//! An agent's text, understood as far as possible.
//!
//! Agents pass on text of tools: half of a surrogate pair, an odd character. That may cost the
//! character, but never the message: a `fail` that nobody can read keeps a job running.

use fencepost_domain::ids::RequestId;
use fencepost_domain::text;
use fencepost_protocol::{AgentEnvelope, LeaseRef};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::http::body::mend_escapes;

/// A message that could not be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unreadable {
    /// Its request id, if at least that was there.
    pub(super) request_id: Option<RequestId>,
    /// The lease that it is about, if that was there.
    pub(super) lease: Option<LeaseRef>,
    /// What is wrong with it; nothing of its content, in which there may be a secret.
    pub(super) problem: String,
}

/// Reads one message.
pub(super) fn read(bytes: &[u8]) -> Result<AgentEnvelope, Unreadable> {
    let text = String::from_utf8_lossy(bytes);
    let text = mend_escapes(&text);
    serde_json::from_str(&text).map_err(|error| Unreadable {
        request_id: part::<OnlyId>(&text).map(|found| found.request_id),
        lease: part(&text),
        problem: text::clean(&error.to_string(), 300),
    })
}

#[derive(Deserialize)]
struct OnlyId {
    request_id: RequestId,
}

/// As much of a message as can be made out.
fn part<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use fencepost_protocol::AgentFrame;

    use super::*;

    const ID: &str = "019adf00-0000-7000-8000-000000000001";

    fn detail(written: &str) -> String {
        let text = format!(
            r#"{{"request_id":"{ID}","type":"progress","job_id":"{ID}","attempt_id":"{ID}",
                "lease_epoch":1,"phase":"running","detail":"{written}"}}"#
        );
        match read(text.as_bytes()).unwrap().frame {
            AgentFrame::Progress { detail, .. } => detail.unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn half_a_surrogate_pair_costs_one_character_and_not_the_message() {
        assert_eq!(detail(r"a\ud83db"), "a\u{fffd}b");
        assert_eq!(detail(r"\uDE00\ud83d"), "\u{fffd}\u{fffd}");
        assert_eq!(detail(r"\ud83d\ud83d\ude00"), "\u{fffd}😀");
    }

    #[test]
    fn a_nul_costs_one_character_and_not_the_message() {
        assert_eq!(detail(r"a\u0000b"), "a\u{fffd}b");
        assert_eq!(detail(r"\\u0000"), "\\u0000");
    }

    #[test]
    fn whole_pairs_and_escaped_backslashes_stay_as_they_are() {
        assert_eq!(detail(r"\ud83d\ude00"), "😀");
        assert_eq!(detail(r"\\ud83d é \n\u0041"), "\\ud83d é \nA");
        assert_eq!(detail(r"\\\ud83d"), "\\\u{fffd}");
    }

    #[test]
    fn unknown_types_are_reported_with_their_request_id() {
        let text = format!(r#"{{"request_id":"{ID}","type":"teleport"}}"#);
        let unreadable = read(text.as_bytes()).unwrap_err();
        assert_eq!(unreadable.request_id, Some(ID.parse().unwrap()));
        assert!(
            unreadable.problem.contains("teleport"),
            "{}",
            unreadable.problem
        );
    }

    #[test]
    fn one_wrong_field_does_not_hide_the_attempt() {
        let text = format!(
            r#"{{"request_id":"{ID}","type":"progress","job_id":"{ID}","attempt_id":"{ID}",
                "lease_epoch":3,"phase":"finished"}}"#
        );
        let unreadable = read(text.as_bytes()).unwrap_err();
        let lease = unreadable.lease.unwrap();
        assert_eq!(
            (lease.attempt_id.to_string(), lease.lease_epoch),
            (ID.to_owned(), 3)
        );
    }

    #[test]
    fn what_is_not_even_json_is_reported_without_one() {
        for text in ["", "hello", "{", "[]", "\u{0}"] {
            assert_eq!(
                read(text.as_bytes()).unwrap_err().request_id,
                None,
                "{text}"
            );
        }
        assert!(read(b"\xff\xfe").is_err());
    }

    #[test]
    fn a_malformed_secret_is_not_repeated() {
        let text = format!(
            r#"{{"request_id":"{ID}","type":"fail","job_id":"{ID}","attempt_id":"{ID}",
                "lease_epoch":1,"commit_token":"hunter2","failure_code":"x","message":""}}"#
        );
        let unreadable = read(text.as_bytes()).unwrap_err();
        assert!(
            !unreadable.problem.contains("hunter2"),
            "{}",
            unreadable.problem
        );
    }
}
