//! `fencepost job submit`: all that can be checked is checked, the inputs are sent, the work is
//! ordered, once, and followed if wanted.

use std::path::{Path, PathBuf};

use clap::Args;
use fencepost_domain::ids::JobId;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::JobError;
use super::api::Api;
use super::download::{check_target, download};
use super::file;
use super::order::{self, OrderArgs};
use super::parsing::Source;
use super::quote;
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

A file that a Mac fetches from where it is (written into a file, the address is in no list of
processes):
  fencepost job submit --service transcode.v1 --param codec=h264 --input source=url-in:address.txt

A bundle, by the address of its manifest and the digest that `fencepost bundle manifest` prints:
  fencepost job submit --service remotion.render.v1 --param composition=Main \\
      --param encode.codec=h264 --input 'bundle=https://files.example/site/fencepost.json#sha256=…'

The same order again, without sending the file again and without a second job:
  id=$(fencepost job upload film.mp4)
  fencepost job submit --service transcode.v1 --param codec=h264 \\
      --input source=upload:$id --idempotency-key order-42

Files, parameters and your balance are checked before anything is sent.";

/// Sends the inputs and orders the work.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct SubmitArgs {
    #[command(flatten)]
    order: OrderArgs,
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
    screen.leaves("nothing was sent or ordered");
    check_files(args)?;
    // An order that names its key may be one that was taken before: then it holds nothing again.
    let may_be_known = args.idempotency_key.is_some() && args.order.files().next().is_none();
    if !may_be_known {
        quote::ask(api, screen, &args.order).await?;
    }
    let (inputs, all_sent) = send(api, screen, &args.order).await?;
    let body = args.order.body(inputs)?;
    let key = args.idempotency_key.clone();
    let key = key.unwrap_or_else(|| Uuid::now_v7().to_string());
    screen.say(&format!("ordering, idempotency key {key}"))?;
    screen.leaves(format!(
        "the order may have been taken. To be sure, give it again with{} --idempotency-key {key}: it \
         stays one job",
        named(&all_sent)
    ));
    let job = api.submit(&body, &key).await;
    let job = job.map_err(|error| say_of_files(error, !all_sent.is_empty()))?;
    let id = job["id"].as_str().unwrap_or_default();
    screen.leaves(format!("the job goes on: fencepost job watch {id}"));
    for (name, sent) in all_sent {
        is_what_was_sent(api, &job, name, &sent).await?;
    }
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

/// What can be known here of the files: that they can be read, and the output written.
fn check_files(args: &SubmitArgs) -> Result<(), JobError> {
    args.order.inputs()?;
    for (name, path) in args.order.files() {
        file::check(path).map_err(|why| {
            JobError::Usage(format!("the input {name}, {}: {why}", path.display()))
        })?;
    }
    let Some(target) = &args.output else {
        return Ok(());
    };
    check_target(target, args.force)?;
    let is_target = |path: &Path| {
        let both = (path.canonicalize(), target.canonicalize());
        matches!(both, (Ok(input), Ok(output)) if input == output)
    };
    match args.order.files().find(|(_, path)| is_target(path)) {
        Some((name, _)) => Err(JobError::Usage(format!(
            "the output would replace the input {name}: name another file"
        ))),
        None => Ok(()),
    }
}

/// Sends the files; all inputs as the order names them, and which were sent.
async fn send<'a>(
    api: &Api,
    screen: &Screen,
    order: &'a OrderArgs,
) -> Result<(Map<String, Value>, Vec<(&'a str, Sent)>), JobError> {
    let mut inputs = Map::new();
    let mut all_sent: Vec<(&str, Sent)> = Vec::new();
    for (name, source) in order.inputs()? {
        let input = match source {
            Source::Upload(id) => order::sent(*id),
            Source::Url(address) => order::elsewhere(address),
            Source::File(path) => {
                screen.leaves(match named(&all_sent).as_str() {
                    "" => format!("nothing was ordered; {} was not sent whole", path.display()),
                    named => format!("nothing was ordered. What was sent can be named:{named}"),
                });
                let sent = upload(api, screen, path).await?;
                let id = sent.upload;
                all_sent.push((name, sent));
                order::sent(id)
            }
        };
        inputs.insert(name.to_owned(), input);
    }
    Ok((inputs, all_sent))
}

/// A key that names another order, if files were sent: whoever gives the same files again does not expect
/// that their uploads, and so the order, are others.
fn say_of_files(error: JobError, were_sent: bool) -> JobError {
    let mut problem = match error {
        JobError::Refused(problem) if were_sent => problem,
        other => return other,
    };
    if problem.code.as_deref() == Some("idempotency_key_reused") {
        let detail = problem.detail.take().unwrap_or_default();
        problem.detail = Some(format!(
            "{detail}. A file that is sent again is another upload, and so another order: to repeat one, name \
             the upload that its job shows (fencepost job get), --input NAME=upload:ID"
        ));
    }
    JobError::Refused(problem)
}

/// How what was sent is named when the order is given again.
fn named(all_sent: &[(&str, Sent)]) -> String {
    let named = all_sent.iter();
    let named = named.map(|(name, sent)| format!(" --input {name}=upload:{}", sent.upload));
    named.collect()
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
