//! The job of act two, and the Mac that is frozen while it works on it.

use std::path::PathBuf;
use std::time::Duration;

use fencepost_domain::ids::JobId;
use tokio::time::{Instant, sleep};

use super::act_one::Cast;
use super::act_two::same_attempt;
use super::buyer::Attempt;
use super::error::{DemoError, require};
use super::follow;
use super::freeze::{Frozen, unfinished};
use super::heavy::{self, Heavy};
use super::impostor::StolenLease;
use super::stage::Stage;
use super::wait::until;

/// A job that was done before it could be frozen is made twice as long, and ordered again.
const MOST_TRIES: u32 = 4;
/// So much of the output is made when the Mac is frozen: some, but by far not all.
const FROZEN_AT: f64 = 20.0;

/// A Mac that stands still, and what it believes.
pub(super) struct Victim {
    /// Which of the stage's Macs.
    pub(super) mac: usize,
    pub(super) frozen: Frozen,
    pub(super) attempt: Attempt,
    pub(super) lease: StolenLease,
    /// The attempt's private folder.
    pub(super) work: PathBuf,
    /// Since when it stands still.
    pub(super) since: Instant,
}

/// Orders the job and freezes whoever works on it, once it really encodes.
pub(super) async fn freeze_a_worker(
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
        let is_encoding = now.phase.as_deref() == Some("running") && now.percent >= Some(FROZEN_AT);
        let attempt = cast.buyer.attempts(job).await?.pop();
        Ok(match attempt {
            Some(attempt) if is_encoding => Some(Some(attempt)),
            _ if is_over => Some(None),
            _ => None,
        })
    };
    let patience = Duration::from_mins(1);
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
        victim.attempt.number
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
    cast.say.checked(&format!(
        "{name} is frozen, agent and encoder (process {})",
        encoders.join(", ")
    ));
    cast.say.tell(
        "    It looks like a Mac whose lid was closed: no goodbye, and when it wakes up it will\n    \
         believe that the job is still its own. Its lease file is copied meanwhile.",
    );
    Ok(())
}
