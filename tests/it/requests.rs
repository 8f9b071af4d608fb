//! Requests under an id of their device's: worked out once, answered as often as they are repeated.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::failure::FailureCode;
use fencepost_domain::ids::RequestId;
use fencepost_store::StoreSettings;
use fencepost_store::tx::begin_verification::CommitAnswer;
use fencepost_store::tx::claim_lease::ClaimAnswer;
use fencepost_store::tx::end_by_agent::AgentEndAnswer;
use fencepost_store::tx::record_progress::ProgressAnswer;
use fencepost_store::tx::{Asked, Refusal};
use fencepost_tests::claims::{claim_of, claim_on, key};
use fencepost_tests::world::{TTL, good};
use fencepost_tests::{Blocker, World};

#[tokio::test]
async fn a_repeated_claim_tells_which_lease_it_was_and_never_its_secret() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    world.submit_many(2).await;
    let id = RequestId::new();
    let lease = world.claim_as(&mac, id).await;
    // Also after the end, when the device may claim nothing more.
    for moment in ["live", "expired", "swept", "draining"] {
        match moment {
            "expired" => world.clock.advance(TTL).await,
            "swept" => drop(world.sweep().await),
            "draining" => drop(world.store.set_device_draining(mac.id, true).await),
            _ => {}
        }
        let before = world.db.rows().await;
        let asked = world.ask(&mac, id).await;
        let Asked::Again(ClaimAnswer::Before(claimed)) = asked else {
            panic!("{moment}: {asked:?}");
        };
        let told = (claimed.job, claimed.attempt, claimed.epoch);
        assert_eq!(told, (lease.job, lease.attempt, lease.epoch), "{moment}");
        assert_eq!(world.db.rows().await, before, "{moment}");
    }
}

#[tokio::test]
async fn another_claim_under_the_same_id_is_a_conflict_and_other_devices_ids_are_their_own() {
    let world = World::new().await;
    let (mac, other) = (world.device("mac").await, world.device("other").await);
    world.submit_many(3).await;
    let id = RequestId::new();
    let first = world.claim_as(&mac, id).await;
    let before = world.db.rows().await;
    let mut request = claim_of(&mac, id);
    request.slots = 2;
    let asked = claim_on(&world.store, request).await;
    assert!(matches!(asked, Asked::OtherContent), "{asked:?}");
    assert_eq!(world.db.rows().await, before);
    // It is a claim of its own, and tells nothing of the other.
    let lease = world.claim_as(&other, id).await;
    assert_ne!(lease.attempt, first.attempt);
}

#[tokio::test]
async fn what_only_asks_to_come_again_is_not_remembered() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let id = RequestId::new();
    for _ in 0..2 {
        let asked = world.ask(&mac, id).await;
        assert!(matches!(asked, Asked::First(ClaimAnswer::Nothing { .. })));
    }
    assert_eq!(
        world.db.text("select count(*) from device_requests").await,
        "0"
    );
    world.submit().await;
    world.claim_as(&mac, id).await;
}

#[tokio::test]
async fn a_repeat_gets_the_stored_answer_before_anything_is_asked_about_the_lease() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    world.submit().await;
    let lease = world.claim(&mac).await;
    let id = RequestId::new();
    let running = lease.progress(Phase::Running);
    let first = world.progress_once(id, &lease, running.clone()).await;
    assert!(
        matches!(first, Asked::First(ProgressAnswer::Renewed(_))),
        "{first:?}"
    );
    for (wait, left) in [(20, 40), (50, 0)] {
        world.clock.advance(Duration::from_secs(wait)).await;
        if left == 0 {
            world.sweep().await;
        }
        let before = world.db.rows().await;
        let again = world.progress_once(id, &lease, running.clone()).await;
        let Asked::Again(ProgressAnswer::Renewed(renewal)) = again else {
            panic!("{again:?}");
        };
        // Whoever counts from the repeat does not count what has gone by.
        assert_eq!(renewal.remaining, Duration::from_secs(left));
        assert_eq!(world.db.rows().await, before);
    }
    let other = lease.progress(Phase::Uploading);
    let asked = world.progress_once(id, &lease, other.clone()).await;
    assert_eq!(asked, Asked::OtherContent);

    // A refusal is an answer too.
    let id = RequestId::new();
    let asked = world.progress_once(id, &lease, other.clone()).await;
    assert!(
        matches!(asked, Asked::First(ProgressAnswer::Refused(_))),
        "{asked:?}"
    );
    let again = world.progress_once(id, &lease, other).await;
    let refused = ProgressAnswer::Refused(Refusal::RefusedBefore);
    assert_eq!(again, Asked::Again(refused));
}

#[tokio::test]
async fn links_are_granted_once_for_each_request() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    world.submit().await;
    let lease = world.claim(&mac).await;
    let ask = |id| {
        world
            .store
            .grant_objects_once(key(&lease, "grant", id, ""), lease.claim(), None)
    };
    let id = RequestId::new();
    let Asked::First(Ok(first)) = ask(id).await.unwrap() else {
        panic!("nothing was granted");
    };
    world.clock.advance(Duration::from_mins(2)).await;
    let before = world.db.rows().await;
    let Asked::Again(Ok(again)) = ask(id).await.unwrap() else {
        panic!("it is not remembered");
    };
    assert_eq!(again.expires_at, first.expires_at);
    assert_eq!(again.output_key, lease.output_key);
    assert_eq!(world.db.rows().await, before);
    let late = ask(RequestId::new()).await.unwrap();
    assert!(matches!(late, Asked::First(Err(_))), "{late:?}");
}

#[tokio::test]
async fn a_commit_is_repeated_by_its_id_until_its_verdict_and_after_it() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    world.submit().await;
    let lease = world.claim(&mac).await;
    world.progress(&lease, Phase::Uploading).await;
    let id = RequestId::new();
    let commit = |content: &'static str| {
        let key = key(&lease, "commit", id, content);
        let request = lease.commit();
        let store = world.store.clone();
        async move { store.begin_verification_once(key, request).await.unwrap() }
    };
    let Asked::First(CommitAnswer::Verify(ticket)) = commit("it").await else {
        panic!("it is not accepted");
    };
    let asked = commit("it").await;
    assert!(
        matches!(asked, Asked::Again(CommitAnswer::StillVerifying)),
        "{asked:?}"
    );
    assert!(matches!(commit("another").await, Asked::OtherContent));
    world.settle(&ticket, good(1.0)).await;
    world.clock.advance(Duration::from_hours(1)).await;
    let before = world.db.rows().await;
    let asked = commit("it").await;
    let Asked::Again(CommitAnswer::Final {
        end,
        replayed: true,
    }) = asked
    else {
        panic!("{asked:?}");
    };
    assert_eq!(end.status().as_str(), "succeeded");
    assert!(matches!(commit("another").await, Asked::OtherContent));
    assert_eq!(world.db.rows().await, before);
}

#[tokio::test]
async fn an_end_is_answered_again_though_its_job_is_somebody_elses_by_now() {
    for how in ["fail", "release", "give back"] {
        let world = World::new().await;
        let mac = world.device("mac").await;
        world.submit().await;
        let claim_request = RequestId::new();
        let lease = world.claim_as(&mac, claim_request).await;
        let id = RequestId::new();
        let end = match how {
            "fail" => lease.fail(FailureCode::DownloadFailed),
            "release" => lease.release(),
            _ => fencepost_store::tx::end_by_agent::AgentEnd {
                claim: lease.claim(),
                kind: fencepost_store::tx::end_by_agent::AgentEndKind::GiveBack {
                    claim_request,
                    reason: "lost".to_owned(),
                },
            },
        };
        let ask = || {
            let (key, end) = (key(&lease, "release", id, how), end.clone());
            let store = world.store.clone();
            async move { store.end_by_agent_once(key, end).await.unwrap() }
        };
        let first = ask().await;
        assert!(
            matches!(
                first,
                Asked::First(AgentEndAnswer::Final {
                    replayed: false,
                    ..
                })
            ),
            "{how}: {first:?}"
        );
        world.clock.advance(Duration::from_mins(6)).await;
        world.sweep().await;
        let next = world.claim(&world.device("other").await).await;
        let before = world.db.rows().await;
        let again = ask().await;
        assert!(
            matches!(
                again,
                Asked::Again(AgentEndAnswer::Final { replayed: true, .. })
            ),
            "{how}: {again:?}"
        );
        assert_eq!(world.db.rows().await, before);
        world.progress(&next, Phase::Uploading).await;
        world.win(&next).await;
    }
}

#[tokio::test]
async fn the_same_request_twice_at_once_is_worked_out_once() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    world.submit_many(4).await;
    Blocker::make_commits_wait(&world.db, "attempts", "insert").await;
    let blocker = Blocker::on_commit(&world.db).await;
    let id = RequestId::new();
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let other = world.db.open_store(StoreSettings::default());
        let request = claim_of(&mac, id);
        asking.spawn(async move { claim_on(&other, request).await });
    }
    blocker.until_waiting(&world.db, 3).await;
    blocker.release().await;
    let answers = asking.join_all().await;
    let leased = |one: &&Asked<_>| matches!(one, Asked::First(ClaimAnswer::Leased(_)));
    let before = |one: &&Asked<_>| matches!(one, Asked::Again(ClaimAnswer::Before(_)));
    assert_eq!(answers.iter().filter(leased).count(), 1, "{answers:?}");
    assert_eq!(answers.iter().filter(before).count(), 2, "{answers:?}");
    assert_eq!(world.db.text("select count(*) from attempts").await, "1");
}

#[tokio::test]
async fn while_the_clock_is_behind_its_mark_repeats_are_answered_and_nothing_new_is_remembered() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    world.submit_many(2).await;
    let (claim, progress, late) = (RequestId::new(), RequestId::new(), RequestId::new());
    let lease = world.claim_as(&mac, claim).await;
    let running = lease.progress(Phase::Running);
    world.progress_once(progress, &lease, running.clone()).await;
    world.regress(Duration::from_secs(20)).await;
    let again = world.ask(&mac, claim).await;
    assert!(matches!(again, Asked::Again(_)), "{again:?}");
    let again = world.progress_once(progress, &lease, running.clone()).await;
    assert!(
        matches!(again, Asked::Again(ProgressAnswer::Renewed(_))),
        "{again:?}"
    );
    let before = world.db.rows().await;
    let refused = world.ask(&mac, late).await;
    assert!(
        matches!(refused, Asked::First(ClaimAnswer::ClockRegressed { .. })),
        "{refused:?}"
    );
    let refused = world.progress_once(late, &lease, running.clone()).await;
    assert!(
        matches!(refused, Asked::First(ProgressAnswer::Refused(_))),
        "{refused:?}"
    );
    assert_eq!(world.db.rows().await, before);
    let remembered = "select count(*) from device_requests";
    assert_eq!(world.db.text(remembered).await, "2");
    world.clock.advance(Duration::from_secs(20)).await;
    let asked = world.progress_once(late, &lease, running).await;
    assert!(
        matches!(asked, Asked::First(ProgressAnswer::Renewed(_))),
        "{asked:?}"
    );
    world.claim_as(&mac, late).await;
}

#[tokio::test]
async fn requests_are_forgotten_after_two_days() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let (old, young) = (RequestId::new(), RequestId::new());
    world.submit().await;
    world.claim_as(&mac, old).await;
    world.clock.advance(Duration::from_hours(24)).await;
    world.submit().await;
    world.claim_as(&mac, young).await;
    assert_eq!(world.store.forget_requests(10).await.unwrap(), 0);
    world.clock.advance(Duration::from_hours(24)).await;
    world.mark().await;
    assert_eq!(world.store.forget_requests(10).await.unwrap(), 1);
    let left = "select request_id from device_requests";
    assert_eq!(world.db.text(left).await, young.to_string());
    world.sweep().await;
}
