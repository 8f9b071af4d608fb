//! Everything that settles a hold, at the same instant, round after round.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_store::tx::begin_verification::CommitAnswer;
use tokio::sync::Barrier;

use crate::chance::Chance;
use crate::lease::Lease;
use crate::world::{SERVICES, TTL, World, commit_on, good};

/// Two cancels, a commit, a sweep that finds the lease over, and an operator who takes it back, behind
/// one barrier. Afterwards its hold was captured or released, once, and can be neither again. How
/// many jobs were paid for.
pub async fn settle_from_all_sides(world: &World, rounds: usize, chance: &mut Chance) -> usize {
    let mut paid = 0;
    for _ in 0..rounds {
        let words = ["transcode.v1", "encode.h264"];
        let mac = world.device_with("mac", 1, &words).await;
        let lease = world
            .in_phase_with(&mac, Phase::Uploading, |job| job.max_attempts = 1)
            .await;
        Box::pin(race(world, &lease, chance)).await;
        // Whatever the race left open, its buyer gives up.
        world.cancel(lease.job).await;
        world.clock.advance(TTL).await;
        world.sweep().await;
        paid += usize::from(settled_once(world, &lease).await);
    }
    paid
}

async fn race(world: &World, lease: &Lease, chance: &mut Chance) {
    let barrier = Barrier::new(5);
    // Whoever comes first wins; the commit, which is two transactions, is often given the time.
    let behind = if chance.percent(50) { 60 } else { 0 };
    let mut late = |behind: usize| chance.millis(behind, behind + 10);
    let late = [
        late(behind),
        late(behind),
        late(0),
        late(behind),
        late(behind),
    ];
    let begin = |who: usize| {
        let barrier = &barrier;
        async move {
            barrier.wait().await;
            tokio::time::sleep(late[who]).await;
        }
    };
    let cancel = |who: usize| async move {
        begin(who).await;
        world.cancel(lease.job).await;
    };
    let commit = async {
        begin(2).await;
        if let CommitAnswer::Verify(ticket) = commit_on(&world.store, lease.commit()).await {
            world.settle(&ticket, good(1.0)).await;
        }
    };
    let sweep = async {
        begin(3).await;
        world
            .clock
            .advance(TTL.saturating_sub(Duration::from_micros(1)))
            .await;
        world.clock.advance(Duration::from_micros(1)).await;
        let swept = world.store.expire_due(10, &SERVICES).await;
        swept.expect("a sweep runs");
    };
    let refund = async {
        begin(4).await;
        let revoked = world.store.revoke_attempt(lease.attempt).await;
        revoked.expect("revoking runs");
    };
    tokio::join!(refund, commit, cancel(0), cancel(1), sweep);
}

/// Whether it was captured, and not released.
async fn settled_once(world: &World, lease: &Lease) -> bool {
    let posted = world.postings(lease.job).await;
    let captured = posted == "hold 6000, capture_provider 1050, capture_platform 450, release 4500";
    assert!(captured || posted == "hold 6000, release 6000", "{posted}");
    let again = format!(
        "insert into postings (kind, debit, credit, amount_micros, org_id, job_id)
         select kind, debit, credit, amount_micros, org_id, job_id from postings
         where job_id = '{}' and kind = 'release'",
        lease.job
    );
    let refused = world.db.refusal(&again).await.1;
    assert_eq!(refused.as_deref(), Some("at_most_one_of_a_kind_per_job"));
    captured
}
