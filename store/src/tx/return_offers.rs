//! An offer comes back: declined, not handed over, or its socket went away before it was accepted.
//!
//! Locks: jobs, then attempts, by id. Checks: epoch, and "not accepted" (an accepted attempt is not
//! touched: its lease runs on). Writes: the attempt is lost, uncharged; the job is queued after a
//! delay. The offer's token plays no part, so a gateway that never sent it can return it.

use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::ending::{Cause, decide};
use fencepost_domain::fencing::{LeaseClaim, check_identity};

use super::finish::{Finish, finish};
use crate::error::StoreError;
use crate::fence::WhereFacts;
use crate::finalized::{Ended, FinalizedAttempt};
use crate::rows::{Pair, lock_pairs};
use crate::run::{Store, Transaction, Tx};

impl Store {
    /// Returns offers that nobody accepted. What was accepted, or is not as claimed, is left alone;
    /// attempts that had ended already are reported too.
    pub async fn return_offers(
        &self,
        offers: Vec<LeaseClaim>,
    ) -> Result<Vec<FinalizedAttempt>, StoreError> {
        if offers.is_empty() {
            return Ok(Vec::new());
        }
        let ended = self.execute(ReturnOffers { offers }).await?;
        Ok(ended
            .into_iter()
            .map(FinalizedAttempt::after_commit)
            .collect())
    }
}

struct ReturnOffers {
    offers: Vec<LeaseClaim>,
}

impl Transaction for ReturnOffers {
    const NAME: &'static str = "return_offers";
    type Output = Vec<Ended>;

    async fn run(&self, tx: &mut Tx) -> Result<Self::Output, StoreError> {
        let ids: Vec<_> = self.offers.iter().map(|offer| offer.attempt).collect();
        let locked = lock_pairs(tx, &ids).await?;
        let mine: Vec<_> = self
            .offers
            .iter()
            .filter_map(|offer| locked.find(offer.attempt).map(|pair| (offer, pair)))
            .filter(|(offer, pair)| {
                let fence = &pair.attempt.fence;
                check_identity(fence, offer).is_ok() && fence.epoch == offer.epoch
            })
            .collect();
        let ends = mine
            .iter()
            .filter(|(_, pair)| is_unaccepted(pair))
            .map(|(offer, pair)| {
                let facts = WhereFacts {
                    job_id: offer.job.0,
                    device_id: offer.device.0,
                    epoch: offer.epoch,
                    ..WhereFacts::of_row(&pair.attempt.fence)
                };
                let ending = decide(&pair.job.facts, Cause::Returned, locked.now);
                Finish::attempt(pair, facts, &ending)
            })
            .collect();
        let mut ended = finish(tx, locked.now, ends).await?;
        ended.extend(mine.iter().filter_map(|(_, pair)| pair.ended()));
        Ok(ended)
    }
}

/// Whether the attempt is an offer that nobody has taken yet.
pub(super) fn is_unaccepted(pair: &Pair) -> bool {
    pair.attempt.fence.status == AttemptStatus::Leased && !pair.attempt.accepted
}
