//! `fencepost job submit`: the inputs are sent, the work is ordered, once, and followed if wanted.

use std::path::PathBuf;

use clap::Args;
use fencepost_domain::ids::JobId;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::JobError;
use super::api::Api;
use super::download::{check_target, download};
use super::parsing::{self, Source};
use super::screen::Screen;
use super::upload::{Sent, upload};
use super::view::Job;
use super::watch::{OnInterrupt, finish, to_the_end, with_type};

const EXAMPLES: &str = "\
Examples:
  fencepost job submit --service transcode.v1 --param codec=h264 --param height=720 \\
      --input source=film.mp4
  fencepost job submit --service transcode.v1 --param codec=hevc --param crf=24 \\
      --input source=film.mp4 --metadata order=42 --wait --output small.mp4

The same order again, without sending the file again and without a second job:
  id=$(fencepost job upload film.mp4)
  fencepost job submit --service transcode.v1 --param codec=h264 \\
      --input source=upload:$id --idempotency-key order-42";

/// Sends the inputs and orders the work.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct SubmitArgs {
    /// What is to be done, such as transcode.v1.
    #[arg(long, value_name = "NAME")]
    service: String,
    /// A parameter of the service; JSON where it can be read as such, text otherwise. Repeatable.
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = parsing::parameter)]
    params: Vec<(String, Value)>,
    /// An input of the service: a file, or upload:ID for one that was sent before. Repeatable.
    #[arg(long = "input", value_name = "NAME=FILE", value_parser = parsing::input)]
    inputs: Vec<(String, Source)>,
    /// A word of your own, which comes back with the job. Repeatable.
    #[arg(long, value_name = "NAME=TEXT", value_parser = parsing::word)]
    metadata: Vec<(String, String)>,
    /// The longest output, in seconds; it decides what is held.
    #[arg(long, value_name = "SECONDS")]
    max_output_seconds: Option<u32>,
    /// How many attempts there may be.
    #[arg(long, value_name = "NUMBER")]
    max_attempts: Option<u32>,
    /// When it is not started any more, in seconds from now.
    #[arg(long, value_name = "SECONDS")]
    deadline_seconds: Option<u32>,
    /// low, normal or high.
    #[arg(long, value_name = "WORD")]
    priority: Option<String>,
    /// The name of this order: the same order with the same name is the same job. Without it, a new
    /// one is made (and printed), which covers cut connections.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Follow the job to its end.
    #[arg(long)]
    wait: bool,
    /// Follow the job and fetch its output into this file.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace that file if it exists.
    #[arg(long, requires = "output")]
    force: bool,
    #[command(flatten)]
    interrupt: OnInterrupt,
}

pub(super) async fn run(api: &Api, screen: &Screen, args: &SubmitArgs) -> Result<(), JobError> {
    if let Some(target) = &args.output {
        check_target(target, args.force)?;
    }
    let mut inputs = Map::new();
    let mut all_sent = Vec::new();
    for (name, source) in &args.inputs {
        let id = match source {
            Source::Upload(id) => *id,
            Source::File(path) => {
                let sent = upload(api, screen, path).await?;
                let id = sent.upload;
                all_sent.push((name, sent));
                id
            }
        };
        if inputs
            .insert(name.clone(), json!({ "upload_id": id }))
            .is_some()
        {
            return Err(JobError::Usage(format!("the input {name} is given twice")));
        }
    }
    let order = order(args, inputs)?;
    let key = args.idempotency_key.clone();
    let key = key.unwrap_or_else(|| Uuid::now_v7().to_string());
    screen.say(&format!("ordering, idempotency key {key}"))?;
    let job = api.submit(&order, &key).await?;
    for (name, sent) in all_sent {
        is_what_was_sent(api, &job, name, &sent).await?;
    }
    let id = job["id"].as_str().unwrap_or_default();
    let mut shown = with_type("job", &job);
    shown["idempotency_key"] = json!(key);
    if !args.wait && args.output.is_none() {
        return Ok(screen.result(id, &shown)?);
    }
    if screen.is_json() {
        screen.result("", &shown)?;
    }
    follow(api, screen, args, id).await
}

async fn follow(api: &Api, screen: &Screen, args: &SubmitArgs, id: &str) -> Result<(), JobError> {
    let job: JobId = id
        .parse()
        .map_err(|_| JobError::Local("the gateway's job has no id".to_owned()))?;
    screen.say(&format!("job {job}"))?;
    let ended = to_the_end(api, screen, job, args.interrupt).await?;
    finish(screen, &ended)?;
    match &args.output {
        Some(target) => download(api, screen, job, &Job::read(&ended)?, target, args.force).await,
        None => Ok(()),
    }
}

fn order(args: &SubmitArgs, inputs: Map<String, Value>) -> Result<Value, JobError> {
    let mut order = json!({ "service": args.service });
    let params = unique("parameter", args.params.iter().cloned())?;
    let words = args
        .metadata
        .iter()
        .map(|(name, text)| (name.clone(), json!(text)));
    let metadata = unique("metadata", words)?;
    for (field, value) in [
        ("params", params),
        ("inputs", inputs),
        ("metadata", metadata),
    ] {
        if !value.is_empty() {
            order[field] = Value::Object(value);
        }
    }
    if let Some(seconds) = args.max_output_seconds {
        order["limits"] = json!({ "max_output_seconds": seconds });
    }
    for (field, value) in [
        ("max_attempts", args.max_attempts.map(Value::from)),
        ("deadline_seconds", args.deadline_seconds.map(Value::from)),
        ("priority", args.priority.clone().map(Value::from)),
    ] {
        if let Some(value) = value {
            order[field] = value;
        }
    }
    Ok(order)
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

/// The job's input must be the file as it was read; if not, it changed meanwhile, and the job goes.
async fn is_what_was_sent(api: &Api, job: &Value, name: &str, sent: &Sent) -> Result<(), JobError> {
    let Some(sha256) = job["inputs"][name]["sha256"].as_str() else {
        return Ok(());
    };
    if sha256 == sent.sha256 {
        return Ok(());
    }
    if let Some(id) = job["id"].as_str().and_then(|id| id.parse().ok()) {
        api.cancel(id).await?;
    }
    Err(JobError::Local(format!(
        "the file of the input {name} changed while it was sent; the job was cancelled"
    )))
}
