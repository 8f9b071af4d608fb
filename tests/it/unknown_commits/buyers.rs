//! What buyers and operators ask, and what moves their money and files.

use fencepost_domain::attempt::Phase;
use fencepost_domain::job::JobStatus;
use fencepost_store::Store;
use fencepost_store::tx::place_output::Placed;
use fencepost_store::tx::settle_commit::Settled;
use fencepost_store::tx::submit_job::{IdempotencyKey, Submitted};
use fencepost_tests::world::{CREDIT, HELD, good, settlement};

use super::{Death, Scene};

#[tokio::test]
async fn a_submit_is_one_job_and_one_hold() {
    for death in [Death::Backend, Death::Client] {
        let scene = Scene::new(death).await;
        let mut job = scene.world.new_job().await;
        job.idempotency = Some(IdempotencyKey {
            key: "order-1".to_owned(),
            fingerprint: [1; 32],
        });
        let id = job.id;
        let answer = scene
            .run("jobs", |store| async move { store.submit_job(job).await })
            .await;
        assert_eq!(answer, Submitted::Queued { held_micros: HELD }, "{death:?}");
        assert_eq!(scene.world.postings(id).await, "hold 6000");
    }
}

#[tokio::test]
async fn a_settlement_pays_once() {
    for death in [Death::Backend, Death::Client] {
        let scene = Scene::new(death).await;
        let mac = scene.world.device("mac").await;
        let lease = scene.world.in_phase(&mac, Phase::Uploading).await;
        let ticket = scene.world.begin_verification(&lease).await;
        let settle = vec![settlement(&ticket, good(1.0))];
        let call = |store: Store| async move { store.settle_commit(settle).await };
        let answer = scene.run("attempts", call).await.remove(0);
        let Settled::Final(end) = answer else {
            panic!("{death:?}: {answer:?}")
        };
        assert_eq!(end.job_status(), JobStatus::Succeeded);
        let posted = "hold 6000, capture_provider 1050, capture_platform 450, release 4500";
        assert_eq!(scene.world.postings(lease.job).await, posted);
        assert_eq!(scene.world.events(lease.job).await, "job.succeeded");
    }
}

#[tokio::test]
async fn a_cancel_says_that_it_cancelled_and_whom_to_stop() {
    for death in [Death::Backend, Death::Client] {
        for running in [false, true] {
            let scene = Scene::new(death).await;
            let world = &scene.world;
            let mac = world.device("mac").await;
            let lease = if running {
                Some(world.in_phase(&mac, Phase::Running).await)
            } else {
                None
            };
            let job = match &lease {
                Some(lease) => lease.job,
                None => world.submit().await,
            };
            let org = world.org;
            let call = |store: Store| async move { store.cancel_job(org, job).await };
            let answer = scene.run("jobs", call).await.expect("the job exists");
            assert!(answer.changed, "{death:?}: {answer:?}");
            let stopping = answer.stopping.map(|stopping| stopping.attempt);
            assert_eq!(stopping, lease.map(|lease| lease.attempt), "{death:?}");
            let posted = if running {
                "hold 6000"
            } else {
                "hold 6000, release 6000"
            };
            assert_eq!(world.postings(job).await, posted);
        }
    }
}

#[tokio::test]
async fn credit_is_added_once() {
    for death in [Death::Backend, Death::Client] {
        let scene = Scene::new(death).await;
        let org = scene.world.org;
        let call = |store: Store| async move { store.add_credit(org, 5).await };
        assert_eq!(
            scene.run("postings", call).await,
            Some(CREDIT + 5),
            "{death:?}"
        );
        let balance = scene.world.store.balance(org).await.unwrap().unwrap();
        assert_eq!(balance.available_micros, CREDIT + 5);
    }
}

#[tokio::test]
async fn a_file_is_put_in_place_once() {
    for death in [Death::Backend, Death::Client] {
        let scene = Scene::new(death).await;
        let upload = fencepost_domain::ids::UploadId::new();
        scene
            .world
            .store
            .create_upload(scene.world.org, upload, 10)
            .await
            .unwrap();
        let count = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
        let counter = std::sync::Arc::clone(&count);
        let place = Box::new(move || {
            counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(())
        });
        let call =
            |store: Store| async move { store.place_upload(upload, 10, [1; 32], place).await };
        assert_eq!(scene.run("uploads", call).await, Placed::Done, "{death:?}");
        assert_eq!(count.load(std::sync::atomic::Ordering::Relaxed), 1);
    }
}

#[tokio::test]
async fn a_file_in_a_bucket_is_completed_once_and_parts_are_begun_once() {
    for death in [Death::Backend, Death::Client] {
        let scene = Scene::new(death).await;
        let world = &scene.world;
        let new = fencepost_store::admin::NewUpload {
            id: fencepost_domain::ids::UploadId::new(),
            max_bytes: 10,
            sha256: None,
            in_bucket: true,
        };
        let upload = new.id;
        let created = world.store.create_declared_upload(world.org, new).await;
        created.unwrap();
        let found = fencepost_store::artifacts::Stored {
            size_bytes: 10,
            sha256: [1; 32],
        };
        let call = |store: Store| async move {
            store.complete_upload(upload, "a".to_owned(), found).await
        };
        let completed = scene.run("uploads", call).await;
        let done = fencepost_store::tx::complete_upload::Completed::Done;
        assert_eq!(completed, done, "{death:?}");
    }
    for death in [Death::Backend, Death::Client] {
        let scene = Scene::new(death).await;
        let mac = scene.world.device("mac").await;
        let lease = scene.world.in_phase(&mac, Phase::Uploading).await;
        let claim = lease.claim();
        let begun = fencepost_store::artifacts::OpenUpload {
            id: "mine".to_owned(),
            part_bytes: 5,
        };
        let call = |store: Store| async move { store.parts_begun(claim, begun).await };
        let begun = scene.run("attempts", call).await.expect("it is granted");
        assert_eq!(begun.upload_id.as_deref(), Some("mine"), "{death:?}");
    }
}
