//! Act two, what Fencepost is for: the Mac that holds a job stands still, another one does the job,
//! and the first can publish nothing any more, whether it behaves or not.

use std::path::Path;
use std::time::Duration;

use fencepost_domain::ids::JobId;
use serde_json::{Value, json};

use super::act_one::{Cast, Delivered, check_money, deliver};
use super::buyer::{Attempt, Job};
use super::error::{DemoError, require};
use super::follow;
use super::heavy::Heavy;
use super::report;
use super::stage::Stage;
use super::victim::{Victim, freeze_a_worker};
use super::wait::until;
use super::{aftermath, misdeeds};

/// The lease (9 s), two sweeps, and what a busy machine adds.
const LAPSE_TIME: Duration = Duration::from_secs(30);

/// What is worth telling of act two.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) delivered: Delivered,
    pub(super) late_commit_code: String,
    pub(super) attempts: Vec<Attempt>,
    pub(super) job: Job,
}

impl Outcome {
    pub(super) fn attempts_as_json(&self) -> Value {
        let rows = self.attempts.iter().map(|attempt| {
            json!({
                "number": attempt.number,
                "device": attempt.device.name,
                "epoch": attempt.lease_epoch,
                "status": attempt.status,
            })
        });
        rows.collect()
    }
}

/// Runs the act.
pub(super) async fn run(
    cast: &Cast<'_>,
    stage: &mut Stage,
    input: &Path,
) -> Result<Outcome, DemoError> {
    let say = cast.say;
    say.title("Act two: a Mac stands still in the middle of its work");
    let mut heavy = Heavy::prepare(cast.bench, input).await?;
    let (spendable, _) = cast.buyer.balance().await?;
    let (job, victim) = freeze_a_worker(cast, stage, &mut heavy).await?;
    let winner = wait_for_the_other(cast, job, &victim).await?;
    let ended = follow::to_the_end(cast.buyer, job, say).await?;
    let delivered = deliver(cast, &ended, "act-two.mp4").await?;
    let winner = same_attempt(cast, job, &winner).await?;
    require(winner.status == "succeeded", || {
        format!(
            "the job has succeeded, but {} has {}",
            winner.device.name, winner.status
        )
    })?;
    say.checked(&format!(
        "{} wins: its output is verified and delivered",
        winner.device.name
    ));
    aftermath::thaw(say, stage, &victim).await?;
    aftermath::nothing_was_stored(say, stage, &victim)?;
    let code = misdeeds::try_all(cast, stage, &victim, &ended, &winner).await?;
    let attempts = cast.buyer.attempts(job).await?;
    say.tell("\nHow it ended, as the buyer sees it:");
    say.block(&report::attempts(&attempts));
    aftermath::nothing_has_changed(cast, stage, &ended, &delivered, &attempts).await?;
    check_money(cast.buyer, &ended, spendable).await?;
    say.checked(&format!(
        "one capture for two attempts: {}",
        report::money(&ended.money)
    ));
    Ok(Outcome {
        delivered,
        late_commit_code: code,
        attempts,
        job: ended,
    })
}

/// Waits until the lease has lapsed and the other Mac has the job under a newer epoch.
async fn wait_for_the_other(
    cast: &Cast<'_>,
    job: JobId,
    victim: &Victim,
) -> Result<Attempt, DemoError> {
    let lost = async || {
        let attempts = cast.buyer.attempts(job).await?;
        let first = attempts
            .iter()
            .find(|attempt| attempt.id == victim.attempt.id);
        Ok(first
            .is_some_and(|first| first.status == "lost")
            .then_some(()))
    };
    until("the frozen Mac's lease lapses", LAPSE_TIME, lost).await?;
    let seconds = victim.since.elapsed().as_secs_f32();
    let name = &victim.attempt.device.name;
    cast.say.checked(&format!(
        "after {seconds:.1} s without a renewal the lease of {name} has lapsed: attempt lost, job queued again"
    ));
    let leased = async || {
        let attempts = cast.buyer.attempts(job).await?;
        Ok(attempts
            .into_iter()
            .find(|attempt| attempt.id != victim.attempt.id))
    };
    let next = until("the other Mac has the job", LAPSE_TIME, leased).await?;
    require(
        next.device.name != *name && next.lease_epoch > victim.lease.lease_epoch,
        || {
            format!(
                "the job went to {} under epoch {}",
                next.device.name, next.lease_epoch
            )
        },
    )?;
    cast.say.checked(&format!(
        "{} has it now: attempt {}, lease epoch {}",
        next.device.name, next.number, next.lease_epoch
    ));
    Ok(next)
}

/// The same attempt as it is now.
pub(super) async fn same_attempt(
    cast: &Cast<'_>,
    job: JobId,
    attempt: &Attempt,
) -> Result<Attempt, DemoError> {
    let attempts = cast.buyer.attempts(job).await?;
    let found = attempts.into_iter().find(|now| now.id == attempt.id);
    found.ok_or_else(|| DemoError::untrue(format!("the attempt {} is gone", attempt.id)))
}
