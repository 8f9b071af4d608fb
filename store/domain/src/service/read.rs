//! Reads typed parameters out of JSON, and says where they do not fit.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::field::FieldError;

/// The parameters, or the field that does not fit, as a path seen from the parameters
/// (`clips[2].input`; empty for the parameters themselves).
pub(crate) fn typed<T: DeserializeOwned + Serialize>(params: &Value) -> Result<T, FieldError> {
    let read: T = serde_path_to_error::deserialize(params).map_err(|error| {
        let mut path = error.path().to_string();
        let text = error.into_inner().to_string();
        if path == "." {
            path.clear();
        }
        // Of a field that is missing the path names only the object around it, and the message the
        // field, between backticks: `missing field `codec``.
        if text.starts_with("missing field") {
            let name = text.split('`').nth(1).unwrap_or_default();
            return FieldError::new(within(&path, name), "is missing");
        }
        FieldError::new(path, plain(&text))
    })?;
    let again = serde_json::to_value(&read).unwrap_or_default();
    check_kinds("", params, &again)?;
    Ok(read)
}

fn within(outer: &str, name: &str) -> String {
    match outer {
        "" => name.to_owned(),
        outer => format!("{outer}.{name}"),
    }
}

/// serde also takes a list for an object, and an object of one key for a word. We do not: what was
/// read has to be of the same kinds when it is written.
fn check_kinds(path: &str, given: &Value, read: &Value) -> Result<(), FieldError> {
    match (given, read) {
        (Value::Object(given), Value::Object(read)) => {
            let both = given
                .iter()
                .filter_map(|(name, one)| Some((name, one, read.get(name)?)));
            for (name, given, read) in both {
                check_kinds(&within(path, name), given, read)?;
            }
        }
        (Value::Array(given), Value::Array(read)) => {
            for (place, (given, read)) in given.iter().zip(read).enumerate() {
                check_kinds(&format!("{path}[{place}]"), given, read)?;
            }
        }
        (Value::Array(_) | Value::Object(_), read) => {
            let kind = match read {
                Value::Object(_) => "an object",
                Value::Array(_) => "a list",
                Value::String(_) => "a text",
                Value::Number(_) => "a number",
                Value::Bool(_) | Value::Null => "true or false",
            };
            return Err(FieldError::new(path, format!("must be {kind}")));
        }
        _ => {}
    }
    Ok(())
}

/// serde's words for programmers of Rust, in those of everybody.
fn plain(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut text = text.to_owned();
    while let Some(start) = text.find("expected struct ") {
        let name = start + "expected struct ".len();
        let end = text[name..]
            .find(|c| !is_word(c))
            .map_or(text.len(), |at| name + at);
        text.replace_range(start..end, "expected an object");
    }
    for (serdes, ours) in [
        ("floating point ", "the number "),
        ("integer ", "the number "),
        ("string ", "the text "),
        ("boolean ", "the value "),
        ("invalid type: sequence", "invalid type: a list"),
        ("invalid type: map", "invalid type: an object"),
        ("expected string or map", "expected a text"),
        ("expected a sequence", "expected a list"),
        ("expected a string", "expected a text"),
        ("expected unit", "expected nothing"),
        ("expected f64", "expected a number"),
        ("expected u32", "expected a whole number"),
        ("expected u8", "expected a whole number"),
        ("expected u64", "expected a whole number"),
        ("invalid type: ", "must be of another kind: got "),
        ("invalid value: ", "is out of range: got "),
        ("unknown variant ", "is not known: got "),
        ("unknown field ", "is not known: "),
    ] {
        text = text.replace(serdes, ours);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        parts: Vec<Inner>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        word: Option<Word>,
    }

    #[derive(Debug, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        name: String,
    }

    #[derive(Debug, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Word {
        Yes,
        No,
    }

    fn refused(params: &Value) -> (String, String) {
        let error = typed::<Outer>(params).unwrap_err();
        (error.field, error.problem)
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
            let (found, problem) = refused(&params);
            assert_eq!(found, field, "{params}: {problem}");
        }
    }

    #[test]
    fn a_list_is_no_object_and_an_object_no_word() {
        for (params, field, problem) in [
            (json!([[]]), "", "must be an object"),
            (json!({"parts": [["a"]]}), "parts[0]", "must be an object"),
            (
                json!({"parts": [], "word": {"yes": null}}),
                "word",
                "must be a text",
            ),
        ] {
            let expected = (field.to_owned(), problem.to_owned());
            assert_eq!(refused(&params), expected, "{params}");
        }
        let good = json!({"parts": [{"name": "a"}], "word": "no"});
        assert!(typed::<Outer>(&good).is_ok());
    }

    #[test]
    fn complaints_speak_of_json_and_not_of_rust() {
        for (params, problem) in [
            (
                json!({"parts": ["a"]}),
                "must be of another kind: got the text \"a\", expected an object",
            ),
            (
                json!({"parts": {}}),
                "must be of another kind: got an object, expected a list",
            ),
            (
                json!({"parts": [], "word": "maybe"}),
                "is not known: got `maybe`, expected `yes` or `no`",
            ),
            (json!({}), "is missing"),
        ] {
            assert_eq!(refused(&params).1, problem, "{params}");
        }
    }
}
