//! How much an org may have at once: jobs that have not ended, and stored bytes.

use fencepost_domain::ids::{JobId, UploadId};
use fencepost_store::admin::NewLimits;
use fencepost_store::tx::place_output::Placed;
use fencepost_store::tx::submit_job::{QuotaReached, Submitted};
use fencepost_tests::World;

/// Only so many; what is `None` stays.
async fn allow(world: &World, open_jobs: Option<i64>, stored_bytes: Option<i64>) {
    let limits = NewLimits {
        live_attempts: None,
        open_jobs: open_jobs.map(Some),
        stored_bytes: stored_bytes.map(Some),
    };
    let set = world.store.set_limits(world.org, limits).await;
    assert!(set.expect("it runs"));
}

#[tokio::test]
async fn an_org_has_so_many_open_jobs_and_a_cancel_makes_room_at_once() {
    let world = World::new().await;
    let upload = world.upload().await;
    allow(&world, Some(2), None).await;
    let submits = (0..5).map(|_| world.store.submit_job(world.new_job_of(upload)));
    let answers = futures_util::future::join_all(submits).await;
    let full = Submitted::QuotaReached(QuotaReached {
        quota: "open_jobs",
        used: 2,
        most: 2,
    });
    let refused = answers
        .iter()
        .filter(|answer| answer.as_ref().unwrap() == &full);
    assert_eq!(refused.count(), 3, "{answers:?}");
    let queued = "select id from jobs where status = 'queued' limit 1";
    let queued: JobId = world.db.text(queued).await.parse().unwrap();
    world.cancel(queued).await;
    let again = world
        .store
        .submit_job(world.new_job_of(upload))
        .await
        .unwrap();
    assert!(matches!(again, Submitted::Queued { .. }), "{again:?}");
    let again = world
        .store
        .submit_job(world.new_job_of(upload))
        .await
        .unwrap();
    assert_eq!(again, full);
}

#[tokio::test]
async fn an_org_has_so_many_bytes_and_deleting_makes_room_at_once() {
    let world = World::new().await;
    let first = world.upload().await;
    allow(&world, None, Some(900_000)).await;
    let upload = UploadId::new();
    world
        .store
        .create_upload(world.org, upload, 1_000_000)
        .await
        .unwrap();
    let place = || {
        world
            .store
            .place_upload(upload, 500_000, [1; 32], Box::new(|| Ok(())))
    };
    let full = Placed::OverQuota(QuotaReached {
        quota: "stored_bytes",
        used: 500_000,
        most: 900_000,
    });
    assert_eq!(place().await.unwrap(), full);
    world.store.delete_upload(world.org, first).await.unwrap();
    assert_eq!(place().await.unwrap(), Placed::Done);
    allow(&world, None, Some(500_000)).await;
    let refused = world
        .store
        .submit_job(world.new_job_of(upload))
        .await
        .unwrap();
    assert!(
        matches!(
            refused,
            Submitted::QuotaReached(QuotaReached {
                quota: "stored_bytes",
                ..
            })
        ),
        "{refused:?}"
    );
}
