//! `fencepost-agent lease …`: what each command does, says and ends with.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use fencepost_domain::attempt::Phase;
use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::ids::RequestId;
use fencepost_protocol::{Directive, LeaseRef};
use serde_json::{Value, json};

use super::desk::{AskError, Desk};
use super::lease::{Claim, Claimed, EndError, Lease, Progressed, give_back};
use super::publish::{PublishError, publish};
use super::token_file::{self, Reserved};
use crate::credential::DeviceFile;
use crate::state_dir::StateDir;

/// How often a claim whose answer did not arrive is asked for again.
const CLAIM_TRIES: u32 = 5;

const EXIT_CODES: &str = "Exit codes:
  0  done
  1  trouble on this side: a file, the pairing, a wrong value
  2  the command line is wrong
  3  refused: the lease is not yours any more; drop the work
  4  trouble on the other side, or no verdict yet: say the same again
  5  there is nothing to claim now
  6  the job is being cancelled: stop, and release the lease
  7  claimed, but the token file could not be written: the lease stands until it runs out

Example:
  fencepost-agent lease claim --state-dir ~/.fencepost --out lease.token --json > work.json
  fencepost-agent lease progress --state-dir ~/.fencepost --token-file lease.token --phase running
  fencepost-agent lease commit --state-dir ~/.fencepost --token-file lease.token --file out.mp4";

/// Take single jobs, for workers that span processes: one claims, others work and end it.
///
/// The lease travels in a token file, which is as good as the lease: only its owner can read it, and
/// its secret is never an argument. Whoever holds it renews it (progress or renew) before it runs out.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct LeaseArgs {
    #[command(subcommand)]
    command: LeaseCommand,
}

#[derive(Debug, Subcommand)]
enum LeaseCommand {
    /// Claim one job; its lease goes into a new file, the work to standard output
    Claim {
        /// The folder that `pair` was given
        #[arg(long, value_name = "DIR")]
        state_dir: PathBuf,
        /// A new file for the lease, for its owner alone; one that exists is refused
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// What the worker can do [default: what this Mac's agent said last]; may be repeated
        #[arg(long, value_name = "WORD")]
        capability: Vec<String>,
        /// How many attempts this Mac takes at once, if its agent never connected
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
        slots: Option<u32>,
        /// Answer with JSON
        #[arg(long)]
        json: bool,
    },
    /// Say how far the work is, and renew the lease
    Progress {
        #[command(flatten)]
        held: Held,
        /// leased, downloading, running or uploading; it only moves forward
        #[arg(long, value_parser = phase)]
        phase: Phase,
        /// How much of the phase is done, 0 to 100
        #[arg(long)]
        percent: Option<f32>,
        /// One line for a person
        #[arg(long)]
        detail: Option<String>,
    },
    /// Renew the lease; refused if that would not extend it
    Renew {
        #[command(flatten)]
        held: Held,
        /// For how long from now on, such as 30s [default: as long as leases are]
        #[arg(long = "for", value_name = "TIME")]
        length: Option<LeaseDuration>,
    },
    /// Give the lease back
    Release {
        #[command(flatten)]
        held: Held,
        /// Why, for the log
        #[arg(long, default_value = "released by its worker")]
        reason: String,
    },
    /// Say that the work cannot be done
    Fail {
        #[command(flatten)]
        held: Held,
        /// A failure code, such as runner_failed
        #[arg(long)]
        code: String,
        /// What happened, for the buyer
        #[arg(long, default_value = "")]
        message: String,
    },
    /// Upload a file as the output, and wait until it is verified
    Commit {
        #[command(flatten)]
        held: Held,
        /// The output
        #[arg(long, value_name = "OUTPUT")]
        file: PathBuf,
        /// How long to wait for the verdict
        #[arg(long, value_name = "TIME", default_value = "10m")]
        wait: LeaseDuration,
    },
}

#[derive(Debug, Args)]
struct Held {
    /// The folder that `pair` was given
    #[arg(long, value_name = "DIR")]
    state_dir: PathBuf,
    /// The file that `claim` wrote, or - for standard input
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// Answer with JSON
    #[arg(long)]
    json: bool,
}

fn phase(word: &str) -> Result<Phase, String> {
    serde_json::from_value(json!(word))
        .map_err(|_| "leased, downloading, running or uploading".to_owned())
}

/// How a command ends other than well.
struct Ending {
    exit: u8,
    code: String,
    message: String,
    more: Value,
}

impl Ending {
    fn new(exit: u8, code: &str, message: &dyn Display) -> Self {
        Self {
            exit,
            code: code.to_owned(),
            message: message.to_string(),
            more: json!({}),
        }
    }

    fn here(message: impl Display) -> Self {
        Self::new(1, "trouble", &message)
    }
}

impl From<&AskError> for Ending {
    fn from(error: &AskError) -> Self {
        match error {
            AskError::Retry { code, message, .. } => Self::new(4, code, message),
            AskError::Refused { code, message } => Self::new(3, code, message),
            AskError::Wrong { code, message } => Self::new(1, code, message),
        }
    }
}

impl From<AskError> for Ending {
    fn from(error: AskError) -> Self {
        Self::from(&error)
    }
}

impl From<EndError> for Ending {
    fn from(error: EndError) -> Self {
        Self::from(error.why())
    }
}

impl From<PublishError> for Ending {
    fn from(error: PublishError) -> Self {
        match error {
            PublishError::End(error) => error.into(),
            PublishError::Stopped => Self::new(6, "buyer_cancelled", &error),
            PublishError::File(message) => Self::here(message),
        }
    }
}

/// Does what was asked.
///
/// # Errors
/// Standard output is gone.
pub async fn run(args: LeaseArgs) -> io::Result<ExitCode> {
    let json = match &args.command {
        LeaseCommand::Claim { json, .. } => *json,
        LeaseCommand::Progress { held, .. }
        | LeaseCommand::Renew { held, .. }
        | LeaseCommand::Release { held, .. }
        | LeaseCommand::Fail { held, .. }
        | LeaseCommand::Commit { held, .. } => held.json,
    };
    let ending = match Box::pin(execute(args.command)).await {
        Ok((answer, text)) => {
            say(json.then_some(&answer), &text)?;
            return Ok(ExitCode::SUCCESS);
        }
        Err(ending) => ending,
    };
    let Ending {
        exit,
        code,
        message,
        more,
    } = ending;
    if json {
        let mut answer = more;
        answer["error"] = json!({ "code": code, "message": message });
        say(Some(&answer), "")?;
    } else {
        writeln!(io::stderr(), "fencepost-agent: {message}")?;
        if more.as_object().is_some_and(|more| !more.is_empty()) {
            writeln!(io::stderr(), "{more:#}")?;
        }
    }
    Ok(ExitCode::from(exit))
}

fn say(json: Option<&Value>, text: &str) -> io::Result<()> {
    match json {
        Some(answer) => writeln!(io::stdout(), "{answer}"),
        None => writeln!(io::stdout(), "{text}"),
    }
}

type Done = Result<(Value, String), Ending>;

async fn execute(command: LeaseCommand) -> Done {
    match command {
        LeaseCommand::Claim {
            state_dir,
            out,
            capability,
            slots,
            ..
        } => {
            let claim = Claim {
                request: RequestId::new(),
                capabilities: capability,
                slots,
            };
            claim_into(&desk(&state_dir)?, &out, &claim).await
        }
        LeaseCommand::Progress {
            held,
            phase,
            percent,
            detail,
        } => {
            let (desk, lease) = open(&held)?;
            let said = (phase, percent, detail.as_deref());
            renewed(lease.progress(&desk, said).await?)
        }
        LeaseCommand::Renew { held, length } => {
            let (desk, lease) = open(&held)?;
            renewed(lease.renew(&desk, length).await?)
        }
        LeaseCommand::Release { held, reason } => {
            let (desk, lease) = open(&held)?;
            let reference = lease.reference();
            lease.release(&desk, RequestId::new(), &reason).await?;
            Ok(ended(reference, "released"))
        }
        LeaseCommand::Fail {
            held,
            code,
            message,
        } => {
            let (desk, lease) = open(&held)?;
            let reference = lease.reference();
            let said = (code.as_str(), message.as_str());
            lease.fail(&desk, RequestId::new(), said).await?;
            Ok(ended(reference, "failed"))
        }
        LeaseCommand::Commit { held, file, wait } => {
            let (desk, lease) = open(&held)?;
            let reference = lease.reference();
            publish(lease, &desk, &file, wait.std()).await?;
            Ok(ended(reference, "succeeded"))
        }
    }
}

fn desk(state_dir: &Path) -> Result<Desk, Ending> {
    if !state_dir.is_dir() {
        let what = format!("there is no folder {}", state_dir.display());
        return Err(Ending::here(what));
    }
    let state = StateDir::open(state_dir).map_err(Ending::here)?;
    let device = DeviceFile::read(&state.device_file()).map_err(Ending::here)?;
    Desk::of(&device).map_err(Ending::here)
}

fn open(held: &Held) -> Result<(Desk, Lease), Ending> {
    let lease = token_file::read(&held.token_file).map_err(Ending::here)?;
    Ok((desk(&held.state_dir)?, lease))
}

/// The file comes first: a lease that nobody could keep is not claimed.
async fn claim_into(desk: &Desk, out: &Path, claim: &Claim) -> Done {
    let reserved = Reserved::new(out).map_err(Ending::here)?;
    let (lease, mut work) = match ask_for(desk, claim).await? {
        Claimed::Leased(lease, work) => (lease, work),
        Claimed::Nothing => {
            let what = "there is nothing to claim now";
            return Err(Ending::new(5, "no_work", &what));
        }
        Claimed::Before { reference } => {
            give_back(desk, reference, claim.request).await?;
            let what = "the claim's answer was lost, and its lease was given back: claim again";
            return Err(Ending::new(4, "answer_lost", &what));
        }
    };
    let LeaseRef {
        job_id,
        attempt_id,
        lease_epoch,
    } = lease.reference();
    if let Err(error) = reserved.write(&lease) {
        let what = format!("claimed, but the lease could not be kept: {error}");
        let mut ending = Ending::new(7, "token_file_failed", &what);
        ending.more = json!({ "receipt": {
            "scope": lease.scope(), "job_id": job_id, "attempt_id": attempt_id,
            "lease_epoch": lease_epoch, "request_id": claim.request,
            "lease_expires_at": work["lease_expires_at"],
        }});
        return Err(ending);
    }
    work["token_file"] = json!(out.display().to_string());
    let text = format!(
        "Claimed {} for job {job_id} (attempt {attempt_id}); the lease is in {} and ends at {}",
        work["service"].as_str().unwrap_or("work"),
        out.display(),
        work["lease_expires_at"].as_str().unwrap_or("its time"),
    );
    Ok((work, text))
}

/// Asks until there is an answer: under the same id, so that it is one claim however often.
async fn ask_for(desk: &Desk, claim: &Claim) -> Result<Claimed, Ending> {
    for _ in 1..CLAIM_TRIES {
        match Lease::claim(desk, claim).await {
            Err(AskError::Retry { after, .. }) => {
                tokio::time::sleep(after.min(Duration::from_secs(5))).await;
            }
            answer => return Ok(answer?),
        }
    }
    Ok(Lease::claim(desk, claim).await?)
}

fn renewed(told: Progressed) -> Done {
    let Progressed {
        lease_expires_at,
        lease_remaining_ms,
        directive,
        reason,
    } = told;
    if directive == Directive::Stop {
        let reason = reason.unwrap_or_default();
        let what = format!("stop ({reason}): the job is being cancelled");
        return Err(Ending::new(6, &reason, &what));
    }
    let text = format!("The lease ends at {lease_expires_at}, in {lease_remaining_ms} ms");
    let answer = json!({
        "lease_expires_at": lease_expires_at,
        "lease_remaining_ms": lease_remaining_ms,
        "directive": directive,
    });
    Ok((answer, text))
}

fn ended(lease: LeaseRef, how: &str) -> (Value, String) {
    let LeaseRef {
        job_id, attempt_id, ..
    } = lease;
    let answer = json!({ "status": how, "job_id": job_id, "attempt_id": attempt_id });
    (answer, format!("Attempt {attempt_id} has {how}"))
}
