//! Devices: one code, one pairing; a new token voids the old one.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_store::FinalizedAttempt;
use fencepost_store::secrets::Credential;
use fencepost_store::tx::begin_session::SessionAnswer;
use fencepost_store::tx::record_progress::ProgressAnswer;
use fencepost_tests::World;

#[tokio::test]
async fn an_enrollment_code_pairs_one_device_once() {
    let world = World::new().await;
    let code = world.enrollment(None).await;
    let (first, second) = tokio::join!(
        world.store.pair_device(&code, "first"),
        world.store.pair_device(&code, "second"),
    );
    let paired: Vec<_> = [first.unwrap(), second.unwrap()]
        .into_iter()
        .flatten()
        .collect();
    assert_eq!(paired.len(), 1, "one code paired {} devices", paired.len());
    assert!(
        world
            .store
            .pair_device(&code, "third")
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(world.store.devices().await.unwrap().len(), 1);
    let unknown = Credential::presented("fp_pair_00");
    assert!(
        world
            .store
            .pair_device(&unknown, "fourth")
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn an_enrollment_code_is_dead_at_the_instant_of_its_end() {
    let world = World::new().await;
    let (code, in_time) = (world.enrollment(None).await, world.enrollment(None).await);
    world
        .clock
        .advance(Duration::from_mins(15) - Duration::from_micros(1))
        .await;
    assert!(
        world
            .store
            .pair_device(&in_time, "mac")
            .await
            .unwrap()
            .is_some()
    );
    world.clock.advance(Duration::from_micros(1)).await;
    assert!(
        world
            .store
            .pair_device(&code, "mac")
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn pairing_again_voids_the_old_token_and_its_session_and_keeps_the_attempts() {
    let world = World::new().await;
    let mut mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    let code = world.enrollment(Some(mac.id)).await;
    let paired = world
        .store
        .pair_device(&code, "mac")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(paired.device, mac.id);
    assert!(
        world
            .store
            .mint_session(&mac.token)
            .await
            .unwrap()
            .is_none(),
        "the old token works"
    );
    let sessions = world
        .store
        .sessions(vec![(mac.id, mac.session)])
        .await
        .unwrap();
    assert!(!sessions[0].current, "its socket would stay open");
    world.submit().await;
    assert!(
        world.pull(&mac, 1).await.is_empty(),
        "the old session is leased to"
    );
    mac.token = paired.token;
    let answer = world.reconnect(&mut mac, vec![lease.held()]).await;
    let SessionAnswer::Current { resumed, lost, .. } = answer else {
        panic!("{answer:?}")
    };
    assert_eq!((resumed.len(), lost.len()), (1, 0));
    assert_eq!(world.pull(&mac, 1).await.len(), 1);
}

#[tokio::test]
async fn a_hello_rotates_what_it_holds_loses_what_it_forgot_and_leaves_commits_alone() {
    let world = World::new().await;
    let mut mac = world
        .device_with("mac", 8, &["transcode.v1", "encode.h264"])
        .await;
    let held = world.in_phase(&mac, Phase::Running).await;
    let forgotten = world.in_phase(&mac, Phase::Running).await;
    let committing = world.in_phase(&mac, Phase::Uploading).await;
    world.begin_verification(&committing).await;
    world.submit().await;
    let unaccepted = world.lease(&mac).await;
    let answer = world
        .reconnect(&mut mac, vec![held.held(), committing.held()])
        .await;
    let SessionAnswer::Current {
        resumed,
        recorded,
        lost,
        ended,
    } = answer
    else {
        panic!("{answer:?}");
    };
    assert_eq!(recorded.len(), 1);
    assert!(lost.is_empty());
    let mut ended: Vec<_> = ended.iter().map(FinalizedAttempt::attempt).collect();
    ended.sort();
    assert_eq!(ended, [forgotten.attempt, unaccepted.attempt]);
    assert_eq!(world.statuses(&forgotten).await, "queued, lost");
    assert_eq!(
        world.attempt_column(forgotten.attempt, "charged").await,
        "t"
    );
    assert_eq!(
        world.attempt_column(unaccepted.attempt, "charged").await,
        "f"
    );
    assert_eq!(world.statuses(&committing).await, "verifying, committing");
    // The old secret is dead, the new one works.
    let old = world.progress(&held, Phase::Running).await;
    assert!(matches!(old, ProgressAnswer::Refused(_)), "{old:?}");
    let mut rotated = held.clone();
    rotated.0.epoch = resumed[0].epoch;
    rotated.0.token = resumed[0].token.clone();
    assert_eq!(rotated.epoch, held.epoch + 1);
    assert!(matches!(
        world.progress(&rotated, Phase::Uploading).await,
        ProgressAnswer::Renewed(_)
    ));
    world.win(&rotated).await;
}

#[tokio::test]
async fn an_older_sessions_late_hello_reconciles_nothing() {
    let world = World::new().await;
    let mut mac = world.device("mac").await;
    let minted = world.store.mint_session(&mac.token).await.unwrap().unwrap();
    let mut stuck = mac.clone();
    stuck.session = minted.1;
    world.reconnect(&mut mac, Vec::new()).await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    let before = world.db.rows().await;
    let answer = world
        .store
        .begin_session(world.hello(&stuck, Vec::new()))
        .await
        .unwrap();
    assert!(matches!(answer, SessionAnswer::Superseded), "{answer:?}");
    assert_eq!(world.db.rows().await, before);
    assert_eq!(world.statuses(&lease).await, "active, running");
}
