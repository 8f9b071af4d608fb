//! `fencepost job services`: what can be asked for, its price, and its parameters in short.

use clap::Args;
use serde::Deserialize as _;
use serde_json::Value;

use super::JobError;
use super::api::Api;
use super::error::Problem;
use super::parameters::parameters;
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
        let form = if slot.is_bundle() {
            " (a bundle: see fencepost bundle manifest --help)"
        } else {
            ""
        };
        format!("{}: {}{count}{form}", slot.name, slot.summary)
    });
    let inputs: Vec<_> = inputs.collect();
    let price = Price::deserialize(&service["price"]).ok();
    let params = parameters(&service["params_schema"]);
    facts(&[
        ("service", Some(word(&service["name"]))),
        ("", Some(word(&service["summary"]))),
        ("price", price.map(|price| price.sentence())),
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
