//! What all sessions record, written many at a time.

use fencepost_store::tx::hand_off::{HandOff, HandOffAnswer};
use fencepost_store::tx::reap_workspaces::Reap;
use fencepost_store::tx::record_progress::{Progress, ProgressAnswer};
use fencepost_store::tx::write_artifacts::NewArtifact;
use fencepost_store::tx::write_events::{JournalAnswer, NewEvent};

use crate::batch::{Batcher, batch_call};

batch_call! {
    /// `record_progress` as a batch.
    ProgressCall = record_progress(Progress) -> ProgressAnswer, about |one| one.claim.attempt
}

batch_call! {
    /// `write_events` as a batch.
    EventCall = write_events(NewEvent) -> JournalAnswer, about |one| one.claim.attempt
}

batch_call! {
    /// `write_artifacts` as a batch.
    ArtifactCall = write_artifacts(NewArtifact) -> JournalAnswer, about |one| one.claim.attempt
}

batch_call! {
    /// `hand_off` as a batch.
    HandOffCall = hand_off(HandOff) -> HandOffAnswer, about |one| one.claim.attempt
}

batch_call! {
    /// `reaped` as a batch.
    ReapedCall = reaped(Reap) -> bool
}

/// The ways into these batches. Cheap to clone.
#[derive(Clone)]
pub struct Records {
    /// Records progress.
    pub progress: Batcher<ProgressCall>,
    /// Writes journal events.
    pub events: Batcher<EventCall>,
    /// Names artifacts.
    pub artifacts: Batcher<ArtifactCall>,
    /// Records what ended attempts left behind.
    pub hand_offs: Batcher<HandOffCall>,
    /// Records that it is gone.
    pub reaped: Batcher<ReapedCall>,
}
