//! `fencepost job services`: what can be asked for, its price, and its parameters in short.

use clap::Args;
use serde::Deserialize as _;
use serde_json::Value;

use super::JobError;
use super::api::Api;
use super::error::Problem;
use super::screen::Screen;
use super::view::{Price, Slot};
use crate::cli::table::facts;

/// What can be asked for.
#[derive(Debug, Args)]
pub(super) struct ServicesArgs {
    /// Only this one, such as transcode.v1.
    service: Option<String>,
}

pub(super) async fn run(api: &Api, screen: &Screen, args: &ServicesArgs) -> Result<(), JobError> {
    let answer = api.get("v1/services", &[]).await?;
    let all = answer["services"].as_array().map_or(&[][..], Vec::as_slice);
    let wanted = |service: &&Value| match &args.service {
        Some(name) => service["name"] == name.as_str(),
        None => true,
    };
    let services: Vec<_> = all.iter().filter(wanted).collect();
    if let (Some(name), []) = (&args.service, services.as_slice()) {
        let names: Vec<_> = all.iter().filter_map(|one| one["name"].as_str()).collect();
        return Err(JobError::Refused(Problem {
            detail: Some(format!(
                "there is no service {name}; there are: {}",
                names.join(", ")
            )),
            ..Problem::default()
        }));
    }
    let texts: Vec<_> = services.iter().map(|service| text(service)).collect();
    let json = match &args.service {
        Some(_) => services[0],
        None => &answer,
    };
    Ok(screen.result(&texts.join("\n\n"), json)?)
}

fn text(service: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let inputs = Slot::all_of(service).into_iter().map(|slot| {
        let count = match (slot.min, slot.max) {
            (1, 1) => String::new(),
            (0, 1) => " (may be left out)".to_owned(),
            (least, most) => format!(" ({least} to {most})"),
        };
        format!("{}: {}{count}", slot.name, slot.summary)
    });
    let inputs: Vec<_> = inputs.collect();
    let price = Price::deserialize(&service["price"]).ok();
    let params = parameters(&service["params_schema"]);
    facts(&[
        ("service", Some(word(&service["name"]))),
        ("", Some(word(&service["summary"]))),
        (
            "price",
            price.map(|price| format!("{} of output", price.sentence())),
        ),
        (
            "inputs",
            Some(inputs.join("\n")).filter(|names| !names.is_empty()),
        ),
        (
            "params",
            Some(params.join("\n")).filter(|params| !params.is_empty()),
        ),
    ])
}

/// One line a parameter, those first that must be given.
fn parameters(schema: &Value) -> Vec<String> {
    let required = |name: &str| {
        let required = schema["required"].as_array();
        required.is_some_and(|names| names.iter().any(|one| one == name))
    };
    let properties = schema["properties"].as_object();
    let mut lines: Vec<(bool, String)> = properties
        .into_iter()
        .flatten()
        .map(|(name, parameter)| {
            let must = required(name);
            let default = match &parameter["default"] {
                Value::Null if must => " (must be given)".to_owned(),
                Value::Null => String::new(),
                default => format!(" (else {})", bare(default)),
            };
            (
                !must,
                format!("{name}={}{default}", values(schema, parameter)),
            )
        })
        .collect();
    lines.sort_by_key(|(optional, _)| *optional);
    lines.into_iter().map(|(_, line)| line).collect()
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
}
