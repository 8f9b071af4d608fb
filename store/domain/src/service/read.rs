//! Reads typed parameters out of JSON, and says where they do not fit.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::field::FieldError;

/// The parameters, or the field that does not fit, as a path seen from the parameters
/// (`clips[2].input`; empty for the parameters themselves).
pub(super) fn typed<T: DeserializeOwned>(params: &Value) -> Result<T, FieldError> {
    serde_path_to_error::deserialize(params).map_err(|error| {
        let mut path = error.path().to_string();
        let text = error.into_inner().to_string();
        if path == "." {
            path.clear();
        }
        // Of a field that is missing the path names only the object around it, and the message the
        // field, between backticks: `missing field `codec``.
        if text.starts_with("missing field") {
            let name = text.split('`').nth(1).unwrap_or_default();
            path = if path.is_empty() {
                name.to_owned()
            } else {
                format!("{path}.{name}")
            };
        }
        FieldError::new(path, text)
    })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        #[expect(dead_code, reason = "only read in")]
        parts: Vec<Inner>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        #[expect(dead_code, reason = "only read in")]
        name: String,
    }

    #[test]
    fn the_field_that_does_not_fit_is_named_from_the_outside() {
        for (params, field) in [
            (json!({"parts": [], "more": 1}), "more"),
            (json!({}), "parts"),
            (json!({"parts": 1}), "parts"),
            (
                json!({"parts": [{"name": "a"}, {"name": 1}]}),
                "parts[1].name",
            ),
            (json!({"parts": [{}]}), "parts[0].name"),
            (
                json!({"parts": [{"name": "a", "nmae": 1}]}),
                "parts[0].nmae",
            ),
            (json!(1), ""),
        ] {
            let error = typed::<Outer>(&params).unwrap_err();
            assert_eq!(error.field, field, "{params}: {}", error.problem);
        }
    }
}
