//! How tries of deliveries went.
//!
//! Locks: endpoints, then deliveries, by id. Checks: the claim is still whoever's who records; one
//! that lapsed and was taken over records nothing. Writes: the try; when the delivery is tried again,
//! or that it is over; how long the endpoint has been failing, how long it wants to be left alone,
//! and, after failures all through the window or a 410, that it is switched off.

mod rows;
mod verdict;

use std::collections::HashMap;
use std::time::Duration;

use fencepost_domain::ids::{EndpointId, OutboxId};
use fencepost_domain::webhook::{Verdict, judge};
use uuid::Uuid;

use super::disable::disable;
use crate::error::StoreError;
use crate::run::{Store, Transaction, Tx};
use rows::{Key, read_clock, write_endpoints, write_tries};

/// What came of sending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sent {
    /// There was an answer.
    Answered {
        /// Its status.
        status: u16,
        /// How long it asks us to wait.
        retry_after: Option<Duration>,
        /// The beginning of its body.
        body: String,
    },
    /// There was none; why, without the address.
    Failed(String),
    /// It was not even sent, by trouble of ours. That is no try.
    NotSent,
}

/// One try of a delivery.
#[derive(Debug, Clone)]
pub struct Try {
    /// Of which endpoint.
    pub endpoint: EndpointId,
    /// Of which event.
    pub event: OutboxId,
    /// Under which claim.
    pub claim: Uuid,
    /// What came of it.
    pub sent: Sent,
    /// How long it took.
    pub took: Duration,
}

/// What follows from a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// It was delivered.
    Succeeded,
    /// It is tried again.
    Retried,
    /// No try is left.
    Exhausted,
    /// The endpoint was switched off by this try.
    Disabled,
    /// The endpoint had been switched off meanwhile.
    Held,
    /// It was no try.
    NotSent,
    /// Somebody else has it.
    TakenOver,
}

impl Recorded {
    /// Every outcome.
    pub const ALL: [Self; 7] = [
        Self::Succeeded,
        Self::Retried,
        Self::Exhausted,
        Self::Disabled,
        Self::Held,
        Self::NotSent,
        Self::TakenOver,
    ];

    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Retried => "retried",
            Self::Exhausted => "exhausted",
            Self::Disabled => "disabled",
            Self::Held => "held",
            Self::NotSent => "not_sent",
            Self::TakenOver => "taken_over",
        }
    }
}

impl Store {
    /// Records tries; one answer for each, in order.
    pub async fn record_deliveries(&self, tries: Vec<Try>) -> Result<Vec<Recorded>, StoreError> {
        self.execute(RecordDeliveries { tries }).await
    }
}

struct RecordDeliveries {
    tries: Vec<Try>,
}

impl Try {
    fn key(&self) -> Key {
        (self.endpoint.0, self.event.0)
    }

    fn has_delivered(&self) -> bool {
        matches!(&self.sent, Sent::Answered { status, .. }
            if judge(Some(*status), None) == Verdict::Accepted)
    }
}

impl Transaction for RecordDeliveries {
    const NAME: &'static str = "record_deliveries";
    type Output = Vec<Recorded>;

    async fn run(&self, tx: &mut Tx) -> Result<Vec<Recorded>, StoreError> {
        let mut endpoints = self.lock_endpoints(tx).await?;
        let deliveries = self.lock_deliveries(tx).await?;
        let now = read_clock(tx).await?;
        // An earlier run that was still committing held those locks: now its tries can be seen.
        let before = if tx.rerun {
            self.find(tx).await?
        } else {
            HashMap::new()
        };
        let mut writes = Vec::new();
        let mut answers = vec![Recorded::TakenOver; self.tries.len()];
        for (position, one) in self.successes_first() {
            if let Some(outcome) = before.get(&(one.key(), one.claim)) {
                answers[position] = *outcome;
                continue;
            }
            let delivery = deliveries.get(&one.key());
            let mine = delivery.filter(|delivery| delivery.claim == Some(one.claim));
            let endpoint = endpoints.get_mut(&one.endpoint.0);
            if let (Some(delivery), Some(endpoint)) = (mine, endpoint) {
                let (write, outcome) = one.judge(delivery, endpoint, now);
                writes.push(write);
                answers[position] = outcome;
            }
        }
        write_tries(tx, now, &writes).await?;
        write_endpoints(tx, &endpoints).await?;
        for (id, endpoint) in &endpoints {
            if let Some(reason) = endpoint.hopeless {
                disable(tx, now, *id, reason).await?;
            }
        }
        Ok(answers)
    }
}

impl RecordDeliveries {
    /// The tries with their places, those first that delivered: an endpoint that has just worked is
    /// not given up for failures of the same moment.
    fn successes_first(&self) -> impl Iterator<Item = (usize, &Try)> {
        let all = || self.tries.iter().enumerate();
        let (worked, failed) = (
            all().filter(|(_, one)| one.has_delivered()),
            all().filter(|(_, one)| !one.has_delivered()),
        );
        worked.chain(failed)
    }
}
