//! Progress of all sessions, written many at a time.

use std::future::Future;

use fencepost_domain::ids::AttemptId;
use fencepost_store::tx::record_progress::{Progress, ProgressAnswer};
use fencepost_store::{Store, StoreError};

use crate::batch::BatchCall;

/// `record_progress` as a batch.
pub struct ProgressCall(pub Store);

impl BatchCall for ProgressCall {
    type Request = Progress;
    type Answer = ProgressAnswer;
    fn subject(request: &Progress) -> AttemptId {
        request.claim.attempt
    }
    fn call(
        &self,
        requests: Vec<Progress>,
    ) -> impl Future<Output = Result<Vec<ProgressAnswer>, StoreError>> + Send {
        self.0.record_progress(requests)
    }
}
