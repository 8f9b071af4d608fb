//! An offer comes back: declined, not handed over, or its socket went away before it was accepted.
//!
//! Locks: jobs, then attempts, by id. Checks: epoch, and "not accepted" (an accepted attempt is not
//! touched: its lease runs on). Writes: the attempt is lost, uncharged; the job is queued after a
//! delay. The offer's token plays no part, so a gateway that never sent it can return it.

use std::collections::HashSet;

use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::ending::{Cause, JobFacts, MAX_RETURNED_OFFERS, decide};
use fencepost_domain::fencing::{LeaseClaim, check_identity};

use super::finish::{Finish, finish};
use crate::error::StoreError;
use crate::fence::WhereFacts;
use crate::finalized::{Ended, FinalizedAttempt};
use crate::rows::{Pair, lock_pairs};
use crate::run::{Share, Store, Transaction, Tx};

impl Store {
    /// Returns offers that nobody accepted. What was accepted, or is not as claimed, is left alone;
    /// attempts that had ended already are reported too.
    pub async fn return_offers(
        &self,
        offers: Vec<LeaseClaim>,
    ) -> Result<Vec<FinalizedAttempt>, StoreError> {
        self.take_back(offers, Cause::Returned).await
    }

    /// The same for offers that never left the gateway: they count against nobody.
    pub async fn return_undelivered(
        &self,
        offers: Vec<LeaseClaim>,
    ) -> Result<Vec<FinalizedAttempt>, StoreError> {
        self.take_back(offers, Cause::Undelivered).await
    }

    async fn take_back(
        &self,
        mut offers: Vec<LeaseClaim>,
        cause: Cause,
    ) -> Result<Vec<FinalizedAttempt>, StoreError> {
        let mut seen = HashSet::new();
        offers.retain(|offer| seen.insert(offer.attempt));
        if offers.is_empty() {
            return Ok(Vec::new());
        }
        let ended = self.execute(ReturnOffers { offers, cause }).await?;
        Ok(ended
            .into_iter()
            .map(FinalizedAttempt::after_commit)
            .collect())
    }
}

struct ReturnOffers {
    offers: Vec<LeaseClaim>,
    cause: Cause,
}

impl Transaction for ReturnOffers {
    const NAME: &'static str = "return_offers";
    const SHARE: Share = Share::Reserved;
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
        let mut ends = Vec::new();
        for (offer, pair) in mine.iter().filter(|(_, pair)| is_unaccepted(pair)) {
            let facts = WhereFacts {
                job_id: offer.job.0,
                device_id: offer.device.0,
                epoch: offer.epoch,
                ..WhereFacts::of_row(&pair.attempt.fence)
            };
            let job = with_returns(tx, pair).await?;
            ends.push(Finish::attempt(
                pair,
                facts,
                &decide(&job, self.cause, locked.now),
            ));
        }
        let mut ended = finish(tx, locked.now, ends).await?;
        ended.extend(mine.iter().filter_map(|(_, pair)| pair.ended()));
        Ok(ended)
    }
}

/// Whether the attempt is an offer that nobody has taken yet.
pub(super) fn is_unaccepted(pair: &Pair) -> bool {
    pair.attempt.fence.status == AttemptStatus::Leased && !pair.attempt.accepted
}

/// The job's facts, with a look at who returned its offers where that could end it.
pub(super) async fn with_returns(tx: &mut Tx, pair: &Pair) -> Result<JobFacts, StoreError> {
    let mut facts = pair.job.facts;
    if facts.returned_offers + 1 >= MAX_RETURNED_OFFERS {
        let fence = &pair.attempt.fence;
        facts.returned_widely = sqlx::query_scalar!(
            r#"-- with_returns
            select count(*) >= $3 and count(distinct device_id)
                >= least(3, (select count(*) from devices, jobs
                             where jobs.id = $1 and enabled
                                 and string_to_array(jobs.lane, ' ') <@ devices.words))
                as "widely!"
            -- offers alone: a lease that was given back is another matter
            from attempts where job_id = $1 and (returned or id = $2)"#,
            fence.job.0,
            fence.attempt.0,
            i64::from(MAX_RETURNED_OFFERS)
        )
        .fetch_one(&mut **tx)
        .await?;
    }
    Ok(facts)
}
