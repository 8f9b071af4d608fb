//! What is made of a file that came, or did not: whether it is the right one, and whose trouble it is if not.

use fencepost_egress::{Failed, Refused};

use super::super::{StepError, TryError};
use super::Fetch;
use super::answer;
use super::partial::Partial;

/// What may pass, or another device may reach.
pub(super) const CODE: &str = "download_failed";
/// What the buyer has to mend.
const INVALID: &str = "input_invalid";

impl Fetch<'_> {
    /// Whether all of it is there, and the right thing.
    pub(super) fn judge_whole(
        &self,
        mut partial: Partial,
        body: Result<(), TryError>,
    ) -> (Partial, Result<(), TryError>) {
        let size = partial.size();
        let judged = match (body, self.grant.size_bytes) {
            (Err(error), _) => Err(error),
            // A connection that ends early looks like this where no length was announced.
            (Ok(()), Some(promised)) if size < promised => {
                partial.forget_tag();
                let message = self.other_size(size, promised);
                Err(TryError::Again(self.says(&message)))
            }
            (Ok(()), _) if partial.has(self.grant.sha256.as_deref()) => Ok(()),
            // Parts of two versions, perhaps.
            (Ok(()), _) if partial.was_resumed() => {
                partial.forget_tag();
                Err(TryError::Again(
                    self.says("it changed while it was fetched"),
                ))
            }
            (Ok(()), _) => {
                let order = self.what.promised_by();
                let message = format!("it has another SHA-256 than {order} says");
                Err(TryError::Final(self.invalid(&message)))
            }
        };
        (partial, judged)
    }

    /// The most bytes that are taken here.
    pub(super) fn most(&self) -> u64 {
        // There is room for what was promised: the offer was taken with that in mind.
        let room = self.grant.size_bytes.or(self.room);
        self.allowed().min(room.unwrap_or(u64::MAX))
    }

    /// The most bytes that any device takes.
    fn allowed(&self) -> u64 {
        self.grant.max_bytes.unwrap_or(0)
    }

    pub(super) fn check_size(&self, total: Option<u64>) -> Result<(), StepError> {
        let Some(total) = total else {
            return Ok(());
        };
        match self.grant.size_bytes {
            Some(promised) if promised != total => {
                Err(self.invalid(&self.other_size(total, promised)))
            }
            _ if total > self.most() => Err(self.too_large(total)),
            _ => Ok(()),
        }
    }

    /// What it means that it has at least so many bytes, which is more than [`Self::most`].
    pub(super) fn too_large(&self, size: u64) -> StepError {
        let allowed = self.allowed();
        match self.grant.size_bytes {
            // Also on a device that has no room for it: no other one would take it either.
            _ if size > allowed => self.invalid(&format!(
                "it has more than {allowed} bytes, {}",
                self.what.limit()
            )),
            Some(promised) => self.invalid(&format!("it has more than {promised} bytes")),
            None => self.no_room(),
        }
    }

    fn other_size(&self, size: u64, promised: u64) -> String {
        let order = self.what.promised_by();
        format!("it has {size} bytes, and {order} says {promised}")
    }

    fn no_room(&self) -> StepError {
        self.failed(
            "there is too little room for it on this device; say size_bytes in the order, and it goes to \
             one that has room",
        )
    }

    pub(super) fn guarded(&self, refused: Refused) -> TryError {
        let message = format!("its address {refused}");
        match refused {
            // It may be this device that cannot find it.
            Refused::Unknown => TryError::Again(self.says(&message)),
            Refused::Form | Refused::Credentials => TryError::Final(self.invalid(&message)),
            // That hangs on what this device's resolver makes of the name (some answer 0.0.0.0 for what they
            // block) and on what its owner allows: another one may do.
            Refused::InClear | Refused::NotPublic => {
                TryError::Final(self.failed(&format!("as this device sees it, {message}")))
            }
        }
    }

    pub(super) fn broken(&self, error: reqwest::Error) -> TryError {
        match Failed::from(error) {
            Failed::Refused(refused) => self.guarded(refused),
            failed => TryError::Again(self.says(&failed.to_string())),
        }
    }

    pub(super) fn refused(&self, answer: answer::Refused) -> TryError {
        match answer {
            answer::Refused::Final(what) => TryError::Final(self.invalid(&what)),
            answer::Refused::Again(None, what) | answer::Refused::StartOver(what) => {
                TryError::Again(self.says(&what))
            }
            answer::Refused::Again(Some(wait), what) => TryError::Later(wait, self.says(&what)),
        }
    }

    pub(super) fn cannot_keep(&self, error: &std::io::Error) -> StepError {
        let is_full = matches!(
            error.kind(),
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded
        );
        if is_full && self.grant.size_bytes.is_none() {
            // Nobody said how large it is: that is not the device's fault.
            return self.no_room();
        }
        StepError::device("the input cannot be kept", error)
    }

    fn invalid(&self, what: &str) -> StepError {
        StepError::failed(INVALID, self.says(what))
    }

    pub(super) fn failed(&self, what: &str) -> StepError {
        StepError::failed(CODE, self.says(what))
    }

    pub(super) fn says(&self, problem: &str) -> String {
        self.what.says(&self.grant.name, problem)
    }
}
