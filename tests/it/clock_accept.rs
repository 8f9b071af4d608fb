//! An operator accepts the clock as it is.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_store::StoreSettings;
use fencepost_store::admin::Actor;
use fencepost_store::tx::begin_verification::CommitAnswer;
use fencepost_store::tx::record_progress::ProgressAnswer;
use fencepost_store::tx::settle_commit::Settled;
use fencepost_tests::blocker::waiting;
use fencepost_tests::world::{TTL, good};
use fencepost_tests::{Blocker, World};

const TWO_YEARS: Duration = Duration::from_hours(2 * 365 * 24);

fn operator() -> Actor {
    Actor::new("cli:olga")
}

#[tokio::test]
async fn accepting_the_clock_ends_every_lease_uncharged_and_sets_the_mark_back_to_now() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let running = world.in_phase(&mac, Phase::Running).await;
    let cancelling = world.in_phase(&mac, Phase::Running).await;
    world.cancel(cancelling.job).await;
    world.submit().await;
    let offered = world.lease(&mac).await;
    world.regress(TWO_YEARS).await;
    let before = world.store.read_clock().await.unwrap();
    assert_eq!(before.regressed_by(), Some(TWO_YEARS));

    let accepted = world.store.accept_clock(&operator()).await.unwrap();
    assert_eq!(accepted.leases_ended, 3);
    assert_eq!(accepted.mark_before, before.mark);
    assert_eq!(accepted.mark, before.now);
    let after = world.store.read_clock().await.unwrap();
    assert_eq!(after.mark, before.now);
    for lease in [&running, &offered] {
        assert_eq!(world.statuses(lease).await, "queued, lost");
        let column = async |name| world.attempt_column(lease.attempt, name).await;
        assert_eq!(column("charged").await, "f");
        assert_eq!(column("lease_epoch").await, "2");
        assert_eq!(world.job_column(lease.job, "charged_attempts").await, "0");
        assert_eq!(world.job_column(lease.job, "returned_offers").await, "0");
    }
    assert_eq!(world.statuses(&cancelling).await, "cancelled, cancelled");
    // Whoever worked on is refused, and everything goes on at once, on the same device.
    let answer = world.progress(&running, Phase::Running).await;
    assert!(matches!(answer, ProgressAnswer::Refused(_)), "{answer:?}");
    let mut again = world.pull(&mac, 4).await;
    assert_eq!(again.len(), 2);
    let next = again.remove(0);
    assert!(next.epoch > 2);
    world.progress(&next, Phase::Uploading).await;
    world.win(&next).await;
}

#[tokio::test]
async fn an_attempt_that_is_committing_hangs_on_no_lease_and_goes_on() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    let ticket = world.begin_verification(&lease).await;
    world.regress(TWO_YEARS).await;
    let accepted = world.store.accept_clock(&operator()).await.unwrap();
    assert_eq!(accepted.leases_ended, 0);
    let settled = world.settle(&ticket, good(30.0)).await;
    assert!(matches!(settled, Settled::Final(_)), "{settled:?}");
    assert_eq!(world.statuses(&lease).await, "succeeded, succeeded");
}

#[tokio::test]
async fn a_verification_that_was_begun_by_a_clock_far_ahead_is_taken_over_in_time() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    world.clock.advance(TWO_YEARS).await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    let ticket = world.begin_verification(&lease).await;
    world.mark().await;
    world.clock.go_back(TWO_YEARS).await;
    world.store.accept_clock(&operator()).await.unwrap();
    let takeover = StoreSettings::default().verification_takeover.std();
    world.clock.advance(takeover).await;
    let report = world.sweep().await;
    assert_eq!(report.verify.len(), 1);
    // The gateway that had it in hand settles nothing any more.
    assert_eq!(world.settle(&ticket, good(1.0)).await, Settled::TakenOver);
    world.settle(&report.verify[0], good(1.0)).await;
}

#[tokio::test]
async fn accepting_a_good_clock_charges_nobody_either() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    world.store.accept_clock(&operator()).await.unwrap();
    assert_eq!(world.statuses(&lease).await, "queued, lost");
    let answer = world.commit(&lease).await;
    assert!(matches!(answer, CommitAnswer::Refused(_)), "{answer:?}");
    assert_eq!(world.lease(&mac).await.job, lease.job);
}

#[tokio::test]
async fn what_an_operator_did_is_written_down_with_it_and_stays_so() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    world.in_phase(&mac, Phase::Running).await;
    world.regress(TTL).await;
    world.store.accept_clock(&operator()).await.unwrap();
    let line = "select actor || ' ' || action || ' ' || subject || ' ' || (at = authority_now())
                || ' ' || (detail ->> 'leases_ended') from audit_log
            where action = 'clock.accept'";
    assert_eq!(
        world.db.texts(line).await,
        ["cli:olga clock.accept clock true 1"]
    );
    for change in [
        "update audit_log set actor = 'nobody'",
        "delete from audit_log",
        "truncate audit_log",
    ] {
        assert_eq!(world.db.refusal(change).await.0, "FP003", "{change}");
    }
}

#[tokio::test]
async fn an_accept_whose_commit_nobody_answered_is_done_once() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    world.regress(TTL).await;
    Blocker::make_commits_wait(&world.db, "audit_log", "insert").await;
    let blocker = Blocker::on_commit(&world.db).await;
    let store = world.store.clone();
    let accepting = tokio::spawn(async move { store.accept_clock(&operator()).await });
    blocker.until_waiting(&world.db, 1).await;
    let first = waiting(&world.db).await;
    world
        .db
        .execute(&format!("select pg_terminate_backend({})", first[0]))
        .await;
    while waiting(&world.db)
        .await
        .first()
        .is_none_or(|pid| first.contains(pid))
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    blocker.release().await;
    let accepted = accepting.await.unwrap().unwrap();
    assert_eq!(accepted.leases_ended, 1);
    assert_eq!(world.statuses(&lease).await, "queued, lost");
    let lines = world
        .db
        .text("select count(*) from audit_log where action = 'clock.accept'")
        .await;
    assert_eq!(lines, "1");
}
