//! What agents ask, and what happens to their leases.

use fencepost_domain::attempt::Phase;
use fencepost_domain::failure::FailureCode;
use fencepost_domain::ids::RequestId;
use fencepost_store::Store;
use fencepost_store::tx::Asked;
use fencepost_store::tx::begin_session::SessionAnswer;
use fencepost_store::tx::begin_verification::CommitAnswer;
use fencepost_store::tx::claim_lease::ClaimAnswer;
use fencepost_store::tx::end_by_agent::AgentEndAnswer;
use fencepost_store::tx::lease_round::Cursor;
use fencepost_store::tx::record_progress::ProgressAnswer;
use fencepost_store::tx::write_events::JournalAnswer;
use fencepost_tests::Lease;
use fencepost_tests::claims::claim_of;
use fencepost_tests::world::good;

use super::{Death, Scene};

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
