//! Leases that the control plane takes back: by a disabled device, a device paired again, a revoke.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::failure::FailureCode;
use fencepost_domain::ids::{DeviceId, InstanceId};
use fencepost_store::FinalizedAttempt;
use fencepost_store::admin::NewEnrollment;
use fencepost_store::identity::{Fingerprint, GatewayIdentity};
use fencepost_store::tx::begin_session::SessionAnswer;
use fencepost_store::tx::begin_verification::CommitAnswer;
use fencepost_store::tx::end_by_agent::AgentEndAnswer;
use fencepost_store::tx::record_progress::ProgressAnswer;
use fencepost_store::tx::revoke::Revoked;
use fencepost_store::tx::settle_commit::Settled;
use fencepost_tests::World;
use fencepost_tests::lease::{Device, Lease};
use fencepost_tests::world::{SERVICES, good};
use uuid::Uuid;

/// Everything that the lease's agent could still say is refused, and changes nothing.
async fn assert_powerless(world: &World, lease: &Lease) {
    let before = world.statuses(lease).await;
    let answer = world.commit(lease).await;
    assert!(matches!(answer, CommitAnswer::Refused(_)), "{answer:?}");
    let answer = world.progress(lease, Phase::Uploading).await;
    assert!(matches!(answer, ProgressAnswer::Refused(_)), "{answer:?}");
    for end in [lease.fail(FailureCode::RunnerFailed), lease.release()] {
        let answer = world.end(end).await;
        assert!(matches!(answer, AgentEndAnswer::Refused(_)), "{answer:?}");
    }
    assert_eq!(world.statuses(lease).await, before);
}

async fn disable(world: &World, device: &Device) -> Vec<FinalizedAttempt> {
    let ended = world.store.disable_device(device.id, Some("too hot")).await;
    ended.expect("it runs").expect("the device exists")
}

async fn revoke(world: &World, lease: &Lease) -> Option<Revoked> {
    world
        .store
        .revoke_attempt(lease.attempt)
        .await
        .expect("it runs")
}

#[tokio::test]
async fn disabling_a_device_ends_its_leases_at_once_uncharged_and_no_frame_of_theirs_counts() {
    let world = World::new().await;
    let mac = world
        .device_with("mac", 8, &["transcode.v1", "encode.h264"])
        .await;
    let other = world.device("other").await;
    let untouched = world.in_phase(&other, Phase::Running).await;
    let mut held = Vec::new();
    for phase in [Phase::Downloading, Phase::Running, Phase::Uploading] {
        held.push(world.in_phase(&mac, phase).await);
    }
    world.submit().await;
    held.push(world.lease(&mac).await);
    let ended = disable(&world, &mac).await;
    assert_eq!(ended.len(), held.len());
    for lease in &held {
        assert_eq!(world.statuses(lease).await, "queued, lost");
        assert_eq!(world.attempt_column(lease.attempt, "charged").await, "f");
        let epoch = world.attempt_column(lease.attempt, "lease_epoch").await;
        assert_eq!(epoch, (lease.epoch + 1).to_string(), "the epoch stayed");
        assert_powerless(&world, lease).await;
    }
    assert_eq!(world.statuses(&untouched).await, "active, running");
    // They wait for nobody: the other Mac may have them at once.
    assert_eq!(world.lease(&other).await.job, held[0].job);
}

#[tokio::test]
async fn an_output_that_a_disabled_device_had_committed_still_wins() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    let ticket = world.begin_verification(&lease).await;
    assert!(disable(&world, &mac).await.is_empty());
    assert_eq!(world.statuses(&lease).await, "verifying, committing");
    let settled = world.settle(&ticket, good(30.0)).await;
    assert!(matches!(settled, Settled::Final(_)), "{settled:?}");
    assert_eq!(world.statuses(&lease).await, "succeeded, succeeded");
}

#[tokio::test]
async fn a_disabled_device_of_a_cancelling_job_ends_the_job_cancelled() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    world.cancel(lease.job).await;
    disable(&world, &mac).await;
    assert_eq!(world.statuses(&lease).await, "cancelled, cancelled");
}

#[tokio::test]
async fn a_hello_that_was_under_way_when_the_device_was_disabled_brings_nothing_back() {
    let world = World::new().await;
    let mut mac = world.device("mac").await;
    let (_, session) = world.store.mint_session(&mac.token).await.unwrap().unwrap();
    mac.session = session;
    disable(&world, &mac).await;
    let refused = world
        .store
        .begin_session(world.hello(&mac, Vec::new()))
        .await;
    assert!(matches!(refused.unwrap(), SessionAnswer::Refused));
    // Nor after it is enabled again: the socket is still the old one.
    world.store.enable_device(mac.id).await.unwrap();
    let refused = world
        .store
        .begin_session(world.hello(&mac, Vec::new()))
        .await;
    assert!(matches!(refused.unwrap(), SessionAnswer::Refused));
    let answer = world.reconnect(&mut mac, Vec::new()).await;
    assert!(
        matches!(answer, SessionAnswer::Current { .. }),
        "{answer:?}"
    );
}

#[tokio::test]
async fn pairing_again_leaves_the_old_socket_powerless_and_the_lease_to_a_hello() {
    let world = World::new().await;
    let mut mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    let (_, under_way) = world.store.mint_session(&mac.token).await.unwrap().unwrap();
    let code = world.enrollment(Some(mac.id)).await;
    let paired = world
        .store
        .pair_device(&code, "mac")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(world.statuses(&lease).await, "active, uploading");
    assert_powerless(&world, &lease).await;
    let mut old = mac.clone();
    old.session = under_way;
    let refused = world
        .store
        .begin_session(world.hello(&old, vec![lease.held()]))
        .await;
    assert!(matches!(refused.unwrap(), SessionAnswer::Refused));
    mac.token = paired.token;
    let answer = world.reconnect(&mut mac, vec![lease.held()]).await;
    let SessionAnswer::Current { resumed, lost, .. } = answer else {
        panic!("{answer:?}")
    };
    assert_eq!((resumed.len(), lost.len()), (1, 0));
    assert!(resumed[0].epoch > lease.epoch + 1);
}

#[tokio::test]
async fn pairing_to_another_provider_ends_the_leases_and_later_work_earns_for_the_new_owner() {
    let world = World::new().await;
    let mut mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    let committing = {
        let other = world.device("other").await;
        world.in_phase(&other, Phase::Running).await
    };
    let heir = world.store.create_provider("heir").await.unwrap();
    let new = NewEnrollment {
        provider: heir,
        device: Some(mac.id),
        own_org: None,
        labels: vec!["studio".to_owned()],
        valid_for: fencepost_domain::duration::LeaseDuration::seconds(900),
    };
    let code = world.store.create_enrollment(new).await.unwrap().unwrap();
    let paired = world
        .store
        .pair_device(&code, "mac")
        .await
        .unwrap()
        .unwrap();
    assert_eq!((paired.device, paired.provider), (mac.id, heir));
    assert_eq!(world.statuses(&lease).await, "queued, lost");
    assert_eq!(world.attempt_column(lease.attempt, "charged").await, "f");
    assert_powerless(&world, &lease).await;
    assert_eq!(world.statuses(&committing).await, "active, running");
    mac.token = paired.token;
    world.reconnect(&mut mac, Vec::new()).await;
    let again = world.lease(&mac).await;
    assert_eq!(again.job, lease.job);
    let provider = world.attempt_column(again.attempt, "provider_id").await;
    assert_eq!(provider, heir.to_string());
    let before = world.attempt_column(lease.attempt, "provider_id").await;
    assert_eq!(before, world.provider.to_string());
}

#[tokio::test]
async fn a_revoked_attempt_ends_uncharged_whatever_it_was_doing() {
    let world = World::new().await;
    let mac = world
        .device_with("mac", 8, &["transcode.v1", "encode.h264"])
        .await;
    for phase in [Phase::Downloading, Phase::Running, Phase::Uploading] {
        let lease = world.in_phase(&mac, phase).await;
        let revoked = revoke(&world, &lease).await;
        assert!(matches!(revoked, Some(Revoked::Ended(_))), "{revoked:?}");
        assert_eq!(world.statuses(&lease).await, "queued, lost");
        assert_eq!(world.attempt_column(lease.attempt, "charged").await, "f");
        assert_powerless(&world, &lease).await;
        let again = revoke(&world, &lease).await;
        assert!(matches!(again, Some(Revoked::EndedBefore(_))), "{again:?}");
        world.cancel(lease.job).await;
    }
    let unknown = world
        .store
        .revoke_attempt(fencepost_domain::ids::AttemptId::new())
        .await;
    assert_eq!(unknown.unwrap(), None);
}

#[tokio::test]
async fn a_verification_that_was_revoked_settles_nothing_and_the_job_waits_again() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    let ticket = world.begin_verification(&lease).await;
    revoke(&world, &lease).await;
    assert_eq!(world.statuses(&lease).await, "queued, lost");
    let settled = world.settle(&ticket, good(30.0)).await;
    assert!(
        matches!(&settled, Settled::Final(end) if end.status().as_str() == "lost"),
        "{settled:?}"
    );
    assert_eq!(world.statuses(&lease).await, "queued, lost");
    let report = world.store.expire_due(10, &SERVICES).await.unwrap();
    assert!(report.verify.is_empty(), "it is verified once more");
}

#[tokio::test]
async fn a_revoke_beside_a_commit_leaves_one_outcome() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    for _ in 0..40 {
        let lease = world.in_phase(&mac, Phase::Uploading).await;
        let (answer, revoked) = tokio::join!(world.commit(&lease), revoke(&world, &lease));
        assert!(matches!(revoked, Some(Revoked::Ended(_))), "{revoked:?}");
        // Whichever came first, the revoke came last or the commit too late.
        assert_eq!(world.statuses(&lease).await, "queued, lost");
        if let CommitAnswer::Verify(ticket) = answer {
            world.settle(&ticket, good(30.0)).await;
        }
        assert_eq!(world.statuses(&lease).await, "queued, lost");
        world.cancel(lease.job).await;
    }
}

/// The device's token in another process.
async fn take_over(world: &World, device: &mut Device) -> SessionAnswer {
    device.instance = InstanceId::new();
    world.reconnect(device, Vec::new()).await
}

async fn is_enabled(world: &World, device: DeviceId) -> bool {
    let devices = world.store.devices().await.expect("it runs");
    let found = devices.iter().find(|view| view.id == device.0);
    let view = found.expect("the device exists");
    assert_eq!(view.enabled, view.note.is_none(), "{:?}", view.note);
    view.enabled
}

#[tokio::test]
async fn two_copies_of_one_agent_that_take_over_from_each_other_disable_their_device() {
    let world = World::new().await;
    let mut mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    for _ in 0..2 {
        mac.instance = InstanceId::new();
        let answer = world.reconnect(&mut mac, vec![lease.held()]).await;
        assert!(
            matches!(answer, SessionAnswer::Current { .. }),
            "{answer:?}"
        );
    }
    assert!(is_enabled(&world, mac.id).await);
    let answer = take_over(&world, &mut mac).await;
    assert!(
        matches!(answer, SessionAnswer::InTwoPlaces { .. }),
        "{answer:?}"
    );
    assert!(!is_enabled(&world, mac.id).await);
    assert_eq!(world.job_column(lease.job, "status").await, "queued");
    assert!(
        world
            .store
            .mint_session(&mac.token)
            .await
            .unwrap()
            .is_none()
    );
    // An operator lets it in again, and the count begins anew.
    world.store.enable_device(mac.id).await.unwrap();
    for _ in 0..3 {
        let answer = take_over(&world, &mut mac).await;
        assert!(
            matches!(answer, SessionAnswer::Current { .. }),
            "{answer:?}"
        );
    }
}

#[tokio::test]
async fn a_session_of_a_gateway_that_is_gone_is_not_taken_over_and_one_of_a_living_gateway_is() {
    for is_alive in [false, true] {
        let world = World::new().await;
        let mut mac = world.device("mac").await;
        let gateway = world.store.of_new_gateway();
        let identity = GatewayIdentity {
            link_key: Fingerprint::of(b"links"),
            webhook_key: Fingerprint::of(b"webhooks"),
            object_store: Uuid::nil(),
        };
        gateway.begin_gateway(identity).await.unwrap().unwrap();
        let mut answers = Vec::new();
        for _ in 0..4 {
            let now = world.clock.now().await;
            if is_alive || answers.is_empty() {
                gateway.finish_sweep(now).await.unwrap();
            }
            mac.session = world
                .store
                .mint_session(&mac.token)
                .await
                .unwrap()
                .unwrap()
                .1;
            mac.instance = InstanceId::new();
            let hello = world.hello(&mac, Vec::new());
            answers.push(gateway.begin_session(hello).await.unwrap());
            world.clock.advance(Duration::from_secs(16)).await;
            if matches!(answers.last(), Some(SessionAnswer::InTwoPlaces { .. })) {
                break;
            }
        }
        let is_disabled = !is_enabled(&world, mac.id).await;
        assert_eq!(is_disabled, is_alive, "{answers:?}");
    }
}

#[tokio::test]
async fn an_agent_that_reconnects_or_restarts_or_takes_its_time_disables_nothing() {
    let world = World::new().await;
    let mut mac = world.device("mac").await;
    for _ in 0..10 {
        // The same process again.
        world.reconnect(&mut mac, Vec::new()).await;
    }
    for _ in 0..10 {
        // Another one, after the socket of the first had closed.
        let ended = world.store.end_sessions(vec![(mac.id, mac.session)]).await;
        assert_eq!(ended.unwrap(), [true]);
        take_over(&world, &mut mac).await;
    }
    for _ in 0..10 {
        world.clock.advance(Duration::from_mins(5)).await;
        take_over(&world, &mut mac).await;
    }
    assert!(is_enabled(&world, mac.id).await);
}

#[tokio::test]
async fn the_late_end_of_an_old_session_does_not_make_the_new_one_seem_away() {
    let world = World::new().await;
    let mut mac = world.device("mac").await;
    let old = mac.session;
    world.reconnect(&mut mac, Vec::new()).await;
    let ended = world.store.end_sessions(vec![(mac.id, old)]).await;
    assert_eq!(ended.unwrap(), [false]);
    let connected = || async { world.store.devices().await.unwrap()[0].connected };
    assert!(connected().await);
    world
        .store
        .end_sessions(vec![(mac.id, mac.session)])
        .await
        .unwrap();
    assert!(!connected().await);
}
