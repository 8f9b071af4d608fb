//! Jobs that end in every way there is, many at a time and by chance; afterwards none is open.

use std::collections::BTreeMap;
use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::failure::FailureCode;
use fencepost_domain::ids::UploadId;
use fencepost_domain::ledger::PriceTerms;
use fencepost_domain::verification::Verdict;
use fencepost_store::tx::begin_verification::CommitAnswer;
use fencepost_store::tx::submit_job::NewJob;

use crate::chance::Chance;
use crate::lease::{Lease, settlement};
use crate::world::{TERMS, TTL, World, good};

/// How many jobs live at once, which is what one device takes.
const BATCH: usize = 64;
/// Past every delay of a retry.
const DELAYS: Duration = Duration::from_mins(6);

/// What becomes of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Won,
    Rejected,
    Failed(FailureCode),
    Cancelled,
    Revoked,
    Expired,
}

/// Posts `count` jobs and lets each come to some end; how many ended how.
pub async fn mixed_jobs(world: &World, chance: &mut Chance, count: usize) -> BTreeMap<String, u64> {
    let upload = world.upload().await;
    let mut left = count;
    while left > 0 {
        let jobs: Vec<NewJob> = (0..left.min(BATCH))
            .map(|_| some_job(world, upload, chance))
            .collect();
        left -= jobs.len();
        let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
        world
            .store
            .submit_jobs(jobs)
            .await
            .expect("submitting runs");
        for job in ids {
            if chance.percent(10) {
                world.cancel(job).await;
            }
        }
        work(world, chance).await;
    }
    // What was put back runs until its budget is used up.
    while open(world).await > 0 {
        work(world, chance).await;
    }
    let ended = "select status || ' ' || count(*) from jobs group by status";
    let ended = world.db.texts(ended).await.into_iter().map(|line| {
        let (status, jobs) = line.split_once(' ').expect("two words");
        (status.to_owned(), jobs.parse().expect("a number"))
    });
    ended.collect()
}

async fn open(world: &World) -> usize {
    let open = "select count(*) from jobs where ended_at is null";
    world.db.text(open).await.parse().expect("a number")
}

fn some_job(world: &World, upload: UploadId, chance: &mut Chance) -> NewJob {
    const SHARES: [i32; 4] = [7_000, 7_000, 0, 3_333];
    let mut job = world.new_job_of(upload);
    if chance.percent(60) {
        let amount = |chance: &mut Chance| i64::try_from(chance.below(3_000)).expect("it is small");
        job.terms = PriceTerms {
            base_micros: amount(chance) * i64::from(!chance.percent(20)),
            per_minute_micros: amount(chance) * i64::from(!chance.percent(20)),
            provider_share_bps: SHARES[chance.below(SHARES.len())],
        };
    } else {
        job.terms = TERMS;
    }
    job.max_output_seconds = [1, 60, 61, 600][chance.below(4)];
    job.max_attempts = i32::try_from(1 + chance.below(3)).expect("it is small");
    if chance.percent(5) {
        job.deadline = LeaseDuration::seconds(60);
    }
    job
}

/// One device works on what waits, and everything that it got ends; delays are waited for.
async fn work(world: &World, chance: &mut Chance) {
    // A new one each time: a device that has failed so much gets nothing for a while.
    let words = ["transcode.v1", "encode.h264"];
    let mac = world.device_with("mac", 64, &words).await;
    let leases = world.pull(&mac, 64).await;
    let running = leases.iter().map(|lease| lease.progress(Phase::Uploading));
    let running = running.collect();
    world.store.record_progress(running).await.expect("it runs");
    let fates: Vec<(Lease, Fate)> = leases
        .into_iter()
        .map(|lease| (lease, fate(chance)))
        .collect();
    commit(world, &fates, chance).await;
    let mut ends = Vec::new();
    for (lease, fate) in &fates {
        match fate {
            Fate::Failed(code) => ends.push(lease.fail(*code)),
            Fate::Cancelled => {
                world.cancel(lease.job).await;
                ends.push(lease.stopped());
            }
            Fate::Revoked => {
                let revoked = world.store.revoke_attempt(lease.attempt).await;
                assert!(revoked.expect("it runs").is_some());
            }
            Fate::Won | Fate::Rejected | Fate::Expired => {}
        }
    }
    world.store.end_by_agent(ends).await.expect("it runs");
    world.clock.advance(TTL).await;
    world.sweep().await;
    world.clock.advance(DELAYS).await;
    world.sweep().await;
}

fn fate(chance: &mut Chance) -> Fate {
    match chance.below(20) {
        0..10 => Fate::Won,
        10 => Fate::Rejected,
        11 => Fate::Failed(FailureCode::RunnerFailed),
        12 => Fate::Failed(FailureCode::UploadFailed),
        13 => Fate::Failed(FailureCode::DeviceFault),
        14..16 => Fate::Cancelled,
        16 => Fate::Revoked,
        _ => Fate::Expired,
    }
}

/// Commits what wins or is rejected; of some, the buyer cancels while they are verified.
async fn commit(world: &World, fates: &[(Lease, Fate)], chance: &mut Chance) {
    let verified: Vec<_> = fates
        .iter()
        .filter(|(_, fate)| matches!(fate, Fate::Won | Fate::Rejected))
        .collect();
    let commits = verified.iter().map(|(lease, _)| lease.commit()).collect();
    let answers = world.store.begin_verification(commits).await;
    let mut verdicts = Vec::new();
    for ((lease, fate), answer) in verified.iter().zip(answers.expect("it runs")) {
        let CommitAnswer::Verify(ticket) = answer else {
            panic!("a commit was not accepted: {answer:?}");
        };
        if chance.percent(5) {
            world.cancel(lease.job).await;
        }
        let seconds = [0.0, 0.5, 60.0, 60.5, 599.0, 5_000.0][chance.below(6)];
        let verdict = match fate {
            Fate::Won => good(seconds),
            _ => Verdict::MediaRejected {
                reason: "no film".to_owned(),
            },
        };
        verdicts.push(settlement(&ticket, verdict));
    }
    world.store.settle_commit(verdicts).await.expect("it runs");
}
