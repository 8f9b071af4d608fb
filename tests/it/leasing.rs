//! Who gets which job, when, and under which epoch.

use std::collections::BTreeSet;
use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::fencing::FenceViolation;
use fencepost_domain::matcher;
use fencepost_domain::service::Capability;
use fencepost_store::tx::Refusal;
use fencepost_store::tx::begin_verification::CommitAnswer;
use fencepost_store::tx::lease_round::Cursor;
use fencepost_store::tx::record_progress::ProgressAnswer;
use fencepost_tests::world::{OFFER, TTL};
use fencepost_tests::{Lease, World};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

#[tokio::test]
async fn the_first_lease_of_a_job_is_attempt_1_under_epoch_1() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let job = world.submit().await;
    let lease = world.lease(&mac).await;
    assert_eq!((lease.job, lease.attempt_number, lease.epoch), (job, 1, 1));
    assert_eq!(world.statuses(&lease).await, "active, leased");
    assert_eq!(lease.expires_at, world.clock.now().await + OFFER);
    assert_eq!(lease.remaining, OFFER);
    let again = world.pull(&mac, 4).await;
    assert!(again.is_empty(), "it was handed out twice");
}

#[tokio::test]
async fn only_the_sha_256_of_a_commit_token_is_stored_anywhere() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    let plain = lease.token.expose();
    let digest = world
        .attempt_column(lease.attempt, "encode(token_digest, 'hex')")
        .await;
    let expected = format!("{:x}", Hex(Sha256::digest(&plain).into()));
    assert_eq!(digest, expected);
    world.win(&lease).await;
    let dump = world.db.dump().await;
    assert!(
        dump.contains(&expected),
        "the search would not find what is there"
    );
    assert!(!dump.contains(&plain), "the token itself is stored");
    assert!(
        !format!("{lease:?}").contains(&plain),
        "the token is printed"
    );
}

struct Hex([u8; 32]);

impl std::fmt::LowerHex for Hex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[tokio::test]
async fn of_two_devices_that_pull_at_once_exactly_one_gets_the_job() {
    let world = World::new().await;
    let (one, two) = (world.device("one").await, world.device("two").await);
    for _ in 0..20 {
        world.submit().await;
        let (first, second) = tokio::join!(world.pull(&one, 1), world.pull(&two, 1));
        assert_eq!(first.len() + second.len(), 1);
        let lease = first
            .into_iter()
            .chain(second)
            .next()
            .expect("one of them has it");
        world.end(lease.release()).await;
        world.cancel(lease.job).await;
    }
}

#[tokio::test]
async fn a_job_with_a_live_attempt_is_offered_to_nobody() {
    let world = World::new().await;
    let (one, two) = (world.device("one").await, world.device("two").await);
    for phase in [
        Phase::Leased,
        Phase::Downloading,
        Phase::Running,
        Phase::Uploading,
    ] {
        let lease = world.in_phase(&one, phase).await;
        assert!(
            world.pull(&two, 4).await.is_empty(),
            "offered while {phase:?}"
        );
        world.cancel(lease.job).await;
        world.end(lease.stopped()).await;
    }
    let lease = world.in_phase(&one, Phase::Uploading).await;
    let ticket = world.begin_verification(&lease).await;
    assert!(
        world.pull(&two, 4).await.is_empty(),
        "offered while committing"
    );
    world
        .settle(&ticket, fencepost_tests::world::good(1.0))
        .await;
    assert!(
        world.pull(&two, 4).await.is_empty(),
        "offered after it succeeded"
    );
}

#[tokio::test]
async fn after_an_expired_lease_the_next_attempt_shares_nothing_with_it() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lost = world.in_phase(&mac, Phase::Running).await;
    world.expire(&lost).await;
    assert_eq!(world.statuses(&lost).await, "queued, lost");
    assert_eq!(
        world.attempt_column(lost.attempt, "failure_code").await,
        "lease_expired"
    );
    let next = world.lease(&mac).await;
    assert_eq!((next.job, next.attempt_number), (lost.job, 2));
    assert_ne!(next.attempt, lost.attempt);
    assert_ne!(next.output_key, lost.output_key);
    assert!(next.digest() != lost.digest());
    assert!(next.epoch > lost.epoch);
}

#[tokio::test]
async fn an_expired_lease_that_no_sweep_has_seen_is_as_dead_as_a_swept_one() {
    let world = World::new().await;
    let (one, two) = (world.device("one").await, world.device("two").await);
    let lease = world.in_phase(&one, Phase::Uploading).await;
    world.clock.advance(TTL + Duration::from_secs(1)).await;

    // Readers see it as gone,
    assert_eq!(world.job(lease.job).await.status, "queued");
    assert_eq!(world.job(lease.job).await.phase, None);
    let attempts = world
        .store
        .attempts(world.org, lease.job)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(attempts[0].status, "lost");
    // its holder is refused,
    let expired = Refusal::Fence(FenceViolation::Expired);
    let answer = world.progress(&lease, Phase::Uploading).await;
    assert_eq!(answer, ProgressAnswer::Refused(expired));
    // and a round says that it must be swept first; then it is anybody's.
    let round = world
        .store
        .lease_round(vec![two.pull(1)], Cursor::default())
        .await
        .unwrap();
    assert!(round.due && round.leased.is_empty());
    world.sweep().await;
    assert_eq!(world.lease(&two).await.job, lease.job);
}

#[tokio::test]
async fn a_lease_lives_until_the_microsecond_before_its_end_and_is_dead_at_it() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    let end = expiry(&world, &lease).await;
    let expired = Refusal::Fence(FenceViolation::Expired);

    world.clock.set(end).await;
    assert_eq!(
        world.progress(&lease, Phase::Uploading).await,
        ProgressAnswer::Refused(expired)
    );
    let CommitAnswer::Refused(refusal) = world.commit(&lease).await else {
        panic!("a dead lease committed");
    };
    assert_eq!(refusal, expired);

    world.clock.set(end - Duration::from_micros(1)).await;
    assert!(
        world.sweep().await.ended.is_empty(),
        "it was ended before its time"
    );
    let answer = world.progress(&lease, Phase::Uploading).await;
    assert!(matches!(answer, ProgressAnswer::Renewed(_)));

    let end = expiry(&world, &lease).await;
    world.clock.set(end).await;
    // The renewal moved the expiry and not the sweeper's next look, which therefore comes early.
    world.sweep().await;
    assert_eq!(world.statuses(&lease).await, "queued, lost");
    assert_eq!(world.lease(&mac).await.job, lease.job);
}

async fn expiry(world: &World, lease: &Lease) -> OffsetDateTime {
    sqlx::query_scalar("select lease_expires_at from attempts where id = $1")
        .bind(lease.attempt.0)
        .fetch_one(&world.db.pool)
        .await
        .expect("the attempt has a lease")
}

#[tokio::test]
async fn the_epoch_of_a_job_never_restarts_whatever_ended_the_last_lease() {
    let world = World::new().await;
    let mut mac = world.device("mac").await;
    let other = world.device("other").await;
    let job = world.submit_with(|job| job.max_attempts = 10).await;
    let mut epochs = Vec::new();
    for how in ["release", "fail", "expire", "return", "resume", "expire"] {
        // Past every delay after a fail or a return, and the time for which a device is barred.
        world.clock.advance(Duration::from_secs(301)).await;
        world.sweep().await;
        let lease = world.lease(&mac).await;
        assert_eq!(lease.job, job);
        epochs.push(lease.epoch);
        if how != "return" {
            world.progress(&lease, Phase::Running).await;
        }
        match how {
            "release" => drop(world.end(lease.release()).await),
            "fail" => drop(
                world
                    .end(lease.fail(fencepost_domain::failure::FailureCode::DeviceFault))
                    .await,
            ),
            "return" => drop(
                world
                    .store
                    .return_offers(vec![lease.claim()])
                    .await
                    .unwrap(),
            ),
            "resume" => {
                world.reconnect(&mut mac, vec![lease.held()]).await;
                let epoch = world.attempt_column(lease.attempt, "lease_epoch").await;
                epochs.push(epoch.parse().unwrap());
                world.clock.advance(TTL).await;
                world.sweep().await;
            }
            _ => world.expire(&lease).await,
        }
    }
    assert_eq!(epochs, [1, 2, 3, 4, 5, 6, 7]);
    drop(other);
}

#[tokio::test]
async fn a_device_is_offered_only_what_it_has_proven() {
    let world = World::new().await;
    let software = world.device("software").await;
    let words = ["transcode.v1", "encode.h264", "videotoolbox.h264"];
    let hardware = world.device_with("hardware", 4, &words).await;
    let needs_hardware = world
        .submit_with(|job| {
            job.params = json!({"codec": "h264", "hardware": "require"});
            let words = ["transcode.v1", "videotoolbox.h264"];
            let words: BTreeSet<_> = words.into_iter().map(Capability::new).collect();
            job.lane = matcher::lane(&words);
        })
        .await;
    let plain = world.submit().await;
    let leases = world.pull(&software, 4).await;
    assert_eq!(
        leases.iter().map(|lease| lease.job).collect::<Vec<_>>(),
        [plain]
    );
    assert_eq!(world.lease(&hardware).await.job, needs_hardware);
}

#[tokio::test]
async fn nothing_is_leased_to_a_disabled_or_draining_device_or_an_old_session() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    world.submit().await;
    world.store.set_device_draining(mac.id, true).await.unwrap();
    assert!(world.pull(&mac, 1).await.is_empty());
    world
        .store
        .set_device_draining(mac.id, false)
        .await
        .unwrap();
    let mut newer = mac.clone();
    world.reconnect(&mut newer, Vec::new()).await;
    assert!(
        world.pull(&mac, 1).await.is_empty(),
        "leased to the old session"
    );
    world.store.disable_device(mac.id, None).await.unwrap();
    assert!(world.pull(&newer, 1).await.is_empty());
    world.store.enable_device(mac.id).await.unwrap();
    world.reconnect(&mut newer, Vec::new()).await;
    assert_eq!(world.pull(&newer, 1).await.len(), 1);
}

#[tokio::test]
async fn an_offer_that_nobody_accepts_returns_uncharged_and_goes_elsewhere_first() {
    let world = World::new().await;
    let (one, two) = (world.device("one").await, world.device("two").await);
    let job = world.submit().await;
    let lease = world.lease(&one).await;
    world.clock.advance(OFFER).await;
    world.sweep().await;
    assert_eq!(world.statuses(&lease).await, "queued, lost");
    assert_eq!(world.job_column(job, "charged_attempts").await, "0");
    assert!(world.pull(&two, 1).await.is_empty(), "there was no delay");
    world.clock.advance(Duration::from_secs(1)).await;
    world.sweep().await;
    assert!(
        world.pull(&one, 1).await.is_empty(),
        "offered to the same device again"
    );
    assert_eq!(world.lease(&two).await.job, job);
}
