//! The fence, fact by fact: whoever differs from the holder of a lease in one thing is refused, and
//! writes nothing. So it is with both halves of the fence, with the pure check alone and with the
//! `WHERE` alone, which refuses as an inconsistency because it should never be asked.

mod edges;

use std::time::Duration;

use fencepost_domain::attempt::{AttemptStatus, Phase};
use fencepost_domain::failure::FailureCode;
use fencepost_domain::fencing::FenceViolation;
use fencepost_store::fence::FenceMode;
use fencepost_store::tx::Refusal;
use fencepost_store::tx::begin_verification::CommitAnswer;
use fencepost_store::tx::end_by_agent::AgentEndAnswer;
use fencepost_store::tx::record_progress::ProgressAnswer;
use fencepost_store::tx::write_events::{JournalAnswer, JournalRefusal};
use fencepost_store::{Store, StoreError};
use fencepost_tests::world::{TTL, foreign_token};
use fencepost_tests::{Device, Lease, World};

/// What is asked with a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Progress,
    /// Fresh links to the attempt's objects.
    Grant,
    Event,
    Artifact,
    Commit,
    /// A commit of a job that its buyer has cancelled, which ends the attempt.
    LosingCommit,
    Fail,
    Release,
    /// Without token and whatever the time, but only of a job that is being cancelled.
    Stopped,
}

/// The one fact that is not as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Device,
    Job,
    EpochAbove,
    EpochBelow,
    EpochZero,
    InventedToken,
    PreviousToken,
    NeighboursToken,
    Expired,
    Status,
}

const OPERATIONS: [Operation; 9] = [
    Operation::Progress,
    Operation::Grant,
    Operation::Event,
    Operation::Artifact,
    Operation::Commit,
    Operation::LosingCommit,
    Operation::Fail,
    Operation::Release,
    Operation::Stopped,
];

const WRONGS: [Wrong; 10] = [
    Wrong::Device,
    Wrong::Job,
    Wrong::EpochAbove,
    Wrong::EpochBelow,
    Wrong::EpochZero,
    Wrong::InventedToken,
    Wrong::PreviousToken,
    Wrong::NeighboursToken,
    Wrong::Expired,
    Wrong::Status,
];

impl Operation {
    fn minds(self, wrong: Wrong) -> bool {
        match wrong {
            Wrong::Device
            | Wrong::Job
            | Wrong::EpochAbove
            | Wrong::EpochBelow
            | Wrong::EpochZero => true,
            Wrong::InventedToken | Wrong::PreviousToken | Wrong::NeighboursToken => {
                !matches!(self, Self::Progress | Self::Grant | Self::Stopped)
            }
            Wrong::Expired => self != Self::Stopped,
            Wrong::Status => !matches!(self, Self::Stopped | Self::LosingCommit),
        }
    }

    fn needs_cancelling(self) -> bool {
        matches!(self, Self::LosingCommit | Self::Stopped)
    }
}

#[tokio::test]
async fn with_both_halves_of_the_fence_every_wrong_fact_is_refused() {
    every_cell(FenceMode::Both).await;
}

#[tokio::test]
async fn the_pure_check_alone_refuses_every_wrong_fact() {
    every_cell(FenceMode::OnlyPure).await;
}

#[tokio::test]
async fn the_where_alone_refuses_every_wrong_fact_as_an_inconsistency() {
    every_cell(FenceMode::OnlyWhere).await;
}

async fn every_cell(mode: FenceMode) {
    let world = World::new().await;
    let scene = Scene {
        mac: world
            .device_with("mac", 64, &["transcode.v1", "encode.h264"])
            .await,
        other: world.device_with("other", 64, &["nothing"]).await,
        store: world.store.with_fence(mode),
        world,
    };
    for operation in OPERATIONS {
        for wrong in WRONGS.into_iter().filter(|&wrong| operation.minds(wrong)) {
            scene.try_cell(mode, operation, wrong).await;
        }
    }
}

struct Scene {
    world: World,
    mac: Device,
    other: Device,
    store: Store,
}

/// A lease under epoch 2, the lost one before it, and another job's beside it.
struct Leases {
    target: Lease,
    previous: Lease,
    neighbour: Lease,
}

impl Scene {
    async fn try_cell(&self, mode: FenceMode, operation: Operation, wrong: Wrong) {
        let cell = format!("{operation:?} with wrong {wrong:?}, {mode:?}");
        let leases = self.leases(operation, wrong).await;
        let presented = self.present(&leases, wrong);
        let end = self.world.clock.now().await + TTL;
        match wrong {
            Wrong::Expired => self.world.clock.set(end).await,
            Wrong::Status if operation != Operation::Commit => {
                self.world.expire(&leases.target).await;
            }
            _ => {}
        }
        let before = self.world.db.rows().await;
        let answer = self.ask(&presented, operation).await;
        match (mode, answer) {
            (FenceMode::OnlyWhere, Err(StoreError::Inconsistency { .. })) => {}
            (FenceMode::Both | FenceMode::OnlyPure, Ok(Some(Refusal::Fence(violation)))) => {
                assert!(
                    is_right(violation, wrong),
                    "{cell}: refused as {violation:?}"
                );
            }
            (_, other) => panic!("{cell}: {other:?}"),
        }
        assert_eq!(
            self.world.db.rows().await,
            before,
            "{cell}: it wrote something"
        );
        self.accept_when_right(&leases.target, operation, wrong, &cell)
            .await;
        self.clear(&leases).await;
    }

    async fn leases(&self, operation: Operation, wrong: Wrong) -> Leases {
        let world = &self.world;
        let more = |job: &mut fencepost_store::tx::submit_job::NewJob| job.max_attempts = 10;
        let previous = world.in_phase_with(&self.mac, Phase::Running, more).await;
        world.end(previous.fail(FailureCode::DeviceFault)).await;
        world.clock.advance(Duration::from_secs(5)).await;
        world.sweep().await;
        let target = world.lease(&self.mac).await;
        assert_eq!((target.job, target.epoch), (previous.job, 2));
        let too_early = wrong == Wrong::Status && operation == Operation::Commit;
        let phase = if too_early {
            Phase::Running
        } else {
            Phase::Uploading
        };
        world.progress(&target, phase).await;
        let neighbour = world.in_phase(&self.mac, Phase::Uploading).await;
        if operation.needs_cancelling() {
            world.cancel(target.job).await;
        }
        if operation == Operation::Artifact {
            world.grant_artifact(&target, "log").await;
        }
        Leases {
            target,
            previous,
            neighbour,
        }
    }

    fn present(&self, leases: &Leases, wrong: Wrong) -> Lease {
        let mut lease = leases.target.clone();
        match wrong {
            Wrong::Device => lease.0.device = self.other.id,
            Wrong::Job => lease.0.job = leases.neighbour.job,
            Wrong::EpochAbove => lease.0.epoch += 1,
            Wrong::EpochBelow => lease.0.epoch -= 1,
            Wrong::EpochZero => lease.0.epoch = 0,
            Wrong::InventedToken => lease.0.token = foreign_token(),
            Wrong::PreviousToken => lease.0.token = leases.previous.token.clone(),
            Wrong::NeighboursToken => lease.0.token = leases.neighbour.token.clone(),
            Wrong::Expired | Wrong::Status => {}
        }
        lease
    }

    /// `Ok(None)` if it was done.
    async fn ask(
        &self,
        lease: &Lease,
        operation: Operation,
    ) -> Result<Option<Refusal>, StoreError> {
        match operation {
            Operation::Progress => {
                let progress = vec![lease.progress(Phase::Uploading)];
                let answer = self.store.record_progress(progress).await?.remove(0);
                Ok(match answer {
                    ProgressAnswer::Refused(refusal) => Some(refusal),
                    ProgressAnswer::Renewed(_) => None,
                    other => panic!("{other:?}"),
                })
            }
            Operation::Grant => {
                let granted = self.store.grant_objects(lease.claim()).await?;
                Ok(granted.err())
            }
            Operation::Event => {
                let answer = self.store.write_events(vec![lease.event(0)]).await?;
                Ok(journal_refusal(&answer[0]))
            }
            Operation::Artifact => {
                // Whoever presents what, its object is one that was granted (to the newest job).
                let newest = "select object_key from attempt_grants order by 1 desc limit 1";
                let key = self.world.db.text(newest).await;
                let artifact = lease.artifact("log", &key);
                let answer = self.store.write_artifacts(vec![artifact]).await?;
                Ok(journal_refusal(&answer[0]))
            }
            Operation::Commit | Operation::LosingCommit => {
                let answer = self
                    .store
                    .begin_verification(vec![lease.commit()])
                    .await?
                    .remove(0);
                Ok(match answer {
                    CommitAnswer::Refused(refusal) => Some(refusal),
                    CommitAnswer::Verify(_) if operation == Operation::Commit => None,
                    CommitAnswer::Final {
                        replayed: false, ..
                    } => None,
                    other => panic!("{other:?}"),
                })
            }
            Operation::Fail => self.end(lease.fail(FailureCode::UploadFailed)).await,
            Operation::Release => self.end(lease.release()).await,
            Operation::Stopped => self.end(lease.stopped()).await,
        }
    }

    async fn end(
        &self,
        end: fencepost_store::tx::end_by_agent::AgentEnd,
    ) -> Result<Option<Refusal>, StoreError> {
        Ok(match self.store.end_by_agent(vec![end]).await?.remove(0) {
            AgentEndAnswer::Refused(refusal) => Some(refusal),
            AgentEndAnswer::Final {
                replayed: false, ..
            } => None,
            other => panic!("{other:?}"),
        })
    }

    /// The same with that one fact put right is done: nothing else was in the way.
    async fn accept_when_right(
        &self,
        target: &Lease,
        operation: Operation,
        wrong: Wrong,
        cell: &str,
    ) {
        match wrong {
            Wrong::Status if operation != Operation::Commit => return,
            Wrong::Status => drop(self.world.progress(target, Phase::Uploading).await),
            Wrong::Expired => {
                let now = self.world.clock.now().await;
                self.world.clock.set(now - Duration::from_micros(1)).await;
            }
            _ => {}
        }
        let answer = self.ask(target, operation).await;
        assert!(matches!(answer, Ok(None)), "{cell}, put right: {answer:?}");
    }

    async fn clear(&self, leases: &Leases) {
        for lease in [&leases.target, &leases.neighbour] {
            self.world.cancel(lease.job).await;
            self.world.end(lease.stopped()).await;
        }
        let left = "select id from attempts where ended_at is null";
        for attempt in self.world.db.texts(left).await {
            // Only a commit that was accepted is left: its cancel waits for the verdict.
            let ticket = fencepost_store::tx::settle_commit::Settle {
                attempt: attempt.parse().expect("it is an id"),
                verification_epoch: 1,
                copy_key: "copy".to_owned(),
                verdict: fencepost_tests::world::good(1.0),
            };
            self.world
                .store
                .settle_commit(vec![ticket])
                .await
                .expect("settling runs");
        }
    }
}

fn journal_refusal(answer: &JournalAnswer) -> Option<Refusal> {
    match answer {
        JournalAnswer::Stored {
            replayed: false, ..
        } => None,
        JournalAnswer::Refused(JournalRefusal::Lease(refusal)) => Some(*refusal),
        other => panic!("{other:?}"),
    }
}

fn is_right(violation: FenceViolation, wrong: Wrong) -> bool {
    match wrong {
        Wrong::Device => violation == FenceViolation::ForeignDevice,
        Wrong::Job => violation == FenceViolation::WrongJob,
        Wrong::EpochAbove | Wrong::EpochBelow | Wrong::EpochZero => {
            violation == FenceViolation::StaleEpoch
        }
        Wrong::InventedToken | Wrong::PreviousToken | Wrong::NeighboursToken => {
            violation == FenceViolation::WrongToken
        }
        Wrong::Expired => violation == FenceViolation::Expired,
        Wrong::Status => {
            let early = AttemptStatus::Running;
            let over = AttemptStatus::Lost;
            violation == FenceViolation::WrongStatus { status: early }
                || violation == FenceViolation::WrongStatus { status: over }
        }
    }
}
