//! Writes the outbox on a thread of its own, and keeps back what may not be said before it is
//! written.
//!
//! A disk that an encoder keeps busy may take seconds for a small file. Renewals must not wait for
//! that: what waits is only what the promise of the core is about. Nothing is said under an epoch
//! that is not on disk; accepts, commits, fails and releases wait for their attempt's record, hello
//! for all of them.

use std::collections::{HashMap, VecDeque};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fencepost_domain::ids::AttemptId;
use fencepost_protocol::{AgentEnvelope, AgentFrame};
use tokio::sync::mpsc as channel;

use crate::kept::KeptRuns;
use crate::outbox::{LeaseRecord, Outbox};
use crate::state_dir::StateDirError;
use crate::status::{self, Status};

/// How long the last files may take when the agent ends.
const CLOSE_TIME: Duration = Duration::from_secs(3);

enum Order {
    Put(Box<LeaseRecord>),
    Remove(AttemptId),
    Keep(AttemptId, String),
    Reap(AttemptId),
    Show(std::path::PathBuf, Box<Status>),
}

/// A record is on disk, or was refused by it: both is the end of waiting. Or what was kept is gone.
#[derive(Debug)]
pub(super) struct Written {
    attempt: AttemptId,
    /// The record's epoch; none where something was deleted.
    epoch: Option<i64>,
    /// What went wrong.
    pub(super) trouble: Option<String>,
}

impl Written {
    /// Whether what was kept of the attempt is gone.
    pub(super) fn is_reaped(&self) -> bool {
        self.epoch.is_none() && self.trouble.is_none()
    }

    pub(super) fn attempt(&self) -> AttemptId {
        self.attempt
    }
}

/// The writer's end at the agent.
pub(super) struct Writing {
    orders: Option<mpsc::Sender<Order>>,
    written: channel::UnboundedReceiver<Written>,
    /// Records on their way, by attempt.
    waiting: HashMap<AttemptId, u32>,
    /// The epoch of the last record that is written.
    on_disk: HashMap<AttemptId, i64>,
    kept_back: VecDeque<AgentEnvelope>,
}

impl Writing {
    /// Starts the thread.
    pub(super) fn start(outbox: Outbox, kept: KeptRuns) -> std::io::Result<Self> {
        let (orders, taken) = mpsc::channel();
        let (report, written) = channel::unbounded_channel();
        thread::Builder::new()
            .name("outbox".to_owned())
            .spawn(move || work((&outbox, &kept), &taken, &report))?;
        Ok(Self {
            orders: Some(orders),
            written,
            waiting: HashMap::new(),
            on_disk: HashMap::new(),
            kept_back: VecDeque::new(),
        })
    }

    pub(super) fn put(&mut self, record: Box<LeaseRecord>) {
        *self.waiting.entry(record.attempt_id).or_default() += 1;
        self.order(Order::Put(record));
    }

    /// Removes the record. What was kept back about the attempt is not said any more.
    pub(super) fn remove(&mut self, attempt: AttemptId) {
        self.waiting.remove(&attempt);
        self.on_disk.remove(&attempt);
        self.kept_back.retain(|said| {
            said.frame
                .lease()
                .is_none_or(|lease| lease.attempt_id != attempt)
        });
        self.order(Order::Remove(attempt));
    }

    /// Keeps the log of a run that failed.
    pub(super) fn keep(&mut self, attempt: AttemptId, log: String) {
        self.order(Order::Keep(attempt, log));
    }

    /// Deletes what was kept of a run; [`Writing::next`] says when it is gone.
    pub(super) fn reap(&mut self, attempt: AttemptId) {
        self.order(Order::Reap(attempt));
    }

    /// Writes what `status` shows.
    pub(super) fn show(&mut self, path: std::path::PathBuf, status: Status) {
        self.order(Order::Show(path, Box::new(status)));
    }

    /// Gives the frame back if it may be said now, else keeps it.
    pub(super) fn sayable(&mut self, envelope: AgentEnvelope) -> Option<AgentEnvelope> {
        if self.may_say(&envelope.frame) {
            return Some(envelope);
        }
        self.kept_back.push_back(envelope);
        None
    }

    /// The socket is gone, and with it whatever was to be said on it.
    pub(super) fn forget_kept_back(&mut self) {
        self.kept_back.clear();
    }

    /// The next record that is written. May be dropped and called again.
    pub(super) async fn next(&mut self) -> Written {
        match self.written.recv().await {
            Some(written) => written,
            // The thread is gone, which only happens when we end it.
            None => std::future::pending().await,
        }
    }

    /// Takes note; gives what may be said now, in the order it was to be said.
    pub(super) fn on_written(&mut self, written: &Written) -> Vec<AgentEnvelope> {
        if let Some(epoch) = written.epoch
            && let Some(count) = self.waiting.get_mut(&written.attempt)
        {
            *count -= 1;
            if *count == 0 {
                self.waiting.remove(&written.attempt);
            }
            self.on_disk.insert(written.attempt, epoch);
        }
        let kept = std::mem::take(&mut self.kept_back);
        let sayable = kept.into_iter().filter_map(|said| self.sayable(said));
        sayable.collect()
    }

    /// Waits until everything is written, for a bounded time.
    pub(super) async fn close(mut self) {
        self.orders = None;
        let all = async { while self.written.recv().await.is_some() {} };
        if tokio::time::timeout(CLOSE_TIME, all).await.is_err() {
            tracing::error!("the disk does not take the last files");
        }
    }

    fn may_say(&self, frame: &AgentFrame) -> bool {
        if matches!(frame, AgentFrame::Hello(_)) {
            return self.waiting.is_empty();
        }
        let Some(lease) = frame.lease() else {
            return true;
        };
        if !self.waiting.contains_key(&lease.attempt_id) {
            return true;
        }
        let renews = matches!(frame, AgentFrame::Progress { .. });
        renews && self.on_disk.get(&lease.attempt_id) == Some(&lease.lease_epoch)
    }

    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders
            && orders.send(order).is_err()
        {
            tracing::error!("the thread that writes the outbox is gone");
        }
    }
}

fn work(
    (outbox, kept): (&Outbox, &KeptRuns),
    orders: &mpsc::Receiver<Order>,
    report: &channel::UnboundedSender<Written>,
) {
    while let Ok(order) = orders.recv() {
        match order {
            Order::Put(record) => {
                let written = Written {
                    attempt: record.attempt_id,
                    epoch: Some(record.lease_epoch),
                    trouble: trouble(outbox.put(&record)),
                };
                // Nobody listens only when the agent is going down.
                let _ = report.send(written);
            }
            Order::Remove(attempt) => {
                if let Some(trouble) = trouble(outbox.remove(attempt)) {
                    tracing::error!(attempt.id = %attempt, trouble, "a lease file stays");
                }
            }
            Order::Keep(attempt, log) => {
                if let Some(trouble) = trouble(kept.keep(attempt, &log)) {
                    tracing::error!(attempt.id = %attempt, trouble, "a failed run is not kept");
                }
            }
            Order::Reap(attempt) => {
                let written = Written {
                    attempt,
                    epoch: None,
                    trouble: trouble(kept.reap(attempt)),
                };
                let _ = report.send(written);
            }
            Order::Show(path, status) => {
                if let Some(trouble) = trouble(status::write(&path, &status)) {
                    tracing::warn!(trouble, "the status file could not be written");
                }
            }
        }
    }
}

fn trouble(done: Result<(), StateDirError>) -> Option<String> {
    done.err().map(|error| error.to_string())
}

#[cfg(test)]
mod tests;
