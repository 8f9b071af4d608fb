//! The parameters of a service in short, as they are written on a command line.

use serde_json::Value;

/// One line a parameter, those first that must be given: `codec=h264|hevc (must be given)`, and
/// `encode.codec=…` for what lies within another one.
pub(super) fn parameters(schema: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    collect(schema, schema, ("", true), &mut lines);
    lines.sort_by_key(|(must, _)| !must);
    lines.into_iter().map(|(_, line)| line).collect()
}

/// The parameters of an object, whose names begin with `prefix`. What lies within something that
/// may be left out need not be given.
fn collect(
    root: &Value,
    object: &Value,
    (prefix, needed): (&str, bool),
    lines: &mut Vec<(bool, String)>,
) {
    let required = object["required"].as_array();
    let required = |name: &str| required.is_some_and(|names| names.iter().any(|one| one == name));
    for (name, parameter) in object["properties"].as_object().into_iter().flatten() {
        let must = needed && required(name);
        let parameter = followed(root, parameter);
        if parameter["properties"].is_object() {
            collect(root, parameter, (&format!("{prefix}{name}."), must), lines);
            continue;
        }
        let default = match &parameter["default"] {
            Value::Null if must => " (must be given)".to_owned(),
            Value::Null => String::new(),
            default => format!(" (else {})", bare(default)),
        };
        let values = values(root, parameter);
        lines.push((must, format!("{prefix}{name}={values}{default}")));
    }
}

/// What a schema stands for, if it is a reference to another one and nothing more.
fn followed<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let place = schema["$ref"]
        .as_str()
        .and_then(|place| place.strip_prefix('#'));
    let target = place.and_then(|place| root.pointer(place));
    target
        .filter(|target| target["properties"].is_object())
        .unwrap_or(schema)
}

/// What a parameter can be: the words, the range, or at least the kind.
fn values(root: &Value, schema: &Value) -> String {
    if let Some(place) = schema["$ref"].as_str() {
        let place = place
            .strip_prefix('#')
            .and_then(|place| root.pointer(place));
        return place.map_or_else(|| "…".to_owned(), |schema| values(root, schema));
    }
    if !schema["const"].is_null() {
        return bare(&schema["const"]);
    }
    if let Some(words) = schema["enum"].as_array() {
        return joined(words.iter().filter(|word| !word.is_null()).map(bare));
    }
    for kind in ["oneOf", "anyOf"] {
        if let Some(kinds) = schema[kind].as_array() {
            let kinds = kinds.iter().filter(|one| one["type"] != "null");
            return joined(kinds.map(|one| values(root, one)));
        }
    }
    if let (Some(least), Some(most)) = (number(&schema["minimum"]), number(&schema["maximum"])) {
        return format!("{least}..{most}");
    }
    if schema["items"].is_object() {
        return format!("[{}, …]", values(root, &schema["items"]));
    }
    if schema["properties"].is_object() {
        let mut members = Vec::new();
        collect(root, schema, ("", true), &mut members);
        members.sort_by_key(|(must, _)| !must);
        let members = members.into_iter().map(|(_, line)| line);
        return format!("{{{}}}", members.collect::<Vec<_>>().join(", "));
    }
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.clone(),
        kind => vec![kind.clone()],
    };
    let kinds = kinds.iter().filter(|kind| *kind != "null").map(|kind| {
        let kind = kind.as_str().unwrap_or("…");
        kind.to_uppercase()
    });
    joined(kinds)
}

fn number(value: &Value) -> Option<String> {
    value.is_number().then(|| {
        let text = value.to_string();
        text.strip_suffix(".0").unwrap_or(&text).to_owned()
    })
}

fn joined(words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<_>>().join("|")
}

fn bare(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_are_said_in_short() {
        let schema = json!({
            "$defs": { "Codec": { "oneOf": [{ "const": "h264" }, { "const": "hevc" }] } },
            "properties": {
                "audio": { "enum": ["keep", "drop", null], "default": "keep" },
                "codec": { "$ref": "#/$defs/Codec" },
                "fps": { "type": ["number", "null"], "minimum": 1.0, "maximum": 120.0 },
                "text": { "type": "string" },
            },
            "required": ["codec"],
        });
        assert_eq!(
            parameters(&schema),
            [
                "codec=h264|hevc (must be given)",
                "audio=keep|drop (else keep)",
                "fps=1..120",
                "text=STRING",
            ]
        );
    }

    #[test]
    fn what_lies_within_a_parameter_is_said_as_it_is_written() {
        let schema = json!({
            "$defs": {
                "Encode": {
                    "properties": { "codec": { "const": "h264" }, "fps": { "type": "number" } },
                    "required": ["codec"],
                },
                "Clip": {
                    "properties": { "end": { "type": "number" }, "input": { "type": "string" } },
                    "required": ["input"],
                },
            },
            "properties": {
                "clips": { "type": ["array", "null"], "items": { "$ref": "#/$defs/Clip" } },
                "encode": { "$ref": "#/$defs/Encode" },
            },
            "required": ["encode"],
        });
        assert_eq!(
            parameters(&schema),
            [
                "encode.codec=h264 (must be given)",
                "clips=[{input=STRING (must be given), end=NUMBER}, …]",
                "encode.fps=NUMBER",
            ]
        );
    }
}
