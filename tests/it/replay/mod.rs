//! Events and artifacts: whoever wrote a row is answered from it for ever; nobody else learns
//! anything about it without holding the lease.

use fencepost_domain::attempt::Phase;
use fencepost_domain::failure::FailureCode;
use fencepost_domain::ids::EventId;
use fencepost_domain::journal::{MAX_ARTIFACTS, MAX_EVENTS, MAX_PAYLOAD_BYTES};
use fencepost_store::tx::Refusal;
use fencepost_store::tx::begin_session::SessionAnswer;
use fencepost_store::tx::begin_verification::CommitAnswer;
use fencepost_store::tx::write_artifacts::NewArtifact;
use fencepost_store::tx::write_events::{JournalAnswer, JournalRefusal, NewEvent};
use fencepost_tests::world::{TTL, foreign_token};
use fencepost_tests::{Device, Lease, World};
use serde_json::json;

mod journal;
mod writers;

/// What is written: an event or an artifact, with the same rules.
#[derive(Debug, Clone)]
enum Item {
    Event(NewEvent),
    Artifact(NewArtifact),
}

impl Item {
    async fn both(world: &World, lease: &Lease) -> [Self; 2] {
        let key = world.grant_artifact(lease, "encoder.log").await;
        [
            Self::Event(lease.event(0)),
            Self::Artifact(lease.artifact("encoder.log", &key)),
        ]
    }

    async fn write(&self, world: &World) -> JournalAnswer {
        match self {
            Self::Event(event) => world.event(event).await,
            Self::Artifact(artifact) => world.artifact(artifact).await,
        }
    }

    /// The same thing, presented with another lease.
    fn with(&self, lease: &Lease) -> Self {
        let mut item = self.clone();
        match &mut item {
            Self::Event(event) => {
                (event.claim, event.token) = (lease.claim(), lease.digest());
            }
            Self::Artifact(artifact) => {
                (artifact.claim, artifact.token) = (lease.claim(), lease.digest());
            }
        }
        item
    }

    /// The same name for something else.
    fn others(&self) -> Vec<Self> {
        match self {
            Self::Event(event) => {
                let mut changed = vec![event.clone(); 3];
                "another".clone_into(&mut changed[0].kind);
                changed[1].seq = 77;
                changed[2].payload = json!({"code": 2});
                changed.into_iter().map(Self::Event).collect()
            }
            Self::Artifact(artifact) => {
                let mut changed = vec![artifact.clone(); 3];
                changed[0].sha256 = [4; 32];
                changed[1].size_bytes += 1;
                changed[2].object_key.push('x');
                changed.into_iter().map(Self::Artifact).collect()
            }
        }
    }

    /// The same for something that was never written.
    fn renamed(&self) -> Self {
        let mut item = self.clone();
        match &mut item {
            Self::Event(event) => (event.event_id, event.seq) = (EventId::new(), 500),
            Self::Artifact(artifact) => "another.log".clone_into(&mut artifact.name),
        }
        item
    }
}

fn is_written(answer: &JournalAnswer) -> bool {
    matches!(
        answer,
        JournalAnswer::Stored {
            replayed: false,
            lease_live: true,
            ..
        }
    )
}

/// Whether the answer is the stored row; says also whether the lease is live.
fn replayed(answer: &JournalAnswer) -> Option<bool> {
    match answer {
        JournalAnswer::Stored {
            replayed: true,
            lease_live,
            ..
        } => Some(*lease_live),
        _ => None,
    }
}

fn is_lease_conflict(answer: &JournalAnswer) -> bool {
    matches!(answer, JournalAnswer::Refused(JournalRefusal::Lease(_)))
}

fn is_content_conflict(answer: &JournalAnswer) -> bool {
    matches!(answer, JournalAnswer::Refused(JournalRefusal::Content))
}

/// An attempt that its device lost by expiry, and the one that another device has instead.
async fn replaced(world: &World, mac: &Device, lost: &Lease) -> Lease {
    let other = world.device("other").await;
    world.expire(lost).await;
    let lease = world.lease(&other).await;
    assert_eq!(lease.job, lost.job);
    assert_ne!(lease.device, mac.id);
    world.progress(&lease, Phase::Running).await;
    lease
}

/// The lease of the same attempt after a reconnect: a new epoch and a new secret.
async fn resumed(world: &World, mac: &mut Device, lease: &Lease) -> Lease {
    let answer = world.reconnect(mac, vec![lease.held()]).await;
    let SessionAnswer::Current { resumed, .. } = answer else {
        panic!("{answer:?}");
    };
    let mut lease = lease.clone();
    (lease.0.epoch, lease.0.token) = (resumed[0].epoch, resumed[0].token.clone());
    lease
}
