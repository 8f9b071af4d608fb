//! A clock that is behind its mark: what compares an expiry waits, everything else goes on.

use std::time::Duration;

use fencepost_domain::artifact_key::attempt_artifact;
use fencepost_domain::attempt::{AttemptStatus, Phase};
use fencepost_domain::failure::FailureCode;
use fencepost_domain::fencing::FenceViolation;
use fencepost_domain::ids::AttemptId;
use fencepost_store::tx::Refusal;
use fencepost_store::tx::begin_session::SessionAnswer;
use fencepost_store::tx::begin_verification::CommitAnswer;
use fencepost_store::tx::end_by_agent::AgentEndAnswer;
use fencepost_store::tx::lease_round::Cursor;
use fencepost_store::tx::place_output::Placed;
use fencepost_store::tx::record_progress::{Progress, ProgressAnswer};
use fencepost_store::tx::settle_commit::Settled;
use fencepost_store::tx::write_events::{JournalAnswer, JournalRefusal};
use fencepost_store::{FinalizedAttempt, Store, StoreSettings};
use fencepost_tests::world::{OFFER, SERVICES, TTL, foreign_token, good};
use fencepost_tests::{Blocker, Lease, World};

/// What a standby may lag.
const LAG: Duration = Duration::from_secs(70);

mod authority;
mod holders;

/// What an agent does with its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Accept,
    Renew,
    Grant,
    Event,
    Artifact,
    Place,
    Commit,
    LosingCommit,
    Fail,
    Release,
}

const ACTS: [Act; 10] = [
    Act::Accept,
    Act::Renew,
    Act::Grant,
    Act::Event,
    Act::Artifact,
    Act::Place,
    Act::Commit,
    Act::LosingCommit,
    Act::Fail,
    Act::Release,
];

/// How long the clock is to be waited for; `None` if it was done.
async fn act(store: &Store, lease: &Lease, act: Act) -> Option<Duration> {
    let refusal = match act {
        Act::Accept | Act::Renew => {
            let mut progress = lease.progress(Phase::Uploading);
            progress.phase = progress.phase.filter(|_| act == Act::Renew);
            match store
                .record_progress(vec![progress])
                .await
                .expect("it has an answer")
                .remove(0)
            {
                ProgressAnswer::Refused(refusal) => Some(refusal),
                ProgressAnswer::Renewed(_) => None,
                other => panic!("{other:?}"),
            }
        }
        Act::Grant => store
            .grant_objects(lease.claim())
            .await
            .expect("it has an answer")
            .err(),
        Act::Event => {
            let answers = store.write_events(vec![lease.event(0)]).await;
            written(answers.expect("it has an answer").remove(0))
        }
        Act::Artifact => {
            let key = attempt_artifact(lease.job, lease.attempt, lease.epoch, "log");
            let artifact = lease.artifact("log", &key);
            let answers = store.write_artifacts(vec![artifact]).await;
            written(answers.expect("it has an answer").remove(0))
        }
        Act::Place => return place(store, lease.attempt).await,
        Act::Commit | Act::LosingCommit => {
            let answers = store.begin_verification(vec![lease.commit()]).await;
            match answers.expect("it has an answer").remove(0) {
                CommitAnswer::Refused(refusal) => Some(refusal),
                CommitAnswer::Verify(_)
                | CommitAnswer::Final {
                    replayed: false, ..
                } => None,
                other => panic!("{other:?}"),
            }
        }
        Act::Fail | Act::Release => {
            let end = match act {
                Act::Fail => lease.fail(FailureCode::UploadFailed),
                _ => lease.release(),
            };
            match store
                .end_by_agent(vec![end])
                .await
                .expect("it has an answer")
                .remove(0)
            {
                AgentEndAnswer::Refused(refusal) => Some(refusal),
                AgentEndAnswer::Final {
                    replayed: false, ..
                } => None,
                other => panic!("{other:?}"),
            }
        }
    };
    refusal.map(|refusal| match refusal {
        Refusal::Fence(FenceViolation::ClockRegressed { by }) => by,
        other => panic!("{act:?} was refused for another reason: {other}"),
    })
}

fn written(answer: JournalAnswer) -> Option<Refusal> {
    match answer {
        JournalAnswer::Stored {
            replayed: false, ..
        } => None,
        JournalAnswer::Refused(JournalRefusal::Lease(refusal)) => Some(refusal),
        other => panic!("{other:?}"),
    }
}

async fn place(store: &Store, attempt: AttemptId) -> Option<Duration> {
    let placed = store.place_attempt_output(attempt, Box::new(|| Ok(())));
    match placed.await.expect("it has an answer") {
        Placed::Done => None,
        Placed::ClockRegressed(by) => Some(by),
        other => panic!("{other:?}"),
    }
}
