//! Act two, what Fencepost is for: the Mac that holds a job stands still, another one does the job,
//! and the first can publish nothing any more, whether it behaves or not.

use std::path::PathBuf;
use std::time::Duration;

use fencepost_domain::ids::JobId;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::act_one::{Cast, Delivered, check_money, deliver};
use super::aftermath;
use super::buyer::{Attempt, Job};
use super::error::{DemoError, require};
use super::follow;
use super::freeze::{Frozen, unfinished};
use super::heavy::{self, Heavy};
use super::impostor::StolenLease;
use super::report;
use super::stage::Stage;
use super::wait::until;

/// A job that was done before it could be frozen is made twice as long, and ordered again.
const MOST_TRIES: u32 = 4;
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
                "number": attempt.attempt_number,
                "device": attempt.device.name,
                "epoch": attempt.lease_epoch,
                "status": attempt.status,
            })
        });
        rows.collect()
    }
}

/// A Mac that stands still, and what it believes.
pub(super) struct Victim {
    /// Which of the stage's Macs.
    pub(super) mac: usize,
    pub(super) frozen: Frozen,
    pub(super) attempt: Attempt,
    pub(super) lease: StolenLease,
    /// The attempt's private folder.
    pub(super) work: PathBuf,
    since: Instant,
}

/// Runs the act.
pub(super) async fn run(
    cast: &Cast<'_>,
    stage: &mut Stage,
    input: &std::path::Path,
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
    let code = aftermath::misbehave(cast, stage, &victim, &ended, &winner).await?;
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

/// Orders the job and freezes whoever works on it, once it really encodes.
async fn freeze_a_worker(
    cast: &Cast<'_>,
    stage: &mut Stage,
    heavy: &mut Heavy,
) -> Result<(JobId, Victim), DemoError> {
    for _ in 0..MOST_TRIES {
        let source = heavy.write(cast.bench).await?;
        let upload = cast.buyer.upload(&source).await?;
        let most = heavy.seconds() + 60;
        let job = cast.buyer.submit(upload, &heavy::params(), most).await?.id;
        let length = heavy.seconds();
        cast.say
            .step(&format!("a longer job, {length} s of 720p: job {job}"));
        if let Some(victim) = freeze_once_encoding(cast, stage, job).await? {
            return Ok((job, victim));
        }
        cast.say
            .step("that was done before it could be frozen: once more, twice as long");
        heavy.double();
    }
    Err(DemoError::stuck(
        "this machine is too fast to freeze a job in the middle",
    ))
}

/// Nothing if the job was done too soon.
async fn freeze_once_encoding(
    cast: &Cast<'_>,
    stage: &mut Stage,
    job: JobId,
) -> Result<Option<Victim>, DemoError> {
    let encoding = async || {
        let now = cast.buyer.job(job).await?;
        let is_over = !matches!(now.status.as_str(), "queued" | "active");
        let is_encoding = now.phase.as_deref() == Some("running") && now.percent > Some(0.0);
        let attempt = cast.buyer.attempts(job).await?.pop();
        Ok(match attempt {
            Some(attempt) if is_encoding => Some(Some(attempt)),
            _ if is_over => Some(None),
            _ => None,
        })
    };
    let patience = Duration::from_secs(60);
    let Some(attempt) = until("a Mac encodes", patience, encoding).await? else {
        return Ok(None);
    };
    let name = attempt.device.name.clone();
    let found = stage.macs.iter().position(|mac| mac.name() == name);
    let mac = found.ok_or_else(|| DemoError::stuck(format!("{name} is none of ours")))?;
    let frozen = Frozen::freeze(stage.macs[mac].id()?).await?;
    let since = Instant::now();
    let state_dir = stage.macs[mac].state_dir().to_owned();
    let work = state_dir.join("work").join(attempt.id.to_string());
    let now = same_attempt(cast, job, &attempt).await?;
    if now.status != "running" || unfinished(&work).is_none() || frozen.children().is_empty() {
        frozen.thaw();
        follow::to_the_end(cast.buyer, job, cast.say).await?;
        return Ok(None);
    }
    let lease = state_dir
        .join("leases")
        .join(format!("{}.json", attempt.id));
    let victim = Victim {
        mac,
        frozen,
        attempt: now,
        lease: StolenLease::read(&lease)?,
        work,
        since,
    };
    tell_of(cast, &victim).await?;
    Ok(Some(victim))
}

/// Shows that the Mac stands still, and that it was at work.
async fn tell_of(cast: &Cast<'_>, victim: &Victim) -> Result<(), DemoError> {
    let (name, epoch) = (&victim.attempt.device.name, victim.lease.lease_epoch);
    let percent = victim.attempt.percent.unwrap_or(0.0);
    cast.say.step(&format!(
        "{name} holds it: attempt {}, lease epoch {epoch}, {percent:.0} % encoded",
        victim.attempt.attempt_number
    ));
    let before = unfinished(&victim.work);
    sleep(Duration::from_secs(1)).await;
    require(
        victim.frozen.stands_still()? && unfinished(&victim.work) == before,
        || format!("{name} was frozen and works on"),
    )?;
    let encoders: Vec<String> = victim
        .frozen
        .children()
        .iter()
        .map(|c| c.id.to_string())
        .collect();
    let bytes = before.map_or(0, |(_, size)| size);
    cast.say.checked(&format!(
        "{name} is frozen, agent and encoder (process {}), with {bytes} bytes of output written",
        encoders.join(", ")
    ));
    cast.say.tell(&format!(
        "    It looks like a Mac whose lid was closed: no goodbye, and when it wakes up it will\n    \
         believe that the job is still its own. Its lease file is copied meanwhile."
    ));
    Ok(())
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
        next.device.name, next.attempt_number, next.lease_epoch
    ));
    Ok(next)
}

/// The same attempt as it is now.
async fn same_attempt(
    cast: &Cast<'_>,
    job: JobId,
    attempt: &Attempt,
) -> Result<Attempt, DemoError> {
    let attempts = cast.buyer.attempts(job).await?;
    let found = attempts.into_iter().find(|now| now.id == attempt.id);
    found.ok_or_else(|| DemoError::untrue(format!("the attempt {} is gone", attempt.id)))
}
