//! Refusals in the document.

use serde_json::{Value, json};

use super::parameters::references;
use crate::http::limit;
use crate::http::problem::ProblemCode;
use crate::http::request_id;

/// What the refusals with one status are called together.
pub(super) fn name(status: u16, codes: &[ProblemCode]) -> String {
    let words: Vec<_> = codes.iter().map(|code| code.as_str()).collect();
    format!("{status}.{}", words.join("."))
}

/// A refusal with one status: the codes that it may have here, and what each means.
pub(super) fn describe(status: u16, codes: &[ProblemCode]) -> Value {
    let words: Vec<_> = codes.iter().map(|code| code.as_str()).collect();
    let meanings: Vec<_> = codes
        .iter()
        .map(|code| format!("`{}`: {}", code.as_str(), code.title()))
        .collect();
    let mut headers = vec![request_id::NAME];
    match status {
        401 => headers.push("WWW-Authenticate"),
        405 => headers.push("Allow"),
        416 => headers.push("Content-Range"),
        429 => headers.extend(["Retry-After", limit::LIMIT, limit::REMAINING, limit::RESET]),
        409 | 503 => headers.push("Retry-After"),
        _ => {}
    }
    json!({
        "description": format!("{}.", meanings.join("; ")),
        "headers": references(&headers),
        "content": { "application/problem+json": { "schema": {
            "allOf": [{ "$ref": "#/components/schemas/Problem" }],
            "properties": { "code": { "enum": words }, "status": { "const": status } },
        } } },
    })
}
