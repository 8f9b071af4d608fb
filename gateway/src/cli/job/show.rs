//! `fencepost job get`: one job, all that there is to say of it.

use clap::Args;
use fencepost_domain::ids::JobId;
use serde_json::{Map, Value};

use super::api::Api;
use super::screen::Screen;
use super::view::{Job, Waits, seconds};
use super::{JobError, SHOWN_BY};
use crate::cli::amount::show;
use crate::cli::ids::id;
use crate::cli::table::{facts, readable};
use serde::Deserialize as _;

/// One job.
#[derive(Debug, Args)]
pub(super) struct GetArgs {
    /// The job's id.
    #[arg(value_parser = id::<JobId>(SHOWN_BY))]
    job: JobId,
}

pub(super) async fn run(api: &Api, screen: &Screen, args: &GetArgs) -> Result<(), JobError> {
    let job = api.job(args.job).await?;
    if screen.is_json() {
        return Ok(screen.result("", &job)?);
    }
    let attempts = api
        .get(&format!("v1/jobs/{}/attempts", args.job), &[])
        .await?;
    let attempts = attempts["attempts"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    Ok(screen.result(&described(&job, attempts)?, &Value::Null)?)
}

fn described(value: &Value, attempts: &[Value]) -> Result<String, JobError> {
    let job = Job::read(value)?;
    let waits = Waits::deserialize(&value["waiting"]).ok();
    let time = |name: &str| value[name].as_str().map(seconds);
    let ended = time("ended_at");
    let started = attempts
        .first()
        .and_then(|first| first["leased_at"].as_str());
    let failure = job.failure.as_ref();
    Ok(facts(&[
        ("job", Some(job.id.clone())),
        ("service", Some(job.service.clone())),
        ("status", Some(job.doing())),
        ("waits", waits.as_ref().map(Waits::sentence)),
        (
            "failure",
            failure.map(|failure| readable(&failure.sentence())),
        ),
        ("", failure.map(|failure| failure.advice().to_owned())),
        ("created", time("created_at")),
        ("started", started.map(seconds)),
        ("ended", ended.clone()),
        ("deadline", time("deadline_at").filter(|_| ended.is_none())),
        ("kept until", time("expires_at")),
        ("attempts", said_attempts(value, attempts)),
        ("params", pairs(&value["params"])),
        ("inputs", inputs(&value["inputs"])),
        ("metadata", pairs(&value["metadata"])),
        (
            "webhook",
            value["webhook"]["endpoint_id"].as_str().map(str::to_owned),
        ),
        ("money", Some(money(&job))),
        ("output", output(&job, &value["output"])),
    ]))
}

fn money(job: &Job) -> String {
    let money = &job.money;
    match job.status.as_str() {
        "succeeded" => format!(
            "{} charged; {} was held, {} of it released",
            show(money.captured_micros),
            show(money.held_micros),
            show(money.released_micros)
        ),
        "failed" | "cancelled" => format!("nothing charged; {} was held", show(money.held_micros)),
        _ => job.cost(),
    }
}

fn output(job: &Job, value: &Value) -> Option<String> {
    let output = job.output.as_ref()?;
    let name = readable(output.filename.as_deref().unwrap_or("?"));
    if let Some(at) = &output.deleted_at {
        return Some(format!("{name}, deleted at {}", seconds(at)));
    }
    let length = value["duration_seconds"].as_f64();
    let length = length.map(|seconds| format!(", {seconds:.1} s"));
    Some(format!(
        "{name}, {} bytes{}\nsha256 {}\nfencepost job download {}",
        output.size(),
        length.unwrap_or_default(),
        output.sha256,
        job.id
    ))
}

fn said_attempts(job: &Value, attempts: &[Value]) -> Option<String> {
    let lines = attempts.iter().map(|attempt| {
        let word = |value: &Value| readable(value.as_str().unwrap_or("?"));
        let why = attempt["failure"]["code"].as_str();
        let why = why.map(|code| format!(" ({code})"));
        format!(
            "{} on {}: {}{}, {}",
            attempt["attempt_number"],
            word(&attempt["device"]["name"]),
            word(&attempt["status"]),
            why.unwrap_or_default(),
            word(&attempt["id"])
        )
    });
    let lines: Vec<_> = lines.collect();
    let most = format!(
        "{} of {} charged",
        job["charged_attempts"], job["max_attempts"]
    );
    (!lines.is_empty()).then(|| format!("{most}\n{}", lines.join("\n")))
}

fn inputs(inputs: &Value) -> Option<String> {
    let lines = inputs.as_object()?.iter().map(|(name, input)| {
        let size = input["size_bytes"].as_u64();
        let size = size.map(|size| format!(", {size} bytes"));
        let upload = input["upload_id"].as_str();
        let upload = upload.map(|id| format!("upload:{id}"));
        let host = input["host"].as_str();
        let source = upload.or_else(|| host.map(|host| format!("an address at {host}")));
        let source = source.unwrap_or_else(|| short(input));
        readable(&format!("{name}={source}{}", size.unwrap_or_default()))
    });
    some(lines)
}

/// One line for each entry of an object.
fn pairs(object: &Value) -> Option<String> {
    let none = Map::new();
    let lines = object.as_object().unwrap_or(&none).iter();
    some(lines.map(|(name, value)| readable(&format!("{name}={}", short(value)))))
}

/// A text as it is, anything else as JSON.
fn short(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn some(lines: impl Iterator<Item = String>) -> Option<String> {
    let lines: Vec<_> = lines.collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}
