//! The command line.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use fencepost_domain::duration::LeaseDuration;
use fencepost_egress::AllowList;
use fencepost_media::{Overrides, RemotionOverrides};
use tokio::runtime::Handle;

use crate::address::Gateway;
use crate::credential::{EnrollmentCode, MAX_CODE_BYTES};
use crate::detached::commands::{self, LeaseArgs};
use crate::logging::{self, LogFormat};
use crate::run::{self, Settings};
use crate::state_dir::StateDir;
use crate::status::{self, Status};
use crate::{pairing, state_dir};

/// The name of the variable that may hold an enrollment code.
const CODE_VARIABLE: &str = "FENCEPOST_ENROLLMENT_CODE";

/// Earns with this Mac: runs media jobs for a Fencepost gateway.
///
/// Pair once, then run. Everything the agent knows is in its state folder.
#[derive(Debug, Parser)]
#[command(
    name = "fencepost-agent",
    version,
    after_help = "Example:\n  fencepost-agent pair --gateway https://gateway.example.com --state-dir ~/.fencepost\n  fencepost-agent run --state-dir ~/.fencepost"
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Pair(PairArgs),
    Run(RunArgs),
    Status(StatusArgs),
    Lease(LeaseArgs),
}

/// Turn a one-use enrollment code into this device's own token.
///
/// The code (`fp_pair_…`, from the operator) is read from --code-file, else from the variable
/// FENCEPOST_ENROLLMENT_CODE, else asked for. It is never an argument, because every user of this
/// machine could read it there.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  echo \"$CODE\" | fencepost-agent pair --gateway https://gateway.example.com \\\n      --state-dir ~/.fencepost --name studio-mac --code-file -"
)]
struct PairArgs {
    /// The gateway's address: https, or http to this same machine
    #[arg(long, value_name = "URL")]
    gateway: String,
    /// Where the agent keeps its token and its work
    #[arg(long, value_name = "DIR")]
    state_dir: PathBuf,
    /// What you call this Mac [default: its host name]
    #[arg(long)]
    name: Option<String>,
    /// Read the enrollment code from this file, or from stdin if it is -
    #[arg(long, value_name = "FILE")]
    code_file: Option<PathBuf>,
    /// Answer with JSON
    #[arg(long)]
    json: bool,
}

/// Connect, pull work, do it, until stopped.
///
/// The first Ctrl-C or TERM hands back what is not finished, within ten seconds; a second one ends
/// the agent at once.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  fencepost-agent run --state-dir ~/.fencepost --slots 2")]
struct RunArgs {
    /// The folder that `pair` was given
    #[arg(long, value_name = "DIR")]
    state_dir: PathBuf,
    /// How many attempts to work on at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    slots: u32,
    /// Use this ffmpeg [default: the one in PATH or in the usual places]
    #[arg(long, value_name = "PATH")]
    ffmpeg: Option<PathBuf>,
    /// Use this ffprobe [default: the one beside ffmpeg]
    #[arg(long, value_name = "PATH")]
    ffprobe: Option<PathBuf>,
    /// Also render Remotion bundles, with the @remotion/renderer of this folder's node_modules [default:
    /// none are rendered]
    ///
    /// A bundle is a buyer's program. It runs in a browser without network, behind a wall of the
    /// operating system. Remotion itself is not free for companies of more than three people:
    /// <https://remotion.dev/license>
    #[arg(long, value_name = "DIR")]
    remotion: Option<PathBuf>,
    /// Use this node for Remotion [default: the one in PATH or in the usual places]
    #[arg(long, value_name = "PATH", requires = "remotion")]
    node: Option<PathBuf>,
    /// Use this browser for Remotion [default: the one that Remotion has fetched, Chrome or Chromium]
    #[arg(long, value_name = "PATH", requires = "remotion")]
    browser: Option<PathBuf>,
    /// How long to keep the log of a run that failed; 0 keeps nothing
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = parse_retention)]
    retain_failed_for: Retention,
    /// Also fetch inputs from these networks, such as 10.20.0.0/16; without it, only from the gateway
    /// and from public addresses
    #[arg(
        long,
        value_name = "CIDR",
        value_delimiter = ',',
        env = "FENCEPOST_AGENT_EGRESS_ALLOW_CIDRS"
    )]
    egress_allow_cidrs: Vec<String>,
    /// When the gateway says to stay away (this device was revoked, or another copy of this agent
    /// took over), do so until stopped, instead of ending: for launchd and others that would start
    /// the agent again
    #[arg(long)]
    supervised: bool,
    /// How log lines look
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log: LogFormat,
}

/// How long something is kept, if at all.
#[derive(Debug, Clone, Copy)]
struct Retention(Option<LeaseDuration>);

fn parse_retention(text: &str) -> Result<Retention, String> {
    if text == "0" {
        return Ok(Retention(None));
    }
    let kept: Result<LeaseDuration, _> = text.parse();
    kept.map(|kept| Retention(Some(kept)))
        .map_err(|error| error.problem)
}

/// Show whether the agent runs and what it holds.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  fencepost-agent status --state-dir ~/.fencepost --json")]
struct StatusArgs {
    /// The folder that `pair` was given
    #[arg(long, value_name = "DIR")]
    state_dir: PathBuf,
    /// Answer with JSON
    #[arg(long)]
    json: bool,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

impl Cli {
    /// Does what was asked; jobs run on `workers`. The error is for a person.
    pub async fn execute(self, workers: Handle) -> Result<ExitCode, Failure> {
        match self.command {
            Command::Pair(args) => pair(args).await?,
            Command::Run(args) => run(args, workers).await?,
            Command::Status(args) => show_status(&args)?,
            Command::Lease(args) => return Ok(commands::run(args).await?),
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn run(args: RunArgs, workers: Handle) -> Result<(), Failure> {
    logging::start(args.log);
    let settings = Settings {
        state_dir: args.state_dir,
        slots: args.slots,
        tools: Overrides {
            ffmpeg: args.ffmpeg,
            ffprobe: args.ffprobe,
            remotion: args.remotion.map(|folder| RemotionOverrides {
                folder,
                node: args.node,
                browser: args.browser,
            }),
        },
        retain_failed_for: args.retain_failed_for.0,
        egress_allow: AllowList::parse(args.egress_allow_cidrs.iter().map(String::as_str))?,
        supervised: args.supervised,
    };
    Ok(Box::pin(run::run(settings, workers)).await?)
}

async fn pair(args: PairArgs) -> Result<(), Failure> {
    let gateway = Gateway::parse(&args.gateway)?;
    let state = StateDir::open(&args.state_dir)?;
    // A running agent would go on with the old token.
    let _lock = state.lock()?;
    let name = args.name.unwrap_or_else(host_name);
    let code = read_code(args.code_file.as_deref())?;
    let device = pairing::pair(&gateway, &code, &name).await?;
    device.write(&state.device_file())?;
    let answer = if args.json {
        let ids = serde_json::json!({
            "device_id": device.device_id,
            "provider_id": device.provider_id,
            "gateway": device.gateway,
        });
        ids.to_string()
    } else {
        let folder = args.state_dir.display();
        format!(
            "Paired as {name} (device {}).\nNow: fencepost-agent run --state-dir {folder}",
            device.device_id
        )
    };
    Ok(writeln!(io::stdout(), "{answer}")?)
}

fn read_code(file: Option<&Path>) -> Result<EnrollmentCode, Failure> {
    let text = match file {
        Some(path) if path == Path::new("-") => read_bounded(io::stdin().lock())?,
        Some(path) => {
            read_bounded(std::fs::File::open(path).map_err(|error| state_dir::io_at(path, error))?)?
        }
        None => match std::env::var(CODE_VARIABLE) {
            Ok(code) => code,
            Err(_) => ask_for_code()?,
        },
    };
    EnrollmentCode::parse(&text)
        .ok_or_else(|| "that is no enrollment code: it begins with fp_pair_".into())
}

fn ask_for_code() -> io::Result<String> {
    if io::stdin().is_terminal() {
        write!(io::stderr(), "Enrollment code (fp_pair_…): ")?;
        io::stderr().flush()?;
    }
    let mut line = String::new();
    io::stdin()
        .lock()
        .take(MAX_CODE_BYTES as u64 + 2)
        .read_line(&mut line)?;
    Ok(line)
}

fn read_bounded(source: impl io::Read) -> io::Result<String> {
    let mut text = String::new();
    source
        .take(MAX_CODE_BYTES as u64 + 2)
        .read_to_string(&mut text)?;
    Ok(text)
}

fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

fn show_status(args: &StatusArgs) -> Result<(), Failure> {
    if !args.state_dir.is_dir() {
        return Err(format!("there is no folder {}", args.state_dir.display()).into());
    }
    let state = StateDir::open(&args.state_dir)?;
    let running = matches!(state.lock(), Err(state_dir::StateDirError::Locked(_)));
    let path = state.status_file();
    let status: Option<Status> = match std::fs::read(&path) {
        Ok(bytes) => Some(serde_json::from_slice(&bytes)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(state_dir::io_at(&path, error).into()),
    };
    let answer = if args.json {
        let paired = state.device_file().exists();
        let whole = serde_json::json!({"running": running, "paired": paired, "status": status});
        serde_json::to_string_pretty(&whole)? + "\n"
    } else {
        match &status {
            Some(status) => status::describe(status, running),
            None if running => "agent     starting\n".to_owned(),
            None if state.device_file().exists() => "agent     paired, never ran\n".to_owned(),
            None => "agent     not paired yet: run `fencepost-agent pair`\n".to_owned(),
        }
    };
    Ok(io::stdout().write_all(answer.as_bytes())?)
}
