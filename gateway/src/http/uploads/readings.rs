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
/// How many failures are kept for who asks again; who does not is not waited for.
const KEPT: usize = 1_000;

/// What came of a reading.
pub(super) type Read = Result<Stored, Problem>;

/// What will come of a reading.
type Outcome = watch::Receiver<Option<Read>>;

/// The readings of this gateway.
pub struct Readings {
    running: Mutex<HashMap<UploadId, Outcome>>,
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
    /// goes on then, and what came of it is told to the next one who asks: a file that is read for
    /// longer than anybody waits would else be refused to nobody, and read again and again.
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
    ) -> Outcome {
        // A poisoned lock still holds whole entries.
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let is_done = |outcome: &Outcome| outcome.borrow().is_some();
        match running.get(&upload).cloned() {
            Some(outcome) if is_done(&outcome) => {
                running.remove(&upload);
                return outcome;
            }
            Some(outcome) if outcome.has_changed().is_ok() => return outcome,
            // One whose task is gone, with the thread that it ran on, is begun anew.
            Some(_) | None => {}
        }
        if running.len() >= KEPT {
            running.retain(|_, outcome| !is_done(outcome));
        }
        let (done, outcome) = watch::channel(None);
        running.insert(upload, outcome.clone());
        let all = Arc::clone(self);
        actix_web::rt::spawn(async move {
            let read = match all.permits.acquire().await {
                Ok(_permit) => reading.await,
                Err(error) => Err(Problem::internal(&error)),
            };
            let failed = read.is_err();
            let mut running = all.running.lock().unwrap_or_else(PoisonError::into_inner);
            done.send_replace(Some(read));
            // What is there is written down. The map itself is one of those who listen.
            if !failed || done.receiver_count() > 1 {
                running.remove(&upload);
            }
        });
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(20);

    fn refused() -> Read {
        Err(Problem::new(ProblemCode::UploadMismatch, "other bytes"))
    }

    fn code(read: Option<Read>) -> Option<ProblemCode> {
        read?.err().map(|problem| problem.code)
    }

    async fn never() -> Read {
        std::future::pending().await
    }

    #[actix_web::test]
    async fn a_refusal_that_nobody_waited_for_is_told_to_the_next_one_who_asks_and_once() {
        let readings = Arc::new(Readings::default());
        let upload = UploadId::new();
        let slow = async {
            tokio::time::sleep(SHORT * 4).await;
            refused()
        };
        assert_eq!(code(readings.join(upload, SHORT, slow).await), None);
        tokio::time::sleep(SHORT * 8).await;
        let told = readings.join(upload, LONG, never()).await;
        assert_eq!(code(told), Some(ProblemCode::UploadMismatch));
        // From now on it is read again: something else may have been sent.
        let again = async {
            Ok(Stored {
                size_bytes: 1,
                sha256: [1; 32],
            })
        };
        assert!(readings.join(upload, LONG, again).await.unwrap().is_ok());
    }

    #[actix_web::test]
    async fn those_who_wait_for_one_reading_all_hear_of_it_and_nothing_is_kept() {
        let readings = Arc::new(Readings::default());
        let upload = UploadId::new();
        let slow = async {
            tokio::time::sleep(SHORT).await;
            refused()
        };
        let (one, two) = tokio::join!(
            readings.join(upload, LONG, slow),
            readings.join(upload, LONG, never()),
        );
        assert_eq!(code(one), Some(ProblemCode::UploadMismatch));
        assert_eq!(code(two), Some(ProblemCode::UploadMismatch));
        assert!(readings.running.lock().unwrap().is_empty());
    }
}
