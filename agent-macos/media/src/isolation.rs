//! Cuts a child off from the network where the platform lets an ordinary program do so.
//!
//! It is the second wall: the first is the list of protocols that FFmpeg is given. Both an
//! unprivileged container and a locked-down desktop may forbid it; then work goes on without, and
//! [`Isolation::describe`] says so to whoever asks.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

/// How children are kept from the network on this machine. Found out once, by trying.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Isolation {
    /// A network namespace of its own (Linux), by `unshare`.
    NetworkNamespace {
        /// Path of `unshare`.
        program: PathBuf,
        /// `-n` for root, `-Urn` for others, who need a user namespace first.
        flags: &'static str,
    },
    /// A Seatbelt profile without network (macOS), by `sandbox-exec`.
    Seatbelt {
        /// Path of `sandbox-exec`.
        program: PathBuf,
    },
    /// None, because of this.
    None {
        /// Why not, for the operator.
        reason: String,
    },
}

/// Everything but the network. Both wrappers replace themselves by the program they start, so that
/// the child we hold is the program itself.
const SEATBELT_PROFILE: &str = "(version 1)(allow default)(deny network*)";
const TRIAL_TIME: Duration = Duration::from_secs(3);

impl Isolation {
    /// Tries what this platform offers.
    pub async fn detect() -> Self {
        let candidate = if cfg!(target_os = "linux") {
            let flags = if rustix::process::geteuid().is_root() {
                "-n"
            } else {
                "-Urn"
            };
            first_file(&["/usr/bin/unshare", "/bin/unshare"])
                .map(|program| Self::NetworkNamespace { program, flags })
        } else if cfg!(target_os = "macos") {
            first_file(&["/usr/bin/sandbox-exec"]).map(|program| Self::Seatbelt { program })
        } else {
            None
        };
        match candidate {
            Some(isolation) => match isolation.attempt().await {
                Ok(()) => isolation,
                Err(reason) => Self::None { reason },
            },
            None => Self::None {
                reason: "this system has no unshare or sandbox-exec".to_owned(),
            },
        }
    }

    /// One line for `doctor` and the log.
    pub fn describe(&self) -> String {
        match self {
            Self::NetworkNamespace { .. } => "FFmpeg runs without network (unshare)".to_owned(),
            Self::Seatbelt { .. } => "FFmpeg runs without network (sandbox-exec)".to_owned(),
            Self::None { reason } => {
                format!("FFmpeg is not cut off from the network, only told not to use it: {reason}")
            }
        }
    }

    /// Whether the network is really closed to children.
    pub fn is_closed(&self) -> bool {
        !matches!(self, Self::None { .. })
    }

    /// The program to start and its leading arguments, for running `program` inside.
    pub(crate) fn wrap(&self, program: &Path) -> (PathBuf, Vec<OsString>) {
        match self {
            Self::NetworkNamespace {
                program: unshare,
                flags,
            } => (unshare.clone(), vec![OsString::from(flags), program.into()]),
            Self::Seatbelt { program: sandbox } => (
                sandbox.clone(),
                vec!["-p".into(), SEATBELT_PROFILE.into(), program.into()],
            ),
            Self::None { .. } => (program.to_owned(), Vec::new()),
        }
    }

    async fn attempt(&self) -> Result<(), String> {
        let nothing = first_file(&["/usr/bin/true", "/bin/true"]).ok_or("there is no `true`")?;
        let (program, args) = self.wrap(&nothing);
        let name = program.display().to_string();
        let run = Command::new(program)
            .args(args)
            .env_clear()
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        match tokio::time::timeout(TRIAL_TIME, run).await {
            Ok(Ok(output)) if output.status.success() => Ok(()),
            Ok(Ok(output)) => {
                let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                Err(format!("{name} is not permitted here ({said})"))
            }
            Ok(Err(error)) => Err(format!("{name} does not start ({error})")),
            Err(_) => Err(format!("{name} does not end")),
        }
    }
}

pub(crate) fn first_file(paths: &[&str]) -> Option<PathBuf> {
    paths.iter().map(PathBuf::from).find(|path| path.is_file())
}
