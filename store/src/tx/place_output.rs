//! Uploaded bytes are put in place.
//!
//! Locks: the attempt (or the org's ledger account, which counts bytes, and the upload), while the
//! file is renamed. Checks: the attempt is still in its agent's hands and its lease lives, so that
//! nothing is put under an attempt that has committed, ended or expired; and the clock is not
//! behind its mark, for then nobody knows. The rename is the one piece of I/O that a lock is held
//! over: it is a single system call on one file system, and the point of the lock is that no commit
//! can come between check and rename. An artifact that was recorded already takes only the bytes
//! that were recorded.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost_domain::artifact_key;
use fencepost_domain::clock::ClockReading;
use fencepost_domain::ids::{AttemptId, UploadId};

use super::submit_job::QuotaReached;
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
    /// They are not the ones that were declared or recorded; those may still be sent.
    Differs,
    /// The clock is behind its mark by this much; nothing was put anywhere.
    ClockRegressed(Duration),
    /// The file is larger than what the org's quota leaves.
    OverQuota(QuotaReached),
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
        let one = vec![OutputPlacing::new(attempt, place)];
        let mut answers = self.place_attempt_outputs(one).await?;
        answers
            .pop()
            .ok_or_else(|| StoreError::inconsistent("attempts", "an output was not answered"))
    }

    /// The same for outputs of many attempts; one answer for each, in order.
    pub async fn place_attempt_outputs(
        &self,
        outputs: Vec<OutputPlacing>,
    ) -> Result<Vec<Placed>, StoreError> {
        self.execute(PlaceAttemptOutput { outputs }).await
    }

    /// Puts a buyer's file in place and records its size and digest. It is written once.
    pub async fn place_upload(
        &self,
        upload: UploadId,
        size_bytes: u64,
        sha256: [u8; 32],
        place: PlaceFile,
    ) -> Result<Placed, StoreError> {
        let place = Placing::todo(place);
        self.execute(PlaceUpload {
            upload,
            size_bytes,
            sha256,
            place,
        })
        .await
    }
}

/// An output to put in place. Clones put it in place once, together.
#[derive(Clone)]
pub struct OutputPlacing {
    /// The attempt whose output it is.
    pub attempt: AttemptId,
    /// Where it goes, and its digest, if it is a named artifact.
    artifact: Option<(String, [u8; 32])>,
    place: Arc<Placing>,
}

impl OutputPlacing {
    /// The output of `attempt`, which `place` puts in place.
    pub fn new(attempt: AttemptId, place: PlaceFile) -> Self {
        Self {
            attempt,
            artifact: None,
            place: Arc::new(Placing::todo(place)),
        }
    }

    /// The same for bytes with that digest that go to `key`, which may be an artifact's.
    pub fn at(mut self, key: String, sha256: [u8; 32]) -> Self {
        self.artifact = artifact_key::is_artifact(&key).then_some((key, sha256));
        self
    }

    fn is_among(&self, keys: &[String]) -> bool {
        let mine = self.artifact.as_ref();
        mine.is_some_and(|(key, _)| keys.contains(key))
    }
}

struct PlaceAttemptOutput {
    outputs: Vec<OutputPlacing>,
}

struct PlaceUpload {
    upload: UploadId,
    size_bytes: u64,
    sha256: [u8; 32],
    place: Placing,
}

/// A file that is put in place at most once, however often its transaction is run.
struct Placing(Mutex<Step>);

enum Step {
    Todo(PlaceFile),
    Done(Placed),
}

impl Placing {
    fn todo(place: PlaceFile) -> Self {
        Self(Mutex::new(Step::Todo(place)))
    }

    /// Puts it in place, or says what came of it in an earlier run.
    fn once(&self) -> Placed {
        // A poisoned lock still holds the step as it was.
        let mut step = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let placed = match std::mem::replace(&mut *step, Step::Done(Placed::Done)) {
            Step::Done(placed) => placed,
            Step::Todo(place) => match place() {
                Ok(()) => Placed::Done,
                Err(error) => Placed::Failed(error.kind().to_string()),
            },
        };
        *step = Step::Done(placed.clone());
        placed
    }
}

impl Transaction for PlaceAttemptOutput {
    const NAME: &'static str = "place_attempt_output";
    type Output = Vec<Placed>;

    async fn run(&self, tx: &mut Tx) -> Result<Vec<Placed>, StoreError> {
        let ids: Vec<_> = self.outputs.iter().map(|one| one.attempt.0).collect();
        let rows = sqlx::query!(
            r#"-- place_attempt_output: lock
            with a as materialized (
                select id, status, lease_expires_at from attempts
                where id = any($1) order by id for no key update
            ), clock as materialized (
                select authority_mark() as mark, authority_now() as now
                from (select count(*) from a) all_are_locked
            )
            select clock.now as "now!", clock.mark as "mark!", a.id as "id?",
                (a.status in ('leased', 'downloading', 'running', 'uploading')
                    and a.lease_expires_at > clock.now) as "open?"
            from clock left join a on true"#,
            &ids
        )
        .fetch_all(&mut **tx)
        .await?;
        let regressed_by = rows.first().and_then(|row| {
            let (now, mark) = (row.now, row.mark);
            ClockReading { now, mark }.regressed_by()
        });
        let is_open = |attempt: AttemptId| {
            let mut open = rows.iter().filter(|row| row.open == Some(true));
            open.any(|row| row.id == Some(attempt.0))
        };
        let recorded = self.recorded_otherwise(tx).await?;
        let placed = self.outputs.iter().map(|one| match regressed_by {
            _ if !is_open(one.attempt) => Placed::Closed,
            _ if one.is_among(&recorded) => Placed::Differs,
            Some(by) => Placed::ClockRegressed(by),
            None => one.place.once(),
        });
        Ok(placed.collect())
    }
}

impl PlaceAttemptOutput {
    /// The keys of artifacts that were recorded with other bytes. Whoever records one locks the attempt,
    /// as the caller has.
    async fn recorded_otherwise(&self, tx: &mut Tx) -> Result<Vec<String>, StoreError> {
        let artifacts = self.outputs.iter().filter_map(|one| {
            let (key, sha256) = one.artifact.as_ref()?;
            Some((one.attempt.0, key.clone(), sha256.to_vec()))
        });
        let (ids, (keys, digests)): (Vec<_>, (Vec<_>, Vec<_>)) = artifacts
            .map(|(id, key, digest)| (id, (key, digest)))
            .unzip();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let found = sqlx::query_scalar!(
            r#"-- place_attempt_output: recorded otherwise
            select i.key as "key!"
            from unnest($1::uuid[], $2::text[], $3::bytea[]) as i(attempt_id, key, sha256)
            join attempt_artifacts r on r.attempt_id = i.attempt_id and r.object_key = i.key
            where r.sha256 <> i.sha256"#,
            &ids,
            &keys,
            &digests
        );
        Ok(found.fetch_all(&mut **tx).await?)
    }
}

impl Transaction for PlaceUpload {
    const NAME: &'static str = "place_upload";
    type Output = Placed;

    async fn run(&self, tx: &mut Tx) -> Result<Placed, StoreError> {
        let over_quota = lock_account(tx, self.upload, self.size_bytes).await?;
        let row = sqlx::query!(
            r#"-- place_upload: lock
            select (stored_at is null and deleted_at is null) as "open!",
                (declared_sha256 is distinct from $2 and declared_sha256 is not null) as "differs!"
            from uploads where id = $1 for no key update"#,
            self.upload.0,
            &self.sha256[..]
        )
        .fetch_optional(&mut **tx)
        .await?;
        if let Some(row) = row.filter(|row| row.open) {
            if row.differs {
                return Ok(Placed::Differs);
            }
            if let Some(full) = over_quota {
                return Ok(Placed::OverQuota(full));
            }
            let placed = self.place.once();
            if placed == Placed::Done {
                self.write(tx).await?;
            }
            return Ok(placed);
        }
        // Unless it was an earlier run of this very transaction that completed it.
        let mine = tx.rerun && self.is_written(tx).await?;
        Ok(if mine {
            self.place.once()
        } else {
            Placed::Closed
        })
    }
}

impl PlaceUpload {
    async fn write(&self, tx: &mut Tx) -> Result<(), StoreError> {
        let written = sqlx::query!(
            r#"-- place_upload
            update uploads set size_bytes = $2, sha256 = $3, stored_at = authority_now()
            where id = $1 and stored_at is null and deleted_at is null
                and (declared_sha256 is null or declared_sha256 = $3)"#,
            self.upload.0,
            i64::try_from(self.size_bytes).unwrap_or(i64::MAX),
            &self.sha256[..]
        )
        .execute(&mut **tx)
        .await?
        .rows_affected();
        if written == 1 {
            Ok(())
        } else {
            let what = format!("completing {} wrote {written} rows", self.upload);
            Err(StoreError::inconsistent("uploads", what))
        }
    }

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

/// Locks the account of the upload's org; says if the file is too large for its quota.
pub(super) async fn lock_account(
    tx: &mut Tx,
    upload: UploadId,
    size_bytes: u64,
) -> Result<Option<QuotaReached>, StoreError> {
    let most = tx.settings.quotas.stored_bytes;
    let account = sqlx::query!(
        r#"-- place_upload: lock account
        select stored_bytes, coalesce(max_stored_bytes, $2) as "most!" from org_accounts
        where org_id = (select org_id from uploads where id = $1) for no key update"#,
        upload.0,
        most
    )
    .fetch_optional(&mut **tx)
    .await?;
    let size = i64::try_from(size_bytes).unwrap_or(i64::MAX);
    Ok(account.and_then(|account| {
        let full = account.stored_bytes.saturating_add(size) > account.most;
        full.then_some(QuotaReached {
            quota: "stored_bytes",
            used: account.stored_bytes,
            most: account.most,
        })
    }))
}
