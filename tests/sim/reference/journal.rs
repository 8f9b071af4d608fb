//! The replay rule of events.

use fencepost_domain::fencing::{FenceViolation, Operation};
use fencepost_domain::job::JobStatus;
use fencepost_store::tx::Refusal;

use super::{EventRow, Reference};
use crate::call::{Answer, Claim};

impl Reference {
    /// An event's number is its id here.
    pub(super) fn event(&mut self, claim: &Claim, id: u8, content: u8) -> Answer {
        let row = self.attempts[&claim.at].row.clone();
        let is_active = self.jobs[&claim.at.0].row.status == JobStatus::Active;
        let lease = match self.fenced(&row, claim, Operation::Event) {
            Ok(()) if !is_active => Err(Refusal::JobNotActive),
            judged => judged.map_err(Refusal::Fence),
        };
        let found = self.events.iter().find(|event| {
            (event.at, event.writer.epoch, event.id) == (claim.at, claim.pair.epoch, id)
        });
        // A stranger is never answered from a row.
        let mine = found.filter(|event| !claim.stranger && event.writer == claim.pair);
        match (found, mine, lease) {
            (None, _, Ok(())) => {
                self.events.insert(EventRow {
                    at: claim.at,
                    writer: claim.pair,
                    id,
                    content,
                });
                self.attempt(claim.at).row.replaced = None;
                Answer::Written {
                    replayed: false,
                    lease_live: true,
                }
            }
            (_, Some(mine), lease) if mine.content == content => Answer::Written {
                replayed: true,
                // While the clock is behind its mark nothing runs out.
                lease_live: match lease {
                    Ok(()) => true,
                    Err(Refusal::Fence(FenceViolation::ClockRegressed { .. })) => is_active,
                    Err(_) => false,
                },
            },
            (_, Some(_), _) | (Some(_), None, Ok(())) => Answer::Conflict,
            (_, None, Err(refusal)) => Answer::Refused(refusal),
        }
    }
}
