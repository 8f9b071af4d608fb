//! Uploaded bytes are put in place.
//!
//! Locks: the attempt (or the upload), while the file is renamed. Checks: the attempt is still in its
//! agent's hands, so that nothing is put under an attempt that has committed or ended. The rename is
//! the one piece of I/O that a lock is held over: it is a single system call on one file system, and
//! the point of the lock is that no commit can come between check and rename.

use std::sync::Mutex;

use fencepost_domain::ids::{AttemptId, UploadId};

use crate::error::StoreError;
use crate::run::{Store, Transaction, Tx};

/// Puts a file where it belongs; called at most once, with the row locked.
pub type PlaceFile = Box<dyn FnOnce() -> std::io::Result<()> + Send>;

/// What became of uploaded bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placed {
    /// They are in place.
    Done,
    /// The attempt is not its agent's any more, or the upload was complete already.
    Closed,
    /// The file could not be put in place.
    Failed(String),
}

impl Store {
    /// Puts an attempt's output in place, while the attempt is still its agent's.
    pub async fn place_attempt_output(
        &self,
        attempt: AttemptId,
        place: PlaceFile,
    ) -> Result<Placed, StoreError> {
        self.execute(PlaceAttemptOutput {
            attempt,
            place: Mutex::new(Some(place)),
        })
        .await
    }

    /// Puts a buyer's file in place and records its size and digest. It is written once.
    pub async fn place_upload(
        &self,
        upload: UploadId,
        size_bytes: u64,
        sha256: [u8; 32],
        place: PlaceFile,
    ) -> Result<Placed, StoreError> {
        let place = Mutex::new(Some(place));
        self.execute(PlaceUpload {
            upload,
            size_bytes,
            sha256,
            place,
        })
        .await
    }
}

struct PlaceAttemptOutput {
    attempt: AttemptId,
    place: Mutex<Option<PlaceFile>>,
}

struct PlaceUpload {
    upload: UploadId,
    size_bytes: u64,
    sha256: [u8; 32],
    place: Mutex<Option<PlaceFile>>,
}

/// Calls `place` unless an earlier run of the transaction did.
fn place_once(place: &Mutex<Option<PlaceFile>>) -> Placed {
    // A poisoned lock still holds the option as it was.
    let place = place
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .take();
    match place.map_or(Ok(()), |place| place()) {
        Ok(()) => Placed::Done,
        Err(error) => Placed::Failed(error.kind().to_string()),
    }
}

impl Transaction for PlaceAttemptOutput {
    const NAME: &'static str = "place_attempt_output";
    type Output = Placed;

    async fn run(&self, tx: &mut Tx) -> Result<Placed, StoreError> {
        let open = sqlx::query_scalar!(
            r#"-- place_attempt_output: lock
            select (status in ('leased', 'downloading', 'running', 'uploading')) as "open!"
            from attempts where id = $1 for no key update"#,
            self.attempt.0
        )
        .fetch_optional(&mut **tx)
        .await?;
        Ok(if open == Some(true) {
            place_once(&self.place)
        } else {
            Placed::Closed
        })
    }
}

impl Transaction for PlaceUpload {
    const NAME: &'static str = "place_upload";
    type Output = Placed;

    async fn run(&self, tx: &mut Tx) -> Result<Placed, StoreError> {
        let written = sqlx::query!(
            r#"-- place_upload
            update uploads set size_bytes = $2, sha256 = $3, stored_at = authority_now()
            where id = $1 and stored_at is null"#,
            self.upload.0,
            i64::try_from(self.size_bytes).unwrap_or(i64::MAX),
            &self.sha256[..]
        )
        .execute(&mut **tx)
        .await?
        .rows_affected();
        let mine = tx.rerun && self.is_written(tx).await?;
        Ok(if written == 1 || mine {
            place_once(&self.place)
        } else {
            Placed::Closed
        })
    }
}

impl PlaceUpload {
    async fn is_written(&self, tx: &mut Tx) -> Result<bool, StoreError> {
        let found = sqlx::query_scalar!(
            r#"-- place_upload: find
            select exists (select from uploads where id = $1 and sha256 = $2) as "found!""#,
            self.upload.0,
            &self.sha256[..]
        );
        Ok(found.fetch_one(&mut **tx).await?)
    }
}
