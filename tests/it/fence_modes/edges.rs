//! What stands beside the table: offers that go back, jobs that are being cancelled, attempts that
//! are none.

use fencepost_domain::attempt::Phase;
use fencepost_domain::failure::FailureCode;
use fencepost_store::StoreError;
use fencepost_store::fence::FenceMode;
use fencepost_store::tx::Refusal;
use fencepost_store::tx::begin_verification::CommitAnswer;
use fencepost_store::tx::end_by_agent::AgentEndAnswer;
use fencepost_store::tx::record_progress::ProgressAnswer;
use fencepost_tests::World;

use super::journal_refusal;

#[tokio::test]
async fn an_offer_is_returned_only_by_its_own_lease_and_only_until_it_is_accepted() {
    let world = World::new().await;
    let (mac, other) = (world.device("mac").await, world.device("other").await);
    let accepted = world.in_phase(&mac, Phase::Leased).await;
    world.submit().await;
    let lease = world.lease(&mac).await;
    let before = world.db.rows().await;
    let mut wrong = [lease.claim(); 3];
    wrong[0].device = other.id;
    wrong[1].job = accepted.job;
    wrong[2].epoch += 1;
    for claim in [wrong[0], wrong[1], wrong[2], accepted.claim()] {
        let returned = world.store.return_offers(vec![claim]).await.unwrap();
        assert!(returned.is_empty(), "{returned:?}");
    }
    assert_eq!(world.db.rows().await, before);
    assert_eq!(
        world
            .store
            .return_offers(vec![lease.claim()])
            .await
            .unwrap()
            .len(),
        1
    );
    assert_eq!(world.statuses(&lease).await, "queued, lost");
}

#[tokio::test]
async fn nothing_is_written_down_of_a_job_that_is_being_cancelled_whichever_half_is_asked() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    let key = world.grant_artifact(&lease, "log").await;
    world.cancel(lease.job).await;
    let before = world.db.rows().await;
    for mode in [FenceMode::Both, FenceMode::OnlyPure, FenceMode::OnlyWhere] {
        let store = world.store.with_fence(mode);
        let event = store.write_events(vec![lease.event(0)]).await;
        let artifact = store
            .write_artifacts(vec![lease.artifact("log", &key)])
            .await;
        for answer in [event, artifact] {
            match (mode, answer) {
                (FenceMode::OnlyWhere, Err(StoreError::Inconsistency { .. })) => {}
                (FenceMode::Both | FenceMode::OnlyPure, Ok(answers)) => {
                    assert_eq!(journal_refusal(&answers[0]), Some(Refusal::JobNotActive));
                }
                (_, other) => panic!("{mode:?}: {other:?}"),
            }
        }
        let objects = store.grant_objects(lease.claim()).await;
        let artifact = store.grant_artifact(lease.claim(), "other").await;
        let parts = store.grant_parts(lease.claim(), 5).await;
        for answer in [
            objects.map(Result::err),
            artifact.map(Result::err),
            parts.map(Result::err),
        ] {
            match (mode, answer) {
                (FenceMode::OnlyWhere, Err(StoreError::Inconsistency { .. })) => {}
                (FenceMode::Both | FenceMode::OnlyPure, Ok(refusal)) => {
                    assert_eq!(refusal, Some(Refusal::JobNotActive));
                }
                (_, other) => panic!("{mode:?}: {other:?}"),
            }
        }
        assert_eq!(world.db.rows().await, before, "{mode:?}");
    }
}

#[tokio::test]
async fn an_attempt_that_does_not_exist_is_refused_everywhere() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let mut lease = world.in_phase(&mac, Phase::Uploading).await;
    lease.0.attempt = fencepost_domain::ids::AttemptId::new();
    let before = world.db.rows().await;
    let progress = world.progress(&lease, Phase::Uploading).await;
    assert_eq!(progress, ProgressAnswer::Refused(Refusal::UnknownAttempt));
    let commit = world.commit(&lease).await;
    assert!(
        matches!(commit, CommitAnswer::Refused(Refusal::UnknownAttempt)),
        "{commit:?}"
    );
    for end in [
        lease.fail(FailureCode::UploadFailed),
        lease.release(),
        lease.stopped(),
    ] {
        let refused = AgentEndAnswer::Refused(Refusal::UnknownAttempt);
        assert_eq!(world.end(end).await, refused);
    }
    assert_eq!(world.db.rows().await, before);
}
