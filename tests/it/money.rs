//! Money: held at create, captured or released at the end, to the last micro and exactly once.

use fencepost_domain::attempt::Phase;
use fencepost_domain::ledger::PriceTerms;
use fencepost_store::tx::settle_commit::Settled;
use fencepost_store::tx::submit_job::{NewJob, Submitted};
use fencepost_tests::World;
use fencepost_tests::world::{CREDIT, HELD, TERMS, good};

async fn settle_at(world: &World, seconds: f64, change: impl FnOnce(&mut NewJob)) -> String {
    let mac = world.device("mac").await;
    let lease = world.in_phase_with(&mac, Phase::Uploading, change).await;
    let ticket = world.begin_verification(&lease).await;
    let settled = world.settle(&ticket, good(seconds)).await;
    assert!(matches!(settled, Settled::Final(_)), "{settled:?}");
    assert_eq!(world.statuses(&lease).await, "succeeded, succeeded");
    world.postings(lease.job).await
}

#[tokio::test]
async fn the_started_minutes_are_captured_and_the_rest_is_released() {
    let world = World::new().await;
    let posted = settle_at(&world, 60.1, |_| {}).await;
    // 2,000 captured: 70 % for the provider; 4,000 of the 6,000 held go back.
    let expected = "hold 6000, capture_provider 1400, capture_platform 600, release 4000";
    assert_eq!(posted, expected);
    let balance = world.store.balance(world.org).await.unwrap().unwrap();
    assert_eq!(
        (balance.available_micros, balance.held_micros),
        (CREDIT - 2_000, 0)
    );
}

#[tokio::test]
async fn a_job_settles_by_the_price_of_its_own_day() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let old = world.in_phase(&mac, Phase::Uploading).await;
    let dearer = PriceTerms {
        base_micros: 9_000,
        per_minute_micros: 9_000,
        provider_share_bps: 10,
    };
    let new = world
        .in_phase_with(&mac, Phase::Uploading, |job| job.terms = dearer)
        .await;
    world.win(&old).await;
    world.win(&new).await;
    let old_posted = "hold 6000, capture_provider 1050, capture_platform 450, release 4500";
    assert_eq!(world.postings(old.job).await, old_posted);
    let new_posted = "hold 99000, capture_provider 18, capture_platform 17982, release 81000";
    assert_eq!(world.postings(new.job).await, new_posted);
}

#[tokio::test]
async fn an_output_longer_than_was_held_for_takes_the_whole_hold_and_no_more() {
    let world = World::new().await;
    let posted = settle_at(&world, 100_000.0, |_| {}).await;
    assert_eq!(
        posted,
        "hold 6000, capture_provider 4200, capture_platform 1800"
    );
}

#[tokio::test]
async fn amounts_of_zero_are_not_posted() {
    for (base_micros, per_minute_micros, provider_share_bps, expected) in [
        (0, 0, 7_000, ""),
        (
            1_000,
            0,
            7_000,
            "hold 1000, capture_provider 700, capture_platform 300",
        ),
        (1_000, 0, 0, "hold 1000, capture_platform 1000"),
        (1_000, 0, 10_000, "hold 1000, capture_provider 1000"),
        (1, 0, 7_000, "hold 1, capture_platform 1"),
        (0, 500, 10_000, "hold 5000, release 5000"),
    ] {
        let world = World::new().await;
        let terms = PriceTerms {
            base_micros,
            per_minute_micros,
            provider_share_bps,
        };
        let posted = settle_at(&world, 0.0, |job| job.terms = terms).await;
        assert_eq!(posted, expected, "{terms:?}");
    }
}

#[tokio::test]
async fn a_job_for_nothing_can_be_cancelled_and_can_fail() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let free = |job: &mut NewJob| {
        job.terms = PriceTerms {
            base_micros: 0,
            per_minute_micros: 0,
            provider_share_bps: 0,
        };
    };
    let job = world.submit_with(free).await;
    world.cancel(job).await;
    let lease = world.in_phase_with(&mac, Phase::Running, free).await;
    world
        .end(lease.fail(fencepost_domain::failure::FailureCode::RunnerFailed))
        .await;
    assert_eq!(
        world.postings(job).await + &world.postings(lease.job).await,
        ""
    );
    assert_eq!(world.events(lease.job).await, "job.failed");
}

#[tokio::test]
async fn an_account_that_does_not_cover_the_hold_gets_no_job() {
    let world = World::new().await;
    let poor = world.store.create_org("poor", None).await.unwrap();
    world.store.add_credit(poor, HELD - 1).await.unwrap();
    let upload = fencepost_domain::ids::UploadId::new();
    world.store.create_upload(poor, upload, 10).await.unwrap();
    world
        .store
        .place_upload(upload, 10, [1; 32], Box::new(|| Ok(())))
        .await
        .unwrap();
    let mut job = world.new_job_of(upload);
    job.org = poor;
    let before = world.db.rows().await;
    let refused = world.store.submit_job(job.clone()).await.unwrap();
    let expected = Submitted::InsufficientCredit {
        needed_micros: HELD,
        available_micros: HELD - 1,
    };
    assert_eq!(refused, expected);
    assert_eq!(world.db.rows().await, before);
    world.store.add_credit(poor, 1).await.unwrap();
    let queued = world.store.submit_job(job).await.unwrap();
    assert_eq!(queued, Submitted::Queued { held_micros: HELD });
    let balance = world.store.balance(poor).await.unwrap().unwrap();
    assert_eq!((balance.available_micros, balance.held_micros), (0, HELD));
}

#[tokio::test]
async fn of_many_submits_at_once_only_as_many_as_are_covered_become_jobs() {
    let world = World::new().await;
    world
        .db
        .execute("update org_accounts set available_micros = 3 * 6000")
        .await;
    let shortfall = CREDIT - 3 * HELD;
    let upload = world.upload().await;
    let submits = (0..8).map(|_| world.store.submit_job(world.new_job_of(upload)));
    let answers = futures_util::future::join_all(submits).await;
    let queued = answers
        .iter()
        .filter(|answer| matches!(answer, Ok(Submitted::Queued { .. })));
    assert_eq!(queued.count(), 3);
    // The account was set by hand: put back what no posting took.
    let restore =
        format!("update org_accounts set available_micros = available_micros + {shortfall}");
    world.db.execute(&restore).await;
}

#[tokio::test]
async fn inputs_must_be_the_orgs_own_and_complete() {
    let world = World::new().await;
    let stranger = world.store.create_org("stranger", None).await.unwrap();
    let foreign = fencepost_domain::ids::UploadId::new();
    world
        .store
        .create_upload(stranger, foreign, 10)
        .await
        .unwrap();
    world
        .store
        .place_upload(foreign, 10, [1; 32], Box::new(|| Ok(())))
        .await
        .unwrap();
    let empty = fencepost_domain::ids::UploadId::new();
    world
        .store
        .create_upload(world.org, empty, 10)
        .await
        .unwrap();
    let before = world.db.rows().await;
    let input = "source".to_owned();
    let answer = world
        .store
        .submit_job(world.new_job_of(foreign))
        .await
        .unwrap();
    assert_eq!(
        answer,
        Submitted::UnknownUpload {
            input: input.clone()
        }
    );
    let answer = world
        .store
        .submit_job(world.new_job_of(empty))
        .await
        .unwrap();
    assert_eq!(answer, Submitted::IncompleteUpload { input });
    assert_eq!(world.db.rows().await, before);
}

#[tokio::test]
async fn an_upload_whose_file_could_not_be_put_in_place_is_not_complete() {
    let world = World::new().await;
    let upload = fencepost_domain::ids::UploadId::new();
    world
        .store
        .create_upload(world.org, upload, 10)
        .await
        .unwrap();
    let full = || Err(std::io::Error::from(std::io::ErrorKind::StorageFull));
    let placed = world
        .store
        .place_upload(upload, 10, [1; 32], Box::new(full))
        .await
        .unwrap();
    assert!(
        matches!(placed, fencepost_store::tx::place_output::Placed::Failed(_)),
        "{placed:?}"
    );
    let answer = world
        .store
        .submit_job(world.new_job_of(upload))
        .await
        .unwrap();
    assert!(
        matches!(answer, Submitted::IncompleteUpload { .. }),
        "{answer:?}"
    );
    let placed = world
        .store
        .place_upload(upload, 10, [1; 32], Box::new(|| Ok(())))
        .await
        .unwrap();
    assert_eq!(placed, fencepost_store::tx::place_output::Placed::Done);
}

#[tokio::test]
async fn postings_can_neither_be_changed_nor_deleted_and_settle_a_job_once() {
    let world = World::new().await;
    let job = world.submit().await;
    world.cancel(job).await;
    for statement in [
        "update postings set amount_micros = 1",
        "delete from postings",
        "truncate postings",
    ] {
        assert_eq!(world.db.refusal(statement).await.0, "FP003", "{statement}");
    }
    let again = "insert into postings (kind, debit, credit, amount_micros, org_id, job_id)
        select kind, debit, credit, amount_micros, org_id, job_id from postings where kind = 'release'";
    let refused = world.db.refusal(again).await;
    assert_eq!(refused.1.as_deref(), Some("at_most_one_of_a_kind_per_job"));
    assert_eq!(TERMS.hold_micros(600), HELD);
}
