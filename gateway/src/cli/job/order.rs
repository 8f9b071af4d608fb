//! What is ordered, as it is written on the command line.

use std::path::PathBuf;

use clap::Args;
use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::ids::{EndpointId, UploadId};
use serde_json::map::Entry;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::JobError;
use super::address::Address;
use super::parsing::{self, Named, Source};
use crate::cli::ids::id;

/// A job that is, or might be, ordered.
#[derive(Debug, Args)]
pub(super) struct OrderArgs {
    /// What is to be done, such as transcode.v1; `fencepost job services` shows what there is.
    #[arg(long, value_name = "NAME")]
    service: String,
    /// A parameter of the service; JSON where it can be read as such, text otherwise. A dot leads
    /// into another parameter: encode.codec=h264. Repeatable.
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = parsing::parameter)]
    params: Vec<(String, Value)>,
    /// An input of the service: a file, upload:ID for one that was sent before, https://… for an address
    /// from where the Mac fetches it, or url-in:FILE for an address that is written in a file (url-in:- for
    /// one that comes by standard input), so that nobody else on this machine sees it among the arguments. An
    /// address may end with #sha256=DIGEST, or '#sha256=DIGEST&size_bytes=NUMBER': what must be there. A
    /// bundle is given so, by the address of its manifest. Repeatable.
    #[arg(long = "input", value_name = "NAME=FILE", value_parser = parsing::input)]
    inputs: Vec<Named>,
    /// A word of your own, which comes back with the job and finds it in lists. Repeatable.
    #[arg(long, value_name = "NAME=TEXT", value_parser = parsing::word)]
    metadata: Vec<(String, String)>,
    /// The longest output, in seconds; it decides what is held. Without it, 600.
    #[arg(long, value_name = "SECONDS")]
    max_output_seconds: Option<u32>,
    /// How many attempts there may be, 1 to 10. Without it, 3.
    #[arg(long, value_name = "NUMBER")]
    max_attempts: Option<u32>,
    /// It is not started any more after so long, such as 30m or 12h. Without it, a day.
    #[arg(long, value_name = "TIME")]
    deadline: Option<LeaseDuration>,
    /// A head start in the queue: low, normal or high.
    #[arg(long, value_name = "WORD", value_parser = ["low", "normal", "high"])]
    priority: Option<String>,
    /// Where it may run: anywhere (shared), or on your org's own devices alone (own).
    #[arg(long, value_name = "WHERE", value_parser = ["shared", "own"])]
    placement: Option<String>,
    /// A label that the device must have. Repeatable.
    #[arg(long = "label", value_name = "LABEL")]
    labels: Vec<String>,
    /// A webhook endpoint that is told of this job, whatever it is subscribed to.
    #[arg(long, value_name = "ENDPOINT_ID",
        value_parser = id::<EndpointId>("fencepost webhook list"))]
    webhook: Option<EndpointId>,
}

impl OrderArgs {
    /// The inputs by name, each once, and each of a kind that can be had.
    pub(super) fn inputs(&self) -> Result<Vec<(&str, &Source)>, JobError> {
        let pairs = self
            .inputs
            .iter()
            .map(|(name, _)| (name.clone(), json!(null)));
        unique("input", pairs)?;
        let inputs = self.inputs.iter().map(|(name, source)| match source {
            Ok(source) => Ok((name.as_str(), source)),
            Err(unfit) => Err(JobError::Usage(unfit.says(name))),
        });
        inputs.collect()
    }

    /// The files that would have to be sent first.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &PathBuf)> {
        let inputs = self.inputs.iter();
        inputs.filter_map(|(name, source)| match source {
            Ok(Source::File(path)) => Some((name.as_str(), path)),
            Ok(Source::Upload(_) | Source::Url(_)) | Err(_) => None,
        })
    }

    /// The name of the service.
    pub(super) fn service(&self) -> &str {
        &self.service
    }

    /// The body of a create, with these inputs.
    pub(super) fn body(&self, inputs: Map<String, Value>) -> Result<Value, JobError> {
        let mut params = Map::new();
        for (name, value) in &self.params {
            insert(&mut params, name, value.clone())
                .map_err(|()| JobError::Usage(format!("the parameter {name} is given twice")))?;
        }
        let words = self.metadata.iter();
        let words = words.map(|(name, text)| (name.clone(), json!(text)));
        let metadata = unique("metadata", words)?;
        let mut body = json!({ "service": self.service });
        for (field, value) in [
            ("params", params),
            ("inputs", inputs),
            ("metadata", metadata),
        ] {
            if !value.is_empty() {
                body[field] = Value::Object(value);
            }
        }
        let limits = self.max_output_seconds;
        let deadline = self
            .deadline
            .map(|time| (time.micros() + 999_999) / 1_000_000);
        let webhook = self.webhook;
        for (field, value) in [
            (
                "limits",
                limits.map(|seconds| json!({ "max_output_seconds": seconds })),
            ),
            ("max_attempts", self.max_attempts.map(Value::from)),
            ("deadline_seconds", deadline.map(Value::from)),
            ("priority", self.priority.clone().map(Value::from)),
            ("placement", self.placement()),
            (
                "webhook",
                webhook.map(|endpoint| json!({ "endpoint_id": endpoint })),
            ),
        ] {
            if let Some(value) = value {
                body[field] = value;
            }
        }
        Ok(body)
    }

    fn placement(&self) -> Option<Value> {
        if self.placement.is_none() && self.labels.is_empty() {
            return None;
        }
        let mut placement = json!({ "kind": self.placement.as_deref().unwrap_or("shared") });
        if !self.labels.is_empty() {
            placement["labels"] = json!(self.labels);
        }
        Some(placement)
    }
}

/// How an input is named that was sent.
pub(super) fn sent(upload: UploadId) -> Value {
    json!({ "upload_id": upload })
}

/// How an input is named that the Mac fetches from an address.
pub(super) fn elsewhere(address: &Address) -> Value {
    let mut input = json!({ "url": address.url.expose() });
    if let Some(sha256) = &address.sha256 {
        input["sha256"] = json!(sha256);
    }
    if let Some(size_bytes) = address.size_bytes {
        input["size_bytes"] = json!(size_bytes);
    }
    input
}

/// What stands for an input that is not sent yet; nobody looks for it.
pub(super) fn unsent() -> Value {
    sent(UploadId(Uuid::nil()))
}

/// What stands for a bundle that nobody has named yet; nobody looks for it.
pub(super) fn unsent_bundle() -> Value {
    json!({ "url": "https://bundle.invalid/fencepost.json", "sha256": "0".repeat(64) })
}

/// Puts a parameter in its place: `encode.codec` into the object `encode`. Refused if something is
/// there already.
fn insert(params: &mut Map<String, Value>, name: &str, value: Value) -> Result<(), ()> {
    let Some((outer, inner)) = name.split_once('.') else {
        let Entry::Vacant(place) = params.entry(name) else {
            return Err(());
        };
        place.insert(value);
        return Ok(());
    };
    let object = params.entry(outer).or_insert_with(|| json!({}));
    insert(object.as_object_mut().ok_or(())?, inner, value)
}

fn unique(
    what: &str,
    pairs: impl Iterator<Item = (String, Value)>,
) -> Result<Map<String, Value>, JobError> {
    let mut map = Map::new();
    for (name, value) in pairs {
        if map.insert(name.clone(), value).is_some() {
            return Err(JobError::Usage(format!("the {what} {name} is given twice")));
        }
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dot_leads_into_a_parameter_and_nothing_is_given_twice() {
        let mut params = Map::new();
        for (name, value) in [("fit", json!("crop")), ("encode.codec", json!("h264"))] {
            assert_eq!(insert(&mut params, name, value), Ok(()));
        }
        assert_eq!(insert(&mut params, "encode.fps", json!(30)), Ok(()));
        let whole = json!({ "fit": "crop", "encode": { "codec": "h264", "fps": 30 } });
        assert_eq!(json!(params), whole);
        for name in ["fit", "encode", "encode.fps", "fit.more"] {
            assert_eq!(insert(&mut params, name, json!(1)), Err(()), "{name}");
        }
        assert_eq!(json!(params)["encode"], whole["encode"]);
    }
}
