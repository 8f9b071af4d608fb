//! What `run` writes and `status` shows.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fencepost_domain::ids::DeviceId;
use serde::{Deserialize, Serialize};

use crate::clock::{self, Moment};
use crate::core::HeldView;
use crate::state_dir::{StateDirError, write_lightly};

/// `status.json`. No secret is in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Process id of the agent that wrote it.
    pub pid: u32,
    /// Where it connects to.
    pub gateway: String,
    /// Who it is.
    pub device_id: DeviceId,
    /// What its owner calls it.
    pub device_name: String,
    /// `connecting`, `connected`, `draining` or `stopped`.
    pub state: String,
    /// Number of the session.
    pub session_id: Option<i64>,
    /// When the session began, in milliseconds since this machine was booted.
    pub connected_since_boot_ms: Option<u64>,
    /// How many attempts at once.
    pub slots: u32,
    /// What was proven.
    pub capabilities: Vec<String>,
    /// What is held.
    pub held: Vec<HeldStatus>,
    /// The last trouble, cleared by nothing but the next one.
    pub last_error: Option<String>,
}

/// One held attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeldStatus {
    /// The job.
    pub job_id: String,
    /// The attempt.
    pub attempt_id: String,
    /// The epoch.
    pub lease_epoch: i64,
    /// `offered`, a phase, or the last word that is not answered.
    pub doing: String,
    /// How much of the phase is done.
    pub percent: Option<f32>,
}

impl From<HeldView> for HeldStatus {
    fn from(view: HeldView) -> Self {
        Self {
            job_id: view.lease.job_id.to_string(),
            attempt_id: view.lease.attempt_id.to_string(),
            lease_epoch: view.lease.lease_epoch,
            doing: view.doing.to_owned(),
            percent: view.percent,
        }
    }
}

/// Keeps the file in step, without writing it for every frame.
#[derive(Debug)]
pub struct Board {
    path: PathBuf,
    /// What holds now.
    pub now: Status,
    written: Option<(Status, Moment)>,
}

const SPACING_MS: u64 = 1_000;

impl Board {
    /// A board at `path`.
    pub fn new(path: PathBuf, status: Status) -> Self {
        Self {
            path,
            now: status,
            written: None,
        }
    }

    /// What to write now, if something changed and the last time was a second ago.
    pub fn due(&mut self, now: Moment) -> Option<(PathBuf, Status)> {
        let due = self
            .written
            .as_ref()
            .is_none_or(|(status, at)| *status != self.now && now.millis_since(*at) >= SPACING_MS);
        due.then(|| {
            self.written = Some((self.now.clone(), now));
            (self.path.clone(), self.now.clone())
        })
    }

    /// Writes the file, changed or not: the last time before the agent ends. Trouble is logged:
    /// work does not depend on it.
    pub async fn close(&mut self) {
        let (path, status) = (self.path.clone(), self.now.clone());
        let written = tokio::task::spawn_blocking(move || write(&path, &status)).await;
        if let Ok(Err(error)) = written {
            tracing::warn!(%error, "the status file could not be written");
        }
    }
}

/// Writes the file now.
pub fn write(path: &Path, status: &Status) -> Result<(), StateDirError> {
    let bytes = serde_json::to_vec_pretty(status)
        .map_err(|error| crate::state_dir::io_at(path, error.into()))?;
    write_lightly(path, &bytes)
}

/// What the file says, for a person.
pub fn describe(status: &Status, running: bool) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    let state = if running {
        status.state.as_str()
    } else {
        "not running"
    };
    let since = status
        .connected_since_boot_ms
        .filter(|_| running)
        .map(|at| {
            let age = clock::now().millis_since(Moment::from_millis(at));
            format!(" for {} s", Duration::from_millis(age).as_secs())
        });
    // Writing to a String cannot fail.
    let _ = writeln!(out, "agent     {state}{}", since.unwrap_or_default());
    let _ = writeln!(
        out,
        "device    {} ({})",
        status.device_name, status.device_id
    );
    let _ = writeln!(out, "gateway   {}", status.gateway);
    let _ = writeln!(
        out,
        "slots     {} of {} taken",
        status.held.len(),
        status.slots
    );
    let _ = writeln!(out, "can       {}", status.capabilities.join(" "));
    for held in &status.held {
        let percent = held
            .percent
            .map(|percent| format!(" {percent:.0} %"))
            .unwrap_or_default();
        let (attempt, epoch) = (&held.attempt_id, held.lease_epoch);
        let _ = writeln!(
            out,
            "attempt   {attempt} epoch {epoch}: {}{percent}",
            held.doing
        );
    }
    if let Some(error) = &status.last_error {
        let _ = writeln!(out, "trouble   {error}");
    }
    out
}
