//! Progress of all sessions, written many at a time.

use fencepost_store::tx::record_progress::{Progress, ProgressAnswer};

use crate::batch::batch_call;

batch_call! {
    /// `record_progress` as a batch.
    ProgressCall = record_progress(Progress) -> ProgressAnswer, about |one| one.claim.attempt
}
