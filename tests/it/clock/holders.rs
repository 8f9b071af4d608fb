//! What a holder is told while the clock is behind its mark.

use super::*;

#[tokio::test]
async fn a_clock_behind_its_mark_alone_makes_every_act_of_a_holder_wait_and_changes_nothing() {
    for by in [Duration::from_micros(1), LAG] {
        for what in ACTS {
            let world = World::new().await;
            let mac = world.device("mac").await;
            let lease = if what == Act::Accept {
                world.submit().await;
                world.lease(&mac).await
            } else {
                world.in_phase(&mac, Phase::Uploading).await
            };
            if what == Act::Artifact {
                world.grant_artifact(&lease, "log").await;
            }
            if what == Act::LosingCommit {
                world.cancel(lease.job).await;
            }
            world.mark().await;
            world.clock.advance(Duration::from_secs(2)).await;
            world.mark().await;
            world.clock.go_back(by).await;
            let before = world.db.rows().await;
            assert_eq!(act(&world.store, &lease, what).await, Some(by), "{what:?}");
            // A process that was started later knows of it too.
            let other = world.db.open_store(StoreSettings::default());
            assert_eq!(act(&other, &lease, what).await, Some(by), "{what:?}");
            assert_eq!(world.db.rows().await, before, "{what:?} wrote something");
            world.clock.advance(by).await;
            assert_eq!(act(&world.store, &lease, what).await, None, "{what:?}");
        }
    }
}

#[tokio::test]
async fn nobody_who_is_wrong_anyway_learns_anything_of_the_clock() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    world.regress(LAG).await;
    let mut stale = lease.clone();
    stale.0.epoch = 7;
    let mut forged = lease.clone();
    forged.0.token = foreign_token();
    let answer = world.progress(&stale, Phase::Uploading).await;
    let stale_epoch = Refusal::Fence(FenceViolation::StaleEpoch);
    assert_eq!(answer, ProgressAnswer::Refused(stale_epoch));
    let wrong_token = Refusal::Fence(FenceViolation::WrongToken);
    let answer = world.commit(&forged).await;
    assert!(
        matches!(answer, CommitAnswer::Refused(refusal) if refusal == wrong_token),
        "{answer:?}"
    );
    let answer = world.end(forged.release()).await;
    assert_eq!(answer, AgentEndAnswer::Refused(wrong_token));
}

#[tokio::test]
async fn a_hello_waits_for_the_clock_and_loses_nothing() {
    let world = World::new().await;
    let mut mac = world.device("mac").await;
    let listed = world.in_phase(&mac, Phase::Running).await;
    let forgotten = world.in_phase(&mac, Phase::Running).await;
    world.regress(LAG).await;
    let (_, session) = world.store.mint_session(&mac.token).await.unwrap().unwrap();
    let before = world.db.rows().await;
    mac.session = session;
    let hello = || {
        let hello = world.hello(&mac, vec![listed.held()]);
        world.store.begin_session(hello)
    };
    let answer = hello().await.unwrap();
    assert!(
        matches!(answer, SessionAnswer::ClockRegressed(by) if by == LAG),
        "{answer:?}"
    );
    assert_eq!(world.db.rows().await, before);
    world.clock.advance(LAG).await;
    let answer = hello().await.unwrap();
    let SessionAnswer::Current { resumed, ended, .. } = answer else {
        panic!("{answer:?}")
    };
    assert!(resumed.is_empty(), "the lease ended 10 seconds ago");
    assert_eq!(ended.len(), 2);
    assert_eq!(world.statuses(&forgotten).await, "queued, lost");
}

#[tokio::test]
async fn a_hello_after_a_short_step_back_resumes_what_it_lists() {
    let world = World::new().await;
    let mut mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    let step = Duration::from_secs(5);
    world.regress(step).await;
    let answer = world.reconnect(&mut mac, vec![lease.held()]).await;
    assert!(matches!(answer, SessionAnswer::ClockRegressed(_)));
    world.clock.advance(step).await;
    let answer = world.reconnect(&mut mac, vec![lease.held()]).await;
    let SessionAnswer::Current { resumed, .. } = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(resumed[0].epoch, 2);
    assert_eq!(resumed[0].remaining, TTL);
}

#[tokio::test]
async fn stored_answers_are_given_whatever_the_clock_shows() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let won = world.in_phase(&mac, Phase::Uploading).await;
    world.win(&won).await;
    let failed = world.in_phase(&mac, Phase::Running).await;
    let fail = failed.fail(FailureCode::RunnerFailed);
    world.end(fail.clone()).await;
    let released = world.in_phase(&mac, Phase::Running).await;
    world.end(released.release()).await;
    let verifying = world.in_phase(&mac, Phase::Uploading).await;
    world.begin_verification(&verifying).await;
    let telling = world.in_phase(&mac, Phase::Running).await;
    let event = telling.event(0);
    world.event(&event).await;
    world.regress(LAG).await;
    let before = world.db.rows().await;
    let answer = world.commit(&won).await;
    assert!(
        matches!(answer, CommitAnswer::Final { replayed: true, .. }),
        "{answer:?}"
    );
    for end in [fail, released.release()] {
        let answer = world.end(end).await;
        assert!(
            matches!(answer, AgentEndAnswer::Final { replayed: true, .. }),
            "{answer:?}"
        );
    }
    let answer = world.commit(&verifying).await;
    assert!(matches!(answer, CommitAnswer::StillVerifying), "{answer:?}");
    let answer = world.progress(&verifying, Phase::Uploading).await;
    assert!(matches!(answer, ProgressAnswer::Verifying(_)), "{answer:?}");
    let told = world.event(&event).await;
    assert!(
        matches!(
            told,
            JournalAnswer::Stored {
                replayed: true,
                lease_live: true,
                ..
            }
        ),
        "{told:?}"
    );
    assert_eq!(world.db.rows().await, before);
}

#[tokio::test]
async fn whoever_waited_for_a_lock_is_judged_by_the_mark_as_it_has_become() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    let blocker = Blocker::on_attempt(&world.db, lease.attempt).await;
    let (store, waits) = (world.store.clone(), lease.clone());
    let waiting = tokio::spawn(async move { act(&store, &waits, Act::Renew).await });
    blocker.until_waiting(&world.db, 1).await;
    world.clock.advance(Duration::from_secs(30)).await;
    world.mark().await;
    let step = Duration::from_secs(20);
    world.clock.go_back(step).await;
    blocker.release().await;
    assert_eq!(waiting.await.unwrap(), Some(step));
}

#[tokio::test]
async fn a_clock_that_goes_back_while_a_commit_is_held_up_proves_nothing() {
    for what in [Act::Renew, Act::Commit, Act::Fail] {
        let world = World::new().await;
        let mac = world.device("mac").await;
        let lease = world.in_phase(&mac, Phase::Uploading).await;
        world.clock.advance(Duration::from_secs(1)).await;
        Blocker::make_commits_wait(&world.db, "attempts", "update").await;
        let blocker = Blocker::on_commit(&world.db).await;
        let before = world.db.rows().await;
        let (store, asking) = (world.store.clone(), lease.clone());
        let waiting = tokio::spawn(async move { act(&store, &asking, what).await });
        blocker.until_waiting(&world.db, 1).await;
        // By the mark the lease is over; by the clock that went back behind it, it is not.
        world.regress(TTL).await;
        blocker.release().await;
        assert_eq!(waiting.await.unwrap(), Some(TTL), "{what:?}");
        assert_eq!(world.db.rows().await, before, "{what:?}");
    }
}

#[tokio::test]
async fn an_offer_lives_on_while_the_clock_catches_up_and_is_accepted_then() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    world.submit().await;
    let lease = world.lease(&mac).await;
    let step = OFFER / 2;
    world.regress(step).await;
    let accept = || Progress {
        phase: None,
        ..lease.progress(Phase::Leased)
    };
    let answers = world.store.record_progress(vec![accept()]).await.unwrap();
    assert!(matches!(answers[0], ProgressAnswer::Refused(_)));
    world.clock.advance(step).await;
    let answers = world.store.record_progress(vec![accept()]).await.unwrap();
    assert!(matches!(answers[0], ProgressAnswer::Renewed(_)));
}
