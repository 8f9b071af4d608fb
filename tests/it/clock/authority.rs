//! What the control plane does, and leaves, while the clock is behind its mark.

use super::*;

#[tokio::test]
async fn nothing_is_leased_until_the_clock_has_caught_up() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    world.submit().await;
    world.regress(LAG).await;
    let before = world.db.rows().await;
    let round = async || {
        let round = world
            .store
            .lease_round(vec![mac.pull(1)], Cursor::default());
        round.await.unwrap()
    };
    let refused = round().await;
    assert_eq!(refused.clock_regressed_by, Some(LAG));
    assert!(refused.leased.is_empty());
    assert_eq!(world.db.rows().await, before);
    world.clock.advance(LAG).await;
    let leased = round().await;
    assert_eq!(leased.clock_regressed_by, None);
    assert_eq!(leased.leased.len(), 1);
}

#[tokio::test]
async fn no_sweep_ends_returns_forces_or_picks_up_anything_until_the_clock_has_caught_up() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let expired = world.in_phase(&mac, Phase::Running).await;
    let cancelling = world.in_phase(&mac, Phase::Running).await;
    world.cancel(cancelling.job).await;
    let verified = world.in_phase(&mac, Phase::Uploading).await;
    let ticket = world.begin_verification(&verified).await;
    world.submit().await;
    let offered = world.lease(&mac).await;
    // All are over, also by the clock as it is, which is behind nevertheless.
    world.clock.advance(TTL).await;
    world.regress(LAG).await;
    let before = world.db.rows().await;
    let report = world.store.expire_due(100, &SERVICES).await.unwrap();
    assert_eq!(report.clock_regressed_by, Some(LAG));
    assert!(report.ended.is_empty() && report.verify.is_empty() && report.due == 0);
    let mine = vec![(verified.attempt, ticket.verification_epoch)];
    world.store.renew_verifications(mine).await.unwrap();
    assert_eq!(world.db.rows().await, before);
    world.clock.advance(LAG).await;
    let report = world.store.expire_due(100, &SERVICES).await.unwrap();
    let mut ended: Vec<_> = report.ended.iter().map(FinalizedAttempt::attempt).collect();
    let mut due = vec![expired.attempt, cancelling.attempt, offered.attempt];
    ended.sort();
    due.sort();
    assert_eq!(ended, due);
    assert_eq!(report.verify.len(), 1);
    world.settle(&report.verify[0], good(1.0)).await;
}

#[tokio::test]
async fn cancels_go_on_and_reach_the_agent_whatever_the_clock_shows() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let running = world.in_phase(&mac, Phase::Running).await;
    world.submit().await;
    let offered = world.lease(&mac).await;
    let queued = world.submit().await;
    world.regress(LAG).await;
    assert!(world.cancel(queued).await.changed);
    assert_eq!(world.job_column(queued, "status").await, "cancelled");
    assert!(world.cancel(offered.job).await.ended.is_some());
    assert!(world.cancel(running.job).await.stopping.is_some());
    let answer = world.progress(&running, Phase::Running).await;
    assert!(matches!(answer, ProgressAnswer::Stop { .. }), "{answer:?}");
    assert_eq!(world.statuses(&running).await, "cancelling, running");
    let answer = world.end(running.stopped()).await;
    let AgentEndAnswer::Final { end, .. } = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(end.status(), AttemptStatus::Cancelled);
    assert_eq!(world.statuses(&running).await, "cancelled, cancelled");
}

#[tokio::test]
async fn jobs_are_taken_read_and_settled_and_offers_declined_whatever_the_clock_shows() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    let ticket = world.begin_verification(&lease).await;
    world.submit().await;
    let offered = world.lease(&mac).await;
    world.regress(LAG).await;
    let job = world.submit().await;
    assert_eq!(world.job(job).await.id, job.0);
    let returned = world.store.return_offers(vec![offered.claim()]).await;
    assert_eq!(returned.unwrap().len(), 1);
    let settled = world.settle(&ticket, good(30.0)).await;
    assert!(matches!(settled, Settled::Final(_)), "{settled:?}");
    assert_eq!(world.statuses(&lease).await, "succeeded, succeeded");
}

#[tokio::test]
async fn a_standby_that_lags_70_seconds_neither_stretches_a_lease_nor_costs_any_work() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    world.clock.advance(LAG).await;
    let working = world.in_phase(&mac, Phase::Running).await;
    let gone = world.in_phase(&mac, Phase::Running).await;
    world.mark().await;
    let promoted_at = world.clock.now().await;
    world.clock.go_back(LAG).await;
    // While the clock catches up nothing ends, nor can anything be made to last longer.
    for _ in 0..7 {
        assert!(act(&world.store, &working, Act::Renew).await.is_some());
        assert!(world.sweep().await.ended.is_empty());
        world.clock.advance(Duration::from_secs(10)).await;
    }
    // As if no time had passed.
    assert_eq!(world.clock.now().await, promoted_at);
    world.clock.advance(TTL / 2).await;
    assert_eq!(act(&world.store, &working, Act::Renew).await, None);
    assert!(world.sweep().await.ended.is_empty());
    world.clock.advance(TTL / 2).await;
    world.sweep().await;
    assert_eq!(world.statuses(&gone).await, "queued, lost");
    world.progress(&working, Phase::Uploading).await;
    world.win(&working).await;
}

#[tokio::test]
async fn the_mark_moves_forward_at_most_once_a_second_and_nobody_waits_to_read_it() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    let mark = async || world.store.read_clock().await.unwrap().mark;
    world.clock.advance(Duration::from_secs(5)).await;
    world.mark().await;
    let first = world.clock.now().await;
    assert_eq!(mark().await, first);
    world.clock.advance(Duration::from_secs(1)).await;
    world.mark().await;
    assert_eq!(mark().await, first, "a second has not passed");
    world.clock.advance(Duration::from_micros(1)).await;
    let reading = world.store.read_clock().await.unwrap();
    world.mark().await;
    assert_eq!(mark().await, reading.now);
    world.clock.go_back(Duration::from_mins(1)).await;
    world.mark().await;
    assert_eq!(mark().await, reading.now, "it never goes back by itself");
    world.clock.advance(Duration::from_mins(1)).await;
    let holding = "select from authority_state for update";
    let blocker = Blocker::hold(&world.db, holding).await;
    assert_eq!(act(&world.store, &lease, Act::Renew).await, None);
    assert!(world.pull(&mac, 1).await.is_empty());
    world.sweep().await;
    blocker.release().await;
}

#[tokio::test]
async fn an_enrollment_code_that_has_expired_stays_so_when_the_clock_goes_back() {
    let world = World::new().await;
    let code = world.enrollment(None).await;
    world.clock.advance(Duration::from_mins(16)).await;
    world.mark().await;
    world.clock.go_back(Duration::from_mins(16)).await;
    let paired = world.store.pair_device(&code, "mac").await.unwrap();
    assert!(paired.is_none());
    world.clock.advance(Duration::from_mins(16)).await;
    let code = world.enrollment(None).await;
    assert!(
        world
            .store
            .pair_device(&code, "mac")
            .await
            .unwrap()
            .is_some()
    );
}
