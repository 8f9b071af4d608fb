//! From an accepted offer to the end of its job.

use fencepost_domain::attempt::Phase;
use fencepost_domain::ids::AttemptId;
use serde_json::{Value, json};

use super::held::{Settling, State};
use super::room::is_full_disk;
use super::{Core, Effect, JobOutcome, Link};
use crate::clock::Moment;
use crate::outbox::Pending;

/// A message that leaves this machine is cut to this many bytes: far below what a frame may hold.
const MAX_MESSAGE: usize = 2_000;

impl Core {
    /// The lease is confirmed: work begins, and the first report renews it.
    pub(super) fn start(&mut self, attempt: AttemptId, now: Moment) {
        let Some(held) = self.held.get_mut(&attempt) else {
            return;
        };
        let working = State::Working {
            percent: None,
            release: None,
        };
        let offered = std::mem::replace(&mut held.state, working);
        let State::Offered { work, .. } = offered else {
            held.state = offered;
            return;
        };
        self.running.insert(attempt);
        if let Some(held) = self.held.get(&attempt) {
            let deadline = self.stop_at(&held.lease);
            self.effects.push(Effect::StartJob { work, deadline });
        }
        self.say_events(attempt, now);
        self.report(attempt, now);
    }

    /// The job entered a phase, or got further in it.
    pub fn on_job_progress(
        &mut self,
        attempt: AttemptId,
        phase: Phase,
        done: Option<f32>,
        now: Moment,
    ) {
        let Some(held) = self.held.get_mut(&attempt) else {
            return;
        };
        if !matches!(held.state, State::Working { .. }) || phase < held.phase() {
            return;
        }
        let advanced = held.advance(phase);
        if let State::Working { percent, .. } = &mut held.state {
            *percent = done.map(|done| done.clamp(0.0, 100.0));
        }
        if advanced {
            self.persist(attempt);
        }
        self.maybe_report(attempt, now);
    }

    /// The job has ended: its children are gone and its workspace is deleted.
    pub fn on_job_ended(&mut self, attempt: AttemptId, outcome: JobOutcome, now: Moment) {
        self.running.remove(&attempt);
        let full_disk = matches!(&outcome, JobOutcome::Failed { code, message }
            if is_full_disk(code, message));
        if let Some(lease) = self.confirm.remove(&attempt) {
            self.say_stopped(lease, now);
        }
        if let Some(held) = self.held.get_mut(&attempt)
            && let State::Working { release, .. } = &mut held.state
        {
            let release = release.take();
            if held.lease.is_live(now) {
                let log = log_of(&outcome);
                let pending = last_word(outcome, release);
                held.advance(uploading_if_commit(&pending));
                let (kind, payload) = last_event(&pending);
                if let (Pending::Fail { .. }, Some(log)) = (&pending, log) {
                    self.keep_run(attempt, log, now);
                }
                self.note(attempt, kind, payload);
                if let Some(held) = self.held.get_mut(&attempt) {
                    held.state = State::Settling(Settling::new(pending));
                }
                self.persist(attempt);
                self.say_events(attempt, now);
                self.say_last_word(attempt, now);
            } else {
                tracing::warn!(attempt.id = %attempt, "the lease ran out before its job had ended");
                self.let_go(attempt, None, now);
            }
        }
        if full_disk {
            self.on_full_disk(attempt, now);
        }
        self.maybe_pull(now);
    }

    /// A message of ours was larger than the gateway takes (close 1009): the attempt it was about
    /// is given up, so that the message is never sent again.
    pub fn on_too_large(&mut self) {
        let Some(attempt) = self.last_about.take() else {
            return;
        };
        let running = self.running.contains(&attempt);
        let Some(held) = self.held.get_mut(&attempt) else {
            return;
        };
        tracing::error!(attempt.id = %attempt, "a message about this attempt was too large");
        held.state = State::Settling(Settling::new(Pending::Fail {
            failure_code: "internal_error".to_owned(),
            message: "a message about this attempt was larger than the gateway takes".to_owned(),
        }));
        self.persist(attempt);
        if running {
            self.effects.push(Effect::StopJob(attempt));
        }
    }

    /// Whether frames about attempts may be sent.
    pub(super) fn may_speak(&self) -> bool {
        self.link == Link::Up
    }
}

/// What is kept of a run that failed.
fn log_of(outcome: &JobOutcome) -> Option<String> {
    match outcome {
        JobOutcome::Failed { code, message } => Some(format!("{code}\n{message}\n")),
        JobOutcome::Uploaded(_) | JobOutcome::Stopped => None,
    }
}

/// The last entry of an attempt's journal.
fn last_event(pending: &Pending) -> (&'static str, Value) {
    match pending {
        Pending::Commit { output } => (
            "run.finished",
            json!({ "sha256": output.sha256, "size_bytes": output.size_bytes }),
        ),
        Pending::Fail {
            failure_code,
            message,
        } => (
            "run.failed",
            json!({ "code": failure_code, "diagnostics": message }),
        ),
        Pending::Release { reason } => ("run.released", json!({ "reason": reason })),
        Pending::Retain { .. } => ("run.kept", Value::Null),
    }
}

fn uploading_if_commit(pending: &Pending) -> Phase {
    match pending {
        Pending::Commit { .. } => Phase::Uploading,
        Pending::Fail { .. } | Pending::Release { .. } | Pending::Retain { .. } => Phase::Leased,
    }
}

/// What is said about a job that ended like this. A result is a result even while shutting down.
fn last_word(outcome: JobOutcome, release: Option<String>) -> Pending {
    match (outcome, release) {
        (JobOutcome::Uploaded(output), _) => Pending::Commit { output },
        (JobOutcome::Stopped | JobOutcome::Failed { .. }, Some(reason)) => {
            Pending::Release { reason }
        }
        (
            JobOutcome::Failed {
                code: "no_capacity",
                message,
            },
            None,
        ) => Pending::Release { reason: message },
        (JobOutcome::Failed { code, message }, None) => Pending::Fail {
            failure_code: code.to_owned(),
            message: fencepost_domain::text::clean(&message, MAX_MESSAGE),
        },
        (JobOutcome::Stopped, None) => Pending::Fail {
            failure_code: "internal_error".to_owned(),
            message: "the work stopped although nobody asked for it".to_owned(),
        },
    }
}
