//! Nobody knows whether a COMMIT happened: its backend is killed while it waits, or its client goes
//! away and the backend commits a moment later. The store runs the transaction again on a fresh
//! connection, and its answer must be right either way, and nothing be done twice.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::failure::FailureCode;
use fencepost_domain::ids::RequestId;
use fencepost_domain::job::JobStatus;
use fencepost_store::tx::Asked;
use fencepost_store::tx::begin_session::SessionAnswer;
use fencepost_store::tx::begin_verification::CommitAnswer;
use fencepost_store::tx::claim_lease::ClaimAnswer;
use fencepost_store::tx::end_by_agent::AgentEndAnswer;
use fencepost_store::tx::lease_round::Cursor;
use fencepost_store::tx::place_output::Placed;
use fencepost_store::tx::record_progress::ProgressAnswer;
use fencepost_store::tx::settle_commit::Settled;
use fencepost_store::tx::submit_job::{IdempotencyKey, Submitted};
use fencepost_store::tx::write_events::JournalAnswer;
use fencepost_store::{Store, StoreError, StoreSettings};
use fencepost_tests::blocker::waiting;
use fencepost_tests::claims::claim_of;
use fencepost_tests::server::Server;
use fencepost_tests::world::{CREDIT, HELD, good, settlement};
use fencepost_tests::{Blocker, Lease, Proxy, World};

/// What happens to a COMMIT that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Death {
    /// Its backend is killed, and the transaction with it.
    Backend,
    /// Its connection is cut; the backend does not notice, and commits when it is let go.
    Client,
}

struct Scene {
    world: World,
    proxy: Proxy,
    /// Reaches Postgres through the proxy.
    store: Store,
    death: Death,
}

impl Scene {
    async fn new(death: Death) -> Self {
        let world = World::new().await;
        let proxy = Proxy::to(Server::get().port()).await;
        let url = world.db.url_through(proxy.port());
        let store = Store::open(&url, StoreSettings::default()).expect("the URL is readable");
        Self {
            world,
            proxy,
            store,
            death,
        }
    }

    /// Runs one call whose first COMMIT, of a change to `table`, dies unanswered.
    async fn run<T, F>(&self, table: &str, call: impl FnOnce(Store) -> F) -> T
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let db = &self.world.db;
        Blocker::make_commits_wait(db, table, "insert or update").await;
        let blocker = Blocker::on_commit(db).await;
        let running = tokio::spawn(call(self.store.clone()));
        blocker.until_waiting(db, 1).await;
        let first = waiting(db).await;
        match self.death {
            Death::Backend => {
                db.execute(&format!("select pg_terminate_backend({})", first[0]))
                    .await;
                while waiting(db)
                    .await
                    .first()
                    .is_none_or(|pid| first.contains(pid))
                {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
            Death::Client => {
                self.proxy.cut();
                blocker.until_waiting(db, 2).await;
            }
        }
        assert!(
            !running.is_finished(),
            "it answered before anybody could know"
        );
        blocker.release().await;
        let answer = running
            .await
            .expect("it does not panic")
            .expect("it has an answer");
        db.execute(&format!("drop trigger a_test_wait on {table}"))
            .await;
        answer
    }
}

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
async fn a_round_hands_over_exactly_what_it_leased() {
    for death in [Death::Backend, Death::Client] {
        for slots in [1, 2] {
            let scene = Scene::new(death).await;
            let world = &scene.world;
            let mac = world.device("mac").await;
            world.submit_many(3).await;
            let pulls = vec![mac.pull(slots)];
            let round =
                |store: Store| async move { store.lease_round(pulls, Cursor::default()).await };
            let leased = scene.run("attempts", round).await.leased;
            assert_eq!(leased.len(), slots as usize, "{death:?}");
            let live = "select count(*) from attempts where ended_at is null";
            assert_eq!(world.db.text(live).await, slots.to_string(), "{death:?}");
            for lease in leased.into_iter().map(Lease) {
                world.progress(&lease, Phase::Uploading).await;
                world.win(&lease).await;
            }
        }
    }
}

#[tokio::test]
async fn an_event_and_an_artifact_are_one_row_each_and_no_replay_to_their_first_caller() {
    for death in [Death::Backend, Death::Client] {
        let scene = Scene::new(death).await;
        let mac = scene.world.device("mac").await;
        let lease = scene.world.in_phase(&mac, Phase::Running).await;
        let key = scene.world.grant_artifact(&lease, "a.log").await;
        let (event, artifact) = (lease.event(0), lease.artifact("a.log", &key));
        let write = |store: Store| async move { store.write_events(vec![event]).await };
        let mut answers = scene.run("attempt_events", write).await;
        let write = |store: Store| async move { store.write_artifacts(vec![artifact]).await };
        answers.extend(scene.run("attempt_artifacts", write).await);
        for answer in answers {
            let first = matches!(
                answer,
                JournalAnswer::Stored {
                    replayed: false,
                    lease_live: true,
                    ..
                }
            );
            assert!(first, "{death:?}: {answer:?}");
        }
        for table in ["attempt_events", "attempt_artifacts"] {
            let count = format!("select count(*) from {table}");
            assert_eq!(scene.world.db.text(&count).await, "1", "{death:?}");
        }
    }
}

#[tokio::test]
async fn a_claim_hands_its_secret_over_once_whatever_became_of_its_commit() {
    for death in [Death::Backend, Death::Client] {
        let scene = Scene::new(death).await;
        let world = &scene.world;
        let mac = world.device("mac").await;
        world.submit_many(2).await;
        let id = RequestId::new();
        let request = claim_of(&mac, id);
        let claim =
            |store: Store| async move { store.claim_lease(request, Cursor::default()).await };
        let (asked, _) = scene.run("attempts", claim).await;
        let Asked::First(ClaimAnswer::Leased(lease)) = asked else {
            panic!("{death:?}: {asked:?}");
        };
        let live = "select count(*) from attempts where ended_at is null";
        assert_eq!(world.db.text(live).await, "1", "{death:?}");
        let again = world.ask(&mac, id).await;
        assert!(
            matches!(again, Asked::Again(ClaimAnswer::Before(_))),
            "{death:?}: {again:?}"
        );
        let lease = Lease(*lease);
        world.progress(&lease, Phase::Uploading).await;
        world.win(&lease).await;
    }
}

#[tokio::test]
async fn a_renewal_is_recorded() {
    for death in [Death::Backend, Death::Client] {
        let scene = Scene::new(death).await;
        let mac = scene.world.device("mac").await;
        let lease = scene.world.in_phase(&mac, Phase::Running).await;
        let progress = vec![lease.progress(Phase::Uploading)];
        let call = |store: Store| async move { store.record_progress(progress).await };
        let answer = scene.run("attempts", call).await.remove(0);
        assert!(
            matches!(answer, ProgressAnswer::Renewed(_)),
            "{death:?}: {answer:?}"
        );
        assert_eq!(scene.world.statuses(&lease).await, "active, uploading");
    }
}

#[tokio::test]
async fn an_accepted_commit_is_verified_and_not_only_known() {
    for death in [Death::Backend, Death::Client] {
        let scene = Scene::new(death).await;
        let mac = scene.world.device("mac").await;
        let lease = scene.world.in_phase(&mac, Phase::Uploading).await;
        let commit = vec![lease.commit()];
        let call = |store: Store| async move { store.begin_verification(commit).await };
        let answer = scene.run("attempts", call).await.remove(0);
        // Whoever is told "verify" does it now; "still verifying" would wait for the take-over.
        let CommitAnswer::Verify(ticket) = answer else {
            panic!("{death:?}: {answer:?}")
        };
        scene.world.settle(&ticket, good(1.0)).await;
        assert_eq!(scene.world.statuses(&lease).await, "succeeded, succeeded");
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
async fn a_failure_is_charged_once() {
    for death in [Death::Backend, Death::Client] {
        let scene = Scene::new(death).await;
        let mac = scene.world.device("mac").await;
        let lease = scene.world.in_phase(&mac, Phase::Uploading).await;
        let end = vec![lease.fail(FailureCode::UploadFailed)];
        let call = |store: Store| async move { store.end_by_agent(end).await };
        let answer = scene.run("attempts", call).await.remove(0);
        assert!(
            matches!(answer, AgentEndAnswer::Final { .. }),
            "{death:?}: {answer:?}"
        );
        assert_eq!(scene.world.statuses(&lease).await, "queued, failed");
        assert_eq!(
            scene.world.job_column(lease.job, "charged_attempts").await,
            "1"
        );
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
async fn a_hello_hands_over_the_secrets_that_it_stored() {
    for death in [Death::Backend, Death::Client] {
        let scene = Scene::new(death).await;
        let world = &scene.world;
        let mut mac = world.device("mac").await;
        let lease = world.in_phase(&mac, Phase::Running).await;
        mac.session = world
            .store
            .mint_session(&mac.token)
            .await
            .unwrap()
            .unwrap()
            .1;
        let hello = world.hello(&mac, vec![lease.held()]);
        let call = |store: Store| async move { store.begin_session(hello).await };
        let answer = scene.run("attempts", call).await;
        let SessionAnswer::Current { resumed, lost, .. } = answer else {
            panic!("{answer:?}")
        };
        assert!(
            lost.is_empty(),
            "{death:?}: a resumed lease was called lost"
        );
        let mut rotated = lease;
        rotated.0.epoch = resumed[0].epoch;
        rotated.0.token = resumed[0].token.clone();
        world.progress(&rotated, Phase::Uploading).await;
        world.win(&rotated).await;
        assert_eq!(
            world.statuses(&rotated).await,
            "succeeded, succeeded",
            "{death:?}"
        );
    }
}

#[tokio::test]
async fn a_pairing_hands_over_the_token_that_it_stored() {
    for death in [Death::Backend, Death::Client] {
        let scene = Scene::new(death).await;
        let code = scene.world.enrollment(None).await;
        let call = |store: Store| async move { store.pair_device(&code, "mac").await };
        let paired = scene.run("devices", call).await.expect("the code was good");
        let minted = scene.world.store.mint_session(&paired.token).await.unwrap();
        assert_eq!(
            minted.map(|(device, _)| device),
            Some(paired.device),
            "{death:?}"
        );
        assert_eq!(scene.world.store.devices().await.unwrap().len(), 1);
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

#[tokio::test]
async fn an_expiry_is_swept_once() {
    for death in [Death::Backend, Death::Client] {
        let scene = Scene::new(death).await;
        let mac = scene.world.device("mac").await;
        let lease = scene.world.in_phase(&mac, Phase::Running).await;
        scene.world.clock.advance(fencepost_tests::world::TTL).await;
        if death == Death::Client {
            // A sweep waits for nobody: it would not see the row that the first one still holds.
            continue;
        }
        let call = |store: Store| async move { store.expire_due(10, &["transcode.v1"]).await };
        assert_eq!(scene.run("attempts", call).await.ended.len(), 1);
        assert_eq!(scene.world.statuses(&lease).await, "queued, lost");
        assert_eq!(
            scene.world.job_column(lease.job, "charged_attempts").await,
            "1"
        );
    }
}
