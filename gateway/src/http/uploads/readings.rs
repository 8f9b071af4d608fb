//! Files in the bucket that are being read, each once at a time, whoever asks and goes away.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fencepost_domain::ids::UploadId;
use fencepost_store::artifacts::Stored;
use tokio::sync::{Semaphore, watch};

use crate::http::problem::{Problem, ProblemCode};

/// How many are read at once.
const AT_ONCE: usize = 4;

/// What came of a reading.
pub(super) type Read = Result<Stored, Problem>;

/// The readings of this gateway.
pub struct Readings {
    running: Mutex<HashMap<UploadId, watch::Receiver<Option<Read>>>>,
    permits: Arc<Semaphore>,
}

impl Default for Readings {
    fn default() -> Self {
        Self {
            running: Mutex::default(),
            permits: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }
}

impl Readings {
    /// Joins the reading of this upload, or begins it. `None` if it takes longer than `patience`; it
    /// goes on then.
    pub(super) async fn join(
        self: &Arc<Self>,
        upload: UploadId,
        patience: Duration,
        reading: impl Future<Output = Read> + 'static,
    ) -> Option<Read> {
        let mut outcome = self.begin(upload, reading);
        let done = tokio::time::timeout(patience, outcome.wait_for(Option::is_some)).await;
        match done {
            Ok(Ok(read)) => read.clone(),
            Ok(Err(_)) => {
                let detail = "the reading was cut off; ask again";
                Some(Err(Problem::new(ProblemCode::Unavailable, detail)))
            }
            Err(_) => None,
        }
    }

    fn begin(
        self: &Arc<Self>,
        upload: UploadId,
        reading: impl Future<Output = Read> + 'static,
    ) -> watch::Receiver<Option<Read>> {
        // A poisoned lock still holds whole entries.
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        // One whose task is gone, with the thread that it ran on, is begun anew.
        if let Some(outcome) = running.get(&upload)
            && outcome.has_changed().is_ok()
        {
            return outcome.clone();
        }
        let (done, outcome) = watch::channel(None);
        running.insert(upload, outcome.clone());
        let all = Arc::clone(self);
        actix_web::rt::spawn(async move {
            let read = match all.permits.acquire().await {
                Ok(_permit) => reading.await,
                Err(error) => Err(Problem::internal(&error)),
            };
            done.send_replace(Some(read));
            let mut running = all.running.lock().unwrap_or_else(PoisonError::into_inner);
            running.remove(&upload);
        });
        outcome
    }
}
