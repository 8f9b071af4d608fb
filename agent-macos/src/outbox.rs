//! What the agent holds, and what it said without having heard the answer: on disk.
//!
//! One file per attempt, `leases/<attempt_id>.json`, owner-only, replaced atomically, removed when
//! the authority has answered finally (or the lease is lost):
//!
//! ```json
//! {
//!   "job_id": "0197…", "attempt_id": "0197…",
//!   "lease_epoch": 3, "commit_token": "…32 characters of base64url…",
//!   "object_key": "outputs/<job>/<attempt>/output.mp4",
//!   "phase": "running",
//!   "pending": {"type": "commit", "output": {"sha256": "…", "size_bytes": 1, "object_key": "…"}}
//! }
//! ```
//!
//! `events` are journal entries that are not answered, each with the pair that it was first said
//! under. `lease_epoch` and `commit_token` are the pair to present; `pending` is written **before** it is
//! sent, and is one of `commit {output}`, `fail {failure_code, message}`, `release {reason}` and,
//! once a failure is answered, `retain {handle, retain_for}`. It is absent while there is still work to do. A restarted agent has no work any more, so it hands back
//! what has no `pending` and repeats, word for word, what has.

use std::fs;
use std::io;
use std::path::PathBuf;

use fencepost_domain::attempt::Phase;
use fencepost_domain::commit_token::CommitToken;
use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::ids::{AttemptId, EventId, JobId};
use fencepost_protocol::{AgentFrame, LeaseRef, OutputDeclaration};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::reserve::{Reserve, is_full};
use crate::state_dir::{StateDirError, io_at, write_atomically};

/// What one file says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRecord {
    /// The job.
    pub job_id: JobId,
    /// The attempt.
    pub attempt_id: AttemptId,
    /// The epoch to present.
    pub lease_epoch: i64,
    /// The secret to present.
    pub commit_token: CommitToken,
    /// Where the output goes.
    pub object_key: String,
    /// How far the work is.
    pub phase: Phase,
    /// Journal entries that are not answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<PendingEvent>,
    /// What was said and not answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<Pending>,
}

/// A journal entry, with the pair that it is said under.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingEvent {
    /// Its id, the same whenever it is said.
    pub event_id: EventId,
    /// Its number.
    pub seq: i64,
    /// What happened.
    pub kind: String,
    /// What there is to say about it.
    pub payload: Value,
    /// The epoch that it is said under.
    pub lease_epoch: i64,
    /// The secret that goes with it.
    pub commit_token: CommitToken,
    /// Whether the pair that it was first said under was refused.
    #[serde(default)]
    pub again: bool,
}

/// The last word about an attempt, without the lease it is said under.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Pending {
    /// The result.
    Commit {
        /// What was uploaded.
        output: OutputDeclaration,
    },
    /// It failed.
    Fail {
        /// A failure code of the contract.
        failure_code: String,
        /// For a person.
        message: String,
    },
    /// Handed back, unfinished.
    Release {
        /// Why.
        reason: String,
    },
    /// It has failed, and this is what it left.
    Retain {
        /// What we call it.
        handle: String,
        /// How long it is kept.
        retain_for: LeaseDuration,
    },
}

impl Pending {
    /// The frame that says it under this lease.
    pub fn frame(&self, lease: LeaseRef, commit_token: CommitToken) -> AgentFrame {
        match self.clone() {
            Self::Commit { output } => AgentFrame::Commit {
                lease,
                commit_token,
                output,
            },
            Self::Fail {
                failure_code,
                message,
            } => AgentFrame::Fail {
                lease,
                commit_token,
                failure_code,
                message,
            },
            Self::Release { reason } => AgentFrame::Release {
                lease,
                commit_token,
                reason,
            },
            Self::Retain { handle, retain_for } => AgentFrame::Retain {
                lease,
                commit_token,
                handle,
                retain_for,
            },
        }
    }
}

impl LeaseRecord {
    /// The lease that it is about.
    pub fn lease(&self) -> LeaseRef {
        LeaseRef {
            job_id: self.job_id,
            attempt_id: self.attempt_id,
            lease_epoch: self.lease_epoch,
        }
    }
}

/// The folder of these files.
#[derive(Debug, Clone)]
pub struct Outbox {
    folder: PathBuf,
    reserve: Option<Reserve>,
}

impl Outbox {
    /// The outbox in `folder`, which exists.
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            reserve: None,
        }
    }

    /// The same with a reserve to give up when the disk is full.
    pub fn with_reserve(self, reserve: Reserve) -> Self {
        Self {
            reserve: Some(reserve),
            ..self
        }
    }

    /// Writes a record, replacing the attempt's earlier one.
    pub fn put(&self, record: &LeaseRecord) -> Result<(), StateDirError> {
        let path = self.path(record.attempt_id);
        let bytes = serde_json::to_vec_pretty(record).map_err(|e| io_at(&path, e.into()))?;
        match (write_atomically(&path, &bytes), &self.reserve) {
            (Err(StateDirError::Io { error, .. }), Some(reserve)) if is_full(&error) => {
                tracing::warn!("the disk is full: giving up the reserve for the outbox");
                reserve.give_up();
                write_atomically(&path, &bytes)
            }
            (written, _) => written,
        }
    }

    /// Removes an attempt's record; it may be gone already.
    pub fn remove(&self, attempt: AttemptId) -> Result<(), StateDirError> {
        let path = self.path(attempt);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_at(&path, error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Everything that an earlier run left. A file that cannot be read is set aside under another
    /// name and reported: it must neither stop the agent nor vanish.
    pub fn load(&self) -> Result<Vec<LeaseRecord>, StateDirError> {
        let mut records = Vec::new();
        let entries = fs::read_dir(&self.folder).map_err(|error| io_at(&self.folder, error))?;
        for entry in entries {
            let path = entry.map_err(|error| io_at(&self.folder, error))?.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let bytes = fs::read(&path).map_err(|error| io_at(&path, error))?;
            match serde_json::from_slice::<LeaseRecord>(&bytes) {
                Ok(record) => records.push(record),
                Err(error) => {
                    let aside = path.with_extension("unreadable");
                    tracing::error!(file = %aside.display(), %error, "a lease file is damaged; it is set aside");
                    fs::rename(&path, &aside).map_err(|error| io_at(&path, error))?;
                }
            }
        }
        Ok(records)
    }

    fn path(&self, attempt: AttemptId) -> PathBuf {
        self.folder.join(format!("{attempt}.json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_domain::commit_token::TOKEN_BYTES;

    fn record(pending: Option<Pending>) -> LeaseRecord {
        LeaseRecord {
            job_id: JobId::new(),
            attempt_id: AttemptId::new(),
            lease_epoch: 3,
            commit_token: CommitToken::from_entropy([5; TOKEN_BYTES]),
            object_key: "outputs/j/a/output.mp4".to_owned(),
            phase: Phase::Uploading,
            events: Vec::new(),
            pending,
        }
    }

    fn commit() -> Pending {
        let output = OutputDeclaration {
            sha256: "ab".repeat(32),
            size_bytes: 7,
            object_key: "outputs/j/a/output.mp4".to_owned(),
        };
        Pending::Commit { output }
    }

    #[test]
    fn what_was_put_is_loaded_word_for_word_and_removed_once_answered() {
        let temp = tempfile::tempdir().unwrap();
        let outbox = Outbox::new(temp.path().to_owned());
        let first = record(Some(commit()));
        outbox.put(&first).unwrap();
        assert_eq!(outbox.load().unwrap(), std::slice::from_ref(&first));
        outbox.remove(first.attempt_id).unwrap();
        outbox.remove(first.attempt_id).unwrap();
        assert!(outbox.load().unwrap().is_empty());
    }

    #[test]
    fn the_file_has_the_documented_fields() {
        let value = serde_json::to_value(record(Some(commit()))).unwrap();
        for field in [
            "job_id",
            "attempt_id",
            "lease_epoch",
            "commit_token",
            "object_key",
            "phase",
        ] {
            assert!(!value[field].is_null(), "{field}");
        }
        assert_eq!(value["pending"]["type"], "commit");
        assert_eq!(value["pending"]["output"]["size_bytes"], 7);
    }

    #[test]
    fn a_damaged_file_is_set_aside_and_the_others_are_read() {
        let temp = tempfile::tempdir().unwrap();
        let outbox = Outbox::new(temp.path().to_owned());
        let good = record(None);
        outbox.put(&good).unwrap();
        fs::write(temp.path().join("broken.json"), b"{").unwrap();
        assert_eq!(outbox.load().unwrap(), [good]);
        assert!(temp.path().join("broken.unreadable").exists());
    }

    #[test]
    fn no_secret_shows_in_debug() {
        let record = record(None);
        assert!(!format!("{record:?}").contains(&record.commit_token.expose()));
    }
}
