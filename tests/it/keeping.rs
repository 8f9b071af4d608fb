//! How long files and records are kept, what buyers delete before, and how much an org may have.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::failure::FailureCode;
use fencepost_domain::ids::{JobId, RequestId, UploadId};
use fencepost_domain::job::JobStatus;
use fencepost_store::admin::NewUpload;
use fencepost_store::tx::delete_files::FilesDeleted;
use fencepost_store::tx::delete_upload::UploadDeleted;
use fencepost_store::tx::submit_job::{IdempotencyKey, Submitted};
use fencepost_store::tx::webhooks::change::EndpointChange;
use fencepost_store::views::OutputView;
use fencepost_tests::chance::Chance;
use fencepost_tests::mixed::mixed_jobs;
use fencepost_tests::{Lease, World};

const DAY: Duration = Duration::from_hours(24);
/// Past the last moment at which anybody can write an attempt's objects.
const QUIET: Duration = Duration::from_hours(7);

/// Lets time pass, as a gateway with a good clock sees it.
async fn pass(world: &World, time: Duration) {
    world.clock.advance(time).await;
    world.mark().await;
}

/// One pass of the collector; the keys of what it deletes.
async fn collect(world: &World) -> Vec<String> {
    world.store.expire_files(100).await.expect("it runs");
    let garbage = world.store.collect_garbage(100).await.expect("it runs");
    let attempts = garbage.iter().map(|one| one.attempt).collect();
    world
        .store
        .garbage_deleted(attempts)
        .await
        .expect("it runs");
    let keys = garbage.into_iter().flat_map(|one| {
        let copies = one.copies.into_iter();
        let copies = copies.filter(move |copy| Some(copy) != one.kept.as_ref());
        one.keys.into_iter().chain(copies)
    });
    keys.collect()
}

async fn retire(world: &World) -> Vec<UploadId> {
    let retired = world.store.retire_uploads(100).await.expect("it runs");
    let uploads: Vec<_> = retired.into_iter().map(|one| one.upload).collect();
    world
        .store
        .uploads_erased(uploads.clone())
        .await
        .expect("it runs");
    uploads
}

/// A job that succeeded a moment ago, and the copy that was published.
async fn published(world: &World) -> (Lease, String) {
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    world.win(&lease).await;
    let copy = world.job_column(lease.job, "output_key").await;
    (lease, copy)
}

async fn output(world: &World, job: JobId) -> OutputView {
    world.store.output(world.org, job).await.expect("it runs")
}

pub(crate) async fn stored_bytes(world: &World) -> i64 {
    let used = world.store.org_use(world.org).await.expect("it runs");
    used.expect("it runs").stored_bytes
}

#[tokio::test]
async fn an_output_is_kept_for_thirty_days_and_then_deleted() {
    let world = World::new().await;
    let (lease, copy) = published(&world).await;
    let view = world.job(lease.job).await;
    let kept = view.files_expire_at.unwrap() - view.ended_at.unwrap();
    assert_eq!(kept, time::Duration::days(30));
    for _ in 0..2 {
        pass(&world, QUIET).await;
        let losing = collect(&world).await;
        assert!(!losing.is_empty() && !losing.contains(&copy), "{losing:?}");
    }
    // The mark moves once a second.
    let moment = Duration::from_secs(2);
    let rest = (30 * DAY).saturating_sub(2 * QUIET).saturating_sub(moment);
    pass(&world, rest).await;
    assert_eq!(collect(&world).await, Vec::<String>::new());
    assert!(matches!(
        output(&world, lease.job).await,
        OutputView::Ready { .. }
    ));
    assert_eq!(stored_bytes(&world).await, 501_000);
    pass(&world, moment).await;
    assert_eq!(output(&world, lease.job).await, OutputView::Gone);
    let last = collect(&world).await;
    assert!(last.contains(&copy), "{last:?}");
    assert_eq!(output(&world, lease.job).await, OutputView::Gone);
    assert_eq!(stored_bytes(&world).await, 500_000);
    pass(&world, 10 * DAY).await;
    assert_eq!(collect(&world).await, Vec::<String>::new(), "for ever");
    assert_eq!(world.postings(lease.job).await.split(',').count(), 4);
}

#[tokio::test]
async fn what_a_buyer_deletes_is_gone_at_once_and_money_stays() {
    let world = World::new().await;
    let (lease, copy) = published(&world).await;
    let posted = world.postings(lease.job).await;
    let stranger = world.store.create_org("stranger", None).await.unwrap();
    let foreign = world.store.delete_files(stranger, lease.job).await.unwrap();
    assert_eq!(foreign, FilesDeleted::NoJob);
    for _ in 0..2 {
        let deleted = world
            .store
            .delete_files(world.org, lease.job)
            .await
            .unwrap();
        assert_eq!(deleted, FilesDeleted::Done);
    }
    assert_eq!(output(&world, lease.job).await, OutputView::Gone);
    assert_eq!(stored_bytes(&world).await, 500_000);
    assert!(collect(&world).await.contains(&copy));
    assert_eq!(collect(&world).await, Vec::<String>::new(), "at once again");
    // A transfer that was under way may bring something back: there are two passes after it all the same.
    for _ in 0..2 {
        pass(&world, QUIET).await;
        assert!(collect(&world).await.contains(&copy));
    }
    pass(&world, 40 * DAY).await;
    assert_eq!(collect(&world).await, Vec::<String>::new());
    assert_eq!(world.postings(lease.job).await, posted);
    assert_eq!(world.store.check_ledger().await.unwrap().findings, []);
}

#[tokio::test]
async fn files_of_a_job_that_lives_are_not_deleted() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let queued = world.submit().await;
    let upload = upload_of(&world, queued).await;
    for status in [JobStatus::Queued, JobStatus::Active, JobStatus::Cancelling] {
        let deleted = world.store.delete_files(world.org, queued).await.unwrap();
        assert_eq!(deleted, FilesDeleted::Live(status));
        let input = world.store.delete_upload(world.org, upload).await.unwrap();
        assert_eq!(input, UploadDeleted::InUse(queued));
        if status == JobStatus::Queued {
            let lease = world.lease(&mac).await;
            world.progress(&lease, Phase::Running).await;
        } else {
            world.cancel(queued).await;
        }
    }
}

async fn upload_of(world: &World, job: JobId) -> UploadId {
    let upload = format!("select upload_id from job_inputs where job_id = '{job}'");
    world.db.text(&upload).await.parse().expect("an id")
}

#[tokio::test]
async fn an_upload_goes_when_nobody_needs_it_any_more() {
    let world = World::new().await;
    let unused = world.upload().await;
    let unsent = UploadId::new();
    world
        .store
        .create_upload(world.org, unsent, 10)
        .await
        .unwrap();
    let cancelled = world.submit().await;
    let cancelled_input = upload_of(&world, cancelled).await;
    let waiting = world.submit().await;
    pass(&world, 6 * DAY).await;
    assert_eq!(retire(&world).await, []);
    // Both have waited for too long to be started; one is cancelled before anybody notices.
    world.cancel(cancelled).await;
    pass(&world, DAY).await;
    let mut gone = retire(&world).await;
    gone.sort();
    let mut expected = vec![unused, unsent];
    expected.sort();
    assert_eq!(gone, expected);
    pass(&world, 6 * DAY).await;
    assert_eq!(retire(&world).await, [cancelled_input]);
    world.sweep().await;
    assert_eq!(world.job_column(waiting, "status").await, "failed");
    let input = upload_of(&world, waiting).await;
    let shown = world.store.upload(world.org, input).await.unwrap().unwrap();
    let promised = world.job(waiting).await.files_expire_at;
    assert_eq!(shown.expires_at, promised);
    for _ in 0..29 {
        pass(&world, DAY).await;
        assert_eq!(retire(&world).await, []);
    }
    pass(&world, 2 * DAY).await;
    assert_eq!(retire(&world).await, [input]);
    assert_eq!(stored_bytes(&world).await, 0);
    let mut again = world.new_job_of(unused);
    again.org = world.org;
    let refused = world.store.submit_job(again).await.unwrap();
    assert!(
        matches!(refused, Submitted::UnknownUpload { .. }),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_gateway_that_dies_between_giving_up_and_deleting_leaves_it_to_another() {
    let world = World::new().await;
    let upload = world.upload().await;
    let deleted = world.store.delete_upload(world.org, upload).await.unwrap();
    assert_eq!(deleted, UploadDeleted::Done);
    world.mark().await;
    assert_eq!(world.store.retire_uploads(10).await.unwrap().len(), 1);
    assert_eq!(retire(&world).await, [], "two at once");
    pass(&world, Duration::from_hours(1)).await;
    assert_eq!(retire(&world).await, [upload]);
    pass(&world, 2 * DAY).await;
    assert_eq!(retire(&world).await, [], "for ever");
    let repeated = world.store.delete_upload(world.org, upload).await.unwrap();
    assert_eq!(repeated, UploadDeleted::Done);
    pass(&world, 90 * DAY).await;
    assert_eq!(retire(&world).await, [upload]);
    assert_eq!(world.db.text("select count(*) from uploads").await, "0");
}

#[tokio::test]
async fn a_file_is_deleted_or_becomes_an_input_and_never_both() {
    let world = World::new().await;
    let (mut used, mut deleted) = (0, 0);
    for round in 0..40 {
        let upload = world.upload().await;
        let job = world.new_job_of(upload);
        let submit = world.store.submit_job(job);
        let delete = async {
            for _ in 0..round % 5 {
                tokio::task::yield_now().await;
            }
            world.store.delete_upload(world.org, upload).await
        };
        match tokio::join!(submit, delete) {
            (Ok(Submitted::Queued { .. }), Ok(UploadDeleted::InUse(_))) => used += 1,
            (Ok(Submitted::UnknownUpload { .. }), Ok(UploadDeleted::Done)) => deleted += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(used + deleted, 40);
}

#[tokio::test]
async fn a_clock_that_leapt_ahead_forgets_nothing_that_somebody_may_come_back_to() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let named = IdempotencyKey {
        key: "order-1".to_owned(),
        fingerprint: [1; 32],
    };
    let receiver = crate::webhooks::endpoint(&world).await;
    let job = world.submit_with(|job| job.idempotency = Some(named)).await;
    world.cancel(job).await;
    world.submit().await;
    let lease = world.claim_as(&mac, RequestId::new()).await;
    world.end(lease.fail(FailureCode::RunnerFailed)).await;
    crate::webhooks::all_end(&world, 500).await;
    let off = EndpointChange {
        enabled: Some(false),
        ..EndpointChange::default()
    };
    let held = world.store.change_endpoint(world.org, receiver, off).await;
    assert!(held.unwrap());
    let sent = NewUpload {
        id: UploadId::new(),
        max_bytes: 1,
        sha256: None,
        in_bucket: true,
    };
    let until = world.store.create_declared_upload(world.org, sent).await;
    until.unwrap();
    world.mark().await;
    let store = &world.store;
    let leap = Duration::from_hours(400 * 24);
    world.clock.advance(leap).await;
    assert_eq!(store.prune_keys(10).await.unwrap(), 0);
    assert_eq!(store.prune_deliveries(10).await.unwrap(), 0);
    assert_eq!(store.forget_requests(10).await.unwrap(), 0);
    assert_eq!(store.collect_uploads(10).await.unwrap(), []);
    world.mark().await;
    assert_eq!(store.prune_keys(10).await.unwrap(), 1);
    assert_eq!(store.prune_deliveries(10).await.unwrap(), 2);
    assert_eq!(store.forget_requests(10).await.unwrap(), 1);
    assert_eq!(store.collect_uploads(10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_clock_that_leapt_ahead_deletes_nothing() {
    let world = World::new().await;
    let (lease, copy) = published(&world).await;
    world.upload().await;
    // Its attempt is looked at again already; only the time of its files is not over.
    pass(&world, QUIET).await;
    world.clock.advance(400 * DAY).await;
    assert!(!collect(&world).await.contains(&copy));
    assert_eq!(retire(&world).await, []);
    assert_eq!(world.store.prune_jobs(10).await.unwrap(), 0);
    world.clock.go_back(400 * DAY).await;
    assert!(matches!(
        output(&world, lease.job).await,
        OutputView::Ready { .. }
    ));
}

#[tokio::test]
async fn records_of_jobs_go_after_ninety_days_and_their_postings_stay() {
    let world = World::new().await;
    let (won, _) = published(&world).await;
    let mac = world.device("other").await;
    let failed = world.in_phase(&mac, Phase::Running).await;
    world.event(&failed.event(1)).await;
    let key = world.grant_artifact(&failed, "log.txt").await;
    world.artifact(&failed.artifact("log.txt", &key)).await;
    world.end(failed.fail(FailureCode::RunnerFailed)).await;
    world.hand_off(&failed.hand_off("")).await;
    let named = IdempotencyKey {
        key: "order-1".to_owned(),
        fingerprint: [1; 32],
    };
    let cancelled = world.submit_with(|job| job.idempotency = Some(named)).await;
    world.cancel(cancelled).await;
    let postings = "select count(*) || ' ' || sum(amount_micros) from postings";
    let posted = world.db.text(postings).await;
    pass(&world, (90 * DAY).saturating_sub(Duration::from_micros(1))).await;
    for _ in 0..4 {
        collect(&world).await;
        world.store.prune_keys(10).await.unwrap();
        assert_eq!(world.store.prune_jobs(10).await.unwrap(), 0);
        world.clock.advance(Duration::from_hours(2)).await;
    }
    let open = world.submit().await;
    world.mark().await;
    assert_eq!(world.store.prune_jobs(2).await.unwrap(), 2);
    assert_eq!(world.store.prune_jobs(2).await.unwrap(), 1);
    assert_eq!(world.store.prune_jobs(2).await.unwrap(), 0);
    for table in [
        "attempts",
        "attempt_events",
        "attempt_artifacts",
        "attempt_grants",
        "workspaces",
        "outbox",
        "idempotency_keys",
    ] {
        let count = format!("select count(*) from {table}");
        assert_eq!(world.db.text(&count).await, "0", "{table}");
    }
    assert_eq!(world.job(open).await.status, "queued");
    assert!(world.store.job(world.org, won.job).await.unwrap().is_none());
    world.cancel(open).await;
    let old = format!("{postings} where job_id <> '{open}' or job_id is null");
    assert_eq!(world.db.text(&old).await, posted);
    let check = world.store.check_ledger().await.unwrap();
    assert_eq!((check.jobs, check.findings), (1, Vec::new()));
}

#[tokio::test]
async fn a_job_whose_objects_are_not_deleted_yet_is_not_pruned() {
    let world = World::new().await;
    published(&world).await;
    pass(&world, 100 * DAY).await;
    assert_eq!(world.store.prune_jobs(10).await.unwrap(), 0);
    for _ in 0..3 {
        collect(&world).await;
        pass(&world, Duration::from_hours(2)).await;
    }
    assert_eq!(world.store.prune_jobs(10).await.unwrap(), 1);
}

#[tokio::test]
async fn everything_that_a_thousand_jobs_leave_is_pruned_but_money() {
    let world = World::new().await;
    mixed_jobs(&world, &mut Chance::new(3, 0), 300).await;
    for _ in 0..3 {
        pass(&world, 50 * DAY).await;
        while !collect(&world).await.is_empty() {}
        while !retire(&world).await.is_empty() {}
    }
    while world.store.prune_jobs(100).await.unwrap() > 0 {}
    let left = "select (select count(*) from jobs) + (select count(*) from attempts)";
    assert_eq!(world.db.text(left).await, "0");
    assert_eq!(world.store.check_ledger().await.unwrap().findings, []);
}
