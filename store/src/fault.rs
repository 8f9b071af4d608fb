//! Named points in every transaction at which a test may stop or kill us. Compiled for tests only.
//!
//! Each transaction passes `NAME:begun`, `NAME:locked` (where it locks pairs), `NAME:written` (before
//! COMMIT) and `NAME:committed` (COMMIT returned, nobody knows it yet). In a test's own process a
//! point is armed with [`Faults::pause_at`]; in a child process by the environment:
//! `FENCEPOST_TEST_FAULT=settle_commit:written=abort` ends the process there without a word, and
//! `…=pause:/some/file` waits there while the file exists (`/some/file.reached` says that it waits).
//! [`Faults::cut_commit`] loses the answer to a COMMIT, as when the connection breaks.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What is armed in a store.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    armed: Arc<Mutex<HashMap<String, Fault>>>,
}

/// What became of a COMMIT whose answer is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Postgres never heard of it, and rolled back.
    Before,
    /// It happened.
    After,
}

#[derive(Debug)]
enum Fault {
    Cut(Cut),
    Abort,
    WhileFileExists(PathBuf),
    Once {
        reached: oneshot::Sender<()>,
        resume: oneshot::Receiver<()>,
    },
}

/// A transaction that will wait at a point, once.
#[derive(Debug)]
pub struct Pause {
    reached: oneshot::Receiver<()>,
    resume: oneshot::Sender<()>,
}

impl Pause {
    /// Waits until a transaction stands at the point.
    pub async fn reached(&mut self) {
        // An error means that the fault was replaced, which the test notices by what follows.
        let _ = (&mut self.reached).await;
    }

    /// Lets it go on.
    pub fn resume(self) {
        // Its transaction may have been dropped.
        let _ = self.resume.send(());
    }
}

impl Faults {
    /// What the environment asks for.
    pub(crate) fn from_environment() -> Self {
        let faults = Self::default();
        let Ok(text) = std::env::var("FENCEPOST_TEST_FAULT") else {
            return faults;
        };
        for one in text.split(',') {
            let Some((point, action)) = one.split_once('=') else {
                continue;
            };
            let fault = match action.split_once(':') {
                None => Fault::Abort,
                Some((_, file)) => Fault::WhileFileExists(PathBuf::from(file)),
            };
            faults.arm(point, fault);
        }
        faults
    }

    /// Makes the next transaction that comes to `point` wait there.
    pub fn pause_at(&self, point: &str) -> Pause {
        let (tell_reached, reached) = oneshot::channel();
        let (resume, wait_resume) = oneshot::channel();
        self.arm(
            point,
            Fault::Once {
                reached: tell_reached,
                resume: wait_resume,
            },
        );
        Pause { reached, resume }
    }

    /// Loses the answer to the next COMMIT of `transaction`.
    pub fn cut_commit(&self, transaction: &str, cut: Cut) {
        self.arm(&commit_of(transaction), Fault::Cut(cut));
    }

    /// Disarms [`Faults::cut_commit`]; false if the answer was lost already.
    pub fn spare_commit(&self, transaction: &str) -> bool {
        self.take_cut(transaction).is_some()
    }

    pub(crate) fn take_cut(&self, transaction: &str) -> Option<Cut> {
        let mut armed = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
        match armed.remove(&commit_of(transaction)) {
            Some(Fault::Cut(cut)) => Some(cut),
            Some(_) | None => None,
        }
    }

    fn arm(&self, point: &str, fault: Fault) {
        let mut armed = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
        armed.insert(point.to_owned(), fault);
    }

    /// A transaction comes to a point.
    pub(crate) async fn pass(&self, transaction: &str, point: &str) {
        let fault = {
            let mut armed = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
            armed.remove(&format!("{transaction}:{point}"))
        };
        match fault {
            None | Some(Fault::Cut(_)) => {}
            Some(Fault::Abort) => std::process::abort(),
            Some(Fault::WhileFileExists(file)) => wait_while(&file).await,
            Some(Fault::Once { reached, resume }) => {
                // The test may not care whether it was reached, and may drop the handle to resume.
                let _ = reached.send(());
                let _ = resume.await;
            }
        }
    }
}

fn commit_of(transaction: &str) -> String {
    format!("{transaction}:commit")
}

async fn wait_while(file: &Path) {
    let mark = file.with_extension("reached");
    if let Err(error) = std::fs::write(&mark, b"") {
        tracing::error!(%error, "a test's mark could not be written");
    }
    while file.exists() {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
