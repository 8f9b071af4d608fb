//! Leases that are claimed outside a session: they are leases like others, but for hello.

use std::collections::BTreeSet;
use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::failure::FailureCode;
use fencepost_domain::ids::RequestId;
use fencepost_domain::service::Capability;
use fencepost_store::StoreSettings;
use fencepost_store::tx::begin_session::SessionAnswer;
use fencepost_store::tx::begin_verification::CommitAnswer;
use fencepost_store::tx::claim_lease::ClaimAnswer;
use fencepost_store::tx::lease_round::Cursor;
use fencepost_store::tx::record_progress::ProgressAnswer;
use fencepost_store::tx::{Asked, Refusal};
use fencepost_tests::claims::{claim_of, claim_on};
use fencepost_tests::world::TTL;
use fencepost_tests::{Device, World};

const WORDS: [&str; 2] = ["transcode.v1", "encode.h264"];

fn is_nothing(asked: &Asked<ClaimAnswer>) -> bool {
    matches!(asked, Asked::First(ClaimAnswer::Nothing { .. }))
}

async fn with_a_token(world: &World, name: &str) -> Device {
    let code = world.enrollment(None).await;
    let paired = world.store.pair_device(&code, name).await;
    let paired = paired.expect("pairing runs").expect("the code is good");
    Device {
        id: paired.device,
        token: paired.token,
        session: fencepost_domain::ids::SessionNumber(0),
        slots: 1,
        words: Vec::new(),
        instance: fencepost_domain::ids::InstanceId::new(),
    }
}

#[tokio::test]
async fn a_claim_counts_as_accepted_and_can_win() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    world.submit().await;
    let lease = world.claim(&mac).await;
    assert_eq!((lease.remaining, lease.epoch), (TTL, 1));
    assert_eq!(lease.org, world.org);
    assert_eq!(world.statuses(&lease).await, "active, leased");
    assert_ne!(world.attempt_column(lease.attempt, "accepted_at").await, "");
    world.clock.advance(Duration::from_secs(30)).await;
    world.sweep().await;
    world.progress(&lease, Phase::Uploading).await;
    world.win(&lease).await;
    assert_eq!(world.statuses(&lease).await, "succeeded, succeeded");
}

#[tokio::test]
async fn a_claim_takes_a_slot_and_slots_are_exact_across_gateways() {
    let world = World::new().await;
    let mac = world.device_with("mac", 3, &WORDS).await;
    world.submit_many(12).await;
    world.claim(&mac).await;
    assert_eq!(world.pull(&mac, 8).await.len(), 2);
    assert!(is_nothing(&world.ask(&mac, RequestId::new()).await));

    let crowd = world.device_with("crowd", 2, &WORDS).await;
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let other = world.db.open_store(StoreSettings::default());
        let request = claim_of(&crowd, RequestId::new());
        asking.spawn(async move {
            matches!(
                claim_on(&other, request).await,
                Asked::First(ClaimAnswer::Leased(_))
            )
        });
        let (store, pulls) = (world.store.clone(), vec![crowd.pull(2)]);
        asking.spawn(async move {
            let round = store.lease_round(pulls, Cursor::default()).await;
            !round.expect("a round runs").leased.is_empty()
        });
    }
    asking.join_all().await;
    let live = format!(
        "select count(*) from attempts where device_id = '{}' and ended_at is null",
        crowd.id
    );
    assert_eq!(world.db.text(&live).await, "2");
}

#[tokio::test]
async fn no_hello_loses_rotates_or_forgets_a_claim() {
    let world = World::new().await;
    let mut mac = world.device("mac").await;
    world.submit().await;
    let lease = world.claim(&mac).await;
    for held in [Vec::new(), vec![lease.held()]] {
        let is_listed = !held.is_empty();
        let answer = world.reconnect(&mut mac, held).await;
        let SessionAnswer::Current {
            resumed,
            lost,
            ended,
            ..
        } = answer
        else {
            panic!("{answer:?}");
        };
        assert!(resumed.is_empty() && ended.is_empty());
        assert_eq!(lost.contains(&lease.attempt), is_listed);
        assert_eq!(world.statuses(&lease).await, "active, leased");
        let epoch = world.attempt_column(lease.attempt, "lease_epoch").await;
        assert_eq!(epoch, lease.epoch.to_string());
    }
    world.progress(&lease, Phase::Uploading).await;
    world.reconnect(&mut mac, Vec::new()).await;
    world.win(&lease).await;
}

#[tokio::test]
async fn a_device_that_is_draining_disabled_or_quarantined_claims_nothing() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    world.submit_many(9).await;
    world.store.set_device_draining(mac.id, true).await.unwrap();
    assert!(is_nothing(&world.ask(&mac, RequestId::new()).await));
    world
        .store
        .set_device_draining(mac.id, false)
        .await
        .unwrap();
    for _ in 0..10 {
        let lease = world.claim(&mac).await;
        world.end(lease.fail(FailureCode::DeviceFault)).await;
        world.clock.advance(Duration::from_mins(6)).await;
        world.sweep().await;
    }
    assert!(is_nothing(&world.ask(&mac, RequestId::new()).await));
    let healthy = world.device("healthy").await;
    world.claim(&healthy).await;
    world.store.disable_device(healthy.id, None).await.unwrap();
    let asked = world.ask(&healthy, RequestId::new()).await;
    assert!(
        matches!(asked, Asked::First(ClaimAnswer::Unauthorized)),
        "{asked:?}"
    );
}

#[tokio::test]
async fn a_token_that_was_replaced_while_its_claim_was_under_way_claims_nothing() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    world.submit().await;
    let code = world.enrollment(Some(mac.id)).await;
    let paired = world
        .store
        .pair_device(&code, "mac")
        .await
        .unwrap()
        .unwrap();
    let asked = world.ask(&mac, RequestId::new()).await;
    assert!(
        matches!(asked, Asked::First(ClaimAnswer::Unauthorized)),
        "{asked:?}"
    );
    let again = Device {
        token: paired.token,
        ..mac
    };
    world.claim(&again).await;
}

#[tokio::test]
async fn a_device_that_never_said_hello_says_with_its_claim_what_it_can_do() {
    let world = World::new().await;
    let mac = with_a_token(&world, "mac").await;
    world.submit_many(4).await;
    assert!(is_nothing(&world.ask(&mac, RequestId::new()).await));
    let able: BTreeSet<_> = WORDS.iter().map(|&word| Capability::new(word)).collect();
    for (slots, taken) in [(2, true), (2, true), (2, false), (3, true), (1, false)] {
        let mut request = claim_of(&mac, RequestId::new());
        (request.capabilities, request.slots) = (Some(able.clone()), slots);
        let asked = claim_on(&world.store, request).await;
        assert_eq!(!is_nothing(&asked), taken, "{slots}: {asked:?}");
    }
}

#[tokio::test]
async fn the_longest_run_a_cancel_and_a_revoke_bound_a_claim_too() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    world
        .submit_with(|job| job.max_run = LeaseDuration::seconds(90))
        .await;
    let lease = world.claim(&mac).await;
    world.clock.advance(Duration::from_secs(50)).await;
    let ProgressAnswer::Renewed(renewal) = world.renew(&lease, None).await else {
        panic!("it is not renewed");
    };
    assert_eq!(renewal.remaining, Duration::from_secs(40));
    let refused = ProgressAnswer::Refused(Refusal::NotExtending);
    world.clock.advance(Duration::from_secs(10)).await;
    assert_eq!(world.renew(&lease, None).await, refused);
    world.clock.advance(Duration::from_secs(30)).await;
    world.sweep().await;
    assert_eq!(world.statuses(&lease).await, "queued, lost");
    assert_eq!(world.attempt_column(lease.attempt, "charged").await, "t");

    let lease = world.claim(&mac).await;
    let cancelled = world.cancel(lease.job).await;
    assert!(cancelled.stopping.is_none(), "no session works on it");
    let answer = world.renew(&lease, None).await;
    assert!(matches!(answer, ProgressAnswer::Stop { .. }), "{answer:?}");
    world.clock.advance(Duration::from_secs(15)).await;
    world.sweep().await;
    assert_eq!(world.statuses(&lease).await, "cancelled, cancelled");

    for by in ["revoke", "disable"] {
        let mac = world.device(by).await;
        let job = world.submit().await;
        let lease = world.claim(&mac).await;
        world.progress(&lease, Phase::Uploading).await;
        if by == "revoke" {
            world.store.revoke_attempt(lease.attempt).await.unwrap();
        } else {
            world.store.disable_device(mac.id, None).await.unwrap();
        }
        assert_eq!(world.statuses(&lease).await, "queued, lost");
        let answer = world.commit(&lease).await;
        assert!(
            matches!(answer, CommitAnswer::Refused(_)),
            "{by}: {answer:?}"
        );
        world.cancel(job).await;
    }
}

#[tokio::test]
async fn a_claim_that_is_committing_goes_on_when_its_device_is_disabled() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    world.submit().await;
    let lease = world.claim(&mac).await;
    world.progress(&lease, Phase::Uploading).await;
    let ticket = world.begin_verification(&lease).await;
    world.store.disable_device(mac.id, None).await.unwrap();
    world
        .settle(&ticket, fencepost_tests::world::good(1.0))
        .await;
    assert_eq!(world.statuses(&lease).await, "succeeded, succeeded");
}

#[tokio::test]
async fn pairing_again_ends_a_claim_which_no_hello_can_resume() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    world.submit().await;
    let lease = world.claim(&mac).await;
    let code = world.enrollment(Some(mac.id)).await;
    world
        .store
        .pair_device(&code, "mac")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(world.statuses(&lease).await, "queued, lost");
    assert_eq!(world.attempt_column(lease.attempt, "charged").await, "f");
}

#[tokio::test]
async fn no_secret_is_in_the_database_or_in_what_is_printed_of_a_claim() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    world.submit().await;
    let id = RequestId::new();
    let asked = world.ask(&mac, id).await;
    let shown = format!("{asked:?}");
    let Asked::First(ClaimAnswer::Leased(lease)) = asked else {
        panic!("{shown}");
    };
    let again = format!("{:?}", world.ask(&mac, id).await);
    let secret = lease.token.expose();
    for text in [shown, again, world.db.dump().await] {
        assert!(!text.contains(&secret));
        assert!(!text.contains(mac.token.expose()));
    }
}
