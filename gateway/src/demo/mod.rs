//! `fencepost demo`: what Fencepost promises, shown and checked on one machine in about a minute.
//!
//! Everything is real and nothing has a special case for the demo: a gateway and two agents in
//! processes of their own, set up by the commands that users type, a buyer that speaks HTTP, and
//! short leases by configuration.
//!
//! ```text
//! stage      puts Postgres, gateway, accounts and two Macs up, and takes them down (control, mac, child)
//! act_one    a job from file to file (buyer, follow)
//! act_two    freezes the Mac at work (victim, heavy, freeze, processes) and lets the other one win
//! aftermath  thaws the loser
//! misdeeds   plays a Mac that does not behave (impostor)
//! ```
//!
//! What is told was checked. The last line on stdout is one JSON object, only if all of it held.

mod act_one;
mod act_two;
mod aftermath;
mod buyer;
mod child;
mod control;
mod error;
mod follow;
mod freeze;
mod heavy;
mod impostor;
mod input;
mod mac;
mod misdeeds;
mod processes;
mod report;
mod signals;
mod stage;
mod stop;
mod victim;
mod wait;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use act_one::Cast;
use buyer::Buyer;
pub use error::DemoError;
use report::Narrator;
use signals::Signals;
use stage::Stage;

/// Lines of each log that are shown when something went wrong.
const LAST_WORDS: usize = 12;

/// What the demo works with.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// The video to transcode [default: a clip that the demo makes]
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Leave everything running at the end, and say how to use and to stop it
    #[arg(long)]
    keep: bool,
    /// End and remove what --keep left running in this folder
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["input", "keep"])]
    stop: Option<PathBuf>,
    /// The agent's program [default: fencepost-agent beside this one]
    #[arg(long, value_name = "PATH")]
    agent_bin: Option<PathBuf>,
    /// Where the outputs go
    #[arg(long, value_name = "DIR", default_value = "demo-output")]
    output_dir: PathBuf,
}

/// Runs the demo, or stops a kept one.
pub async fn run(args: &DemoArgs) -> Result<(), DemoError> {
    let say = Narrator::new();
    if let Some(folder) = &args.stop {
        return stop::stop(folder, say).await;
    }
    let mut signals = Signals::listen()?;
    let agent = agent_program(args.agent_bin.as_deref())?;
    std::fs::create_dir_all(&args.output_dir)?;
    let output_dir = args.output_dir.canonicalize()?;
    let input = args
        .input
        .as_deref()
        .map(Path::canonicalize)
        .transpose()
        .map_err(|error| DemoError::stuck(format!("the input cannot be used: {error}")))?;
    if let Some(input) = &input {
        input::check(input).await?;
    }
    say.title("Fencepost: work on other people's Macs, and one promise");
    say.tell("A worker that lost its lease can never publish, whatever it finished.\nSetting up:");
    let mut stage = Stage::with_postgres(args.keep).await?;
    let play = Box::pin(play(&mut stage, input.as_deref(), &output_dir, &agent, say));
    let outcome = tokio::select! {
        outcome = play => outcome,
        () = signals.stop() => {
            say.tell("\nInterrupted: everything is being stopped and removed.");
            Err(DemoError::Interrupted)
        }
    };
    finish(stage, outcome, args.keep, say).await
}

/// Both acts. Returns the last line.
async fn play(
    stage: &mut Stage,
    input: Option<&Path>,
    output_dir: &Path,
    agent: &Path,
    say: Narrator,
) -> Result<serde_json::Value, DemoError> {
    let bench = input::workbench(stage).await?;
    let (input, source) = input::prepare(&bench, input).await?;
    stage.set(agent, say).await?;
    let buyer = Buyer::new(&stage.url, &stage.api_key)?;
    let cast = Cast {
        buyer: &buyer,
        bench: &bench,
        say,
        output_dir,
    };
    let first = act_one::run(&cast, &input, &source).await?;
    let second = act_two::run(&cast, stage, &input).await?;
    let money = &second.job.money;
    Ok(json!({
        "demo": "ok",
        "job_id": second.delivered.job,
        "output": second.delivered.file,
        "output_sha256": second.delivered.sha256,
        "late_commit_code": second.late_commit_code,
        "attempts": second.attempts_as_json(),
        "money": {
            "held_micros": money.held,
            "captured_micros": money.captured,
            "released_micros": money.released,
        },
        "first_job": first.as_json(),
    }))
}

/// Takes everything down, or leaves it if that was asked for, and says how it ended.
async fn finish(
    mut stage: Stage,
    outcome: Result<serde_json::Value, DemoError>,
    keep: bool,
    say: Narrator,
) -> Result<(), DemoError> {
    let last_line = match outcome {
        Ok(last_line) if keep => {
            for mac in &mut stage.macs {
                if mac.id().is_err() {
                    mac.start()?;
                    mac.connected().await?;
                }
            }
            let (url, admin, key) = (
                stage.url.clone(),
                stage.admin_url.clone(),
                stage.api_key.clone(),
            );
            let folder = stage.leave();
            tell_how_to_go_on(say, &[&url, &admin, &key], &folder);
            last_line
        }
        Ok(last_line) => {
            stage.strike(true).await?;
            say.tell("\nEverything that the demo started has stopped, and its files are removed.");
            last_line
        }
        Err(error) => {
            if !matches!(error, DemoError::Interrupted) {
                show_last_words(&stage);
            }
            stage.strike(false).await?;
            return Err(error);
        }
    };
    Ok(writeln!(io::stdout(), "{last_line}")?)
}

fn tell_how_to_go_on(say: Narrator, [url, admin, key]: &[&str; 3], folder: &Path) {
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("fencepost"));
    say.title("Everything is still up");
    say.tell(&format!(
        "  the API              {url}\n\
         \x20 metrics and health   {admin}\n\
         \x20 a buyer's API key    {key}\n\
         \x20 try                  curl -H 'Authorization: Bearer {key}' {url}/v1/jobs\n\
         \x20 logs                 {folder}/control/*.log\n\
         \x20 to stop it           {program} demo --stop {folder}",
        folder = folder.display(),
        program = program.display(),
    ));
}

/// The ends of the logs, on stderr, before they are removed.
fn show_last_words(stage: &Stage) {
    let mut stderr = io::stderr().lock();
    for (who, log) in stage.last_words() {
        let lines: Vec<&str> = log.lines().collect();
        let from = lines.len().saturating_sub(LAST_WORDS);
        // Nothing is left to be told if not even stderr can be written.
        let _ = writeln!(
            stderr,
            "--- the last lines of {who} ---\n{}",
            lines[from..].join("\n")
        );
    }
}

fn agent_program(named: Option<&Path>) -> Result<PathBuf, DemoError> {
    let program = match named {
        Some(program) => program.to_owned(),
        None => std::env::current_exe()?.with_file_name("fencepost-agent"),
    };
    program.canonicalize().map_err(|_| {
        DemoError::stuck(format!(
            "there is no agent at {}: build it with `cargo build --workspace`, or name it with \
             --agent-bin",
            program.display()
        ))
    })
}
