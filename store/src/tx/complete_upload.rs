//! What a buyer sent to a bucket becomes an upload.
//!
//! Locks: the org's ledger account, then the upload. Checks: it is not complete yet, not deleted, and
//! not so old that what lies beside it may be cleared away. Writes: which copy it is, and what was read
//! in it. The copy was made and read before, with no lock held; the first one to be written down is
//! the upload for ever.

use fencepost_domain::ids::{OrgId, UploadId};
use time::OffsetDateTime;

use super::place_output::lock_account;
use super::submit_job::QuotaReached;
use crate::artifacts::Stored;
use crate::error::StoreError;
use crate::fence::FenceMode;
use crate::run::{Store, Transaction, Tx};

/// An upload as it stands.
#[derive(Debug, Clone)]
pub struct UploadState {
    /// What it holds, once it is complete.
    pub stored: Option<Stored>,
    /// The most bytes that are taken.
    pub max_bytes: i64,
    /// What the buyer said that it would be.
    pub declared_sha256: Option<[u8; 32]>,
    /// Whether bytes in a bucket can still become it.
    pub is_open: bool,
}

/// What became of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Completed {
    /// It is the upload.
    Done,
    /// Another copy is.
    Before(Stored),
    /// It is larger than what the org's quota leaves.
    OverQuota(QuotaReached),
    /// It came too late, or there is no such upload.
    TooLate,
}

impl Store {
    /// An upload of this org's.
    pub async fn upload_state(
        &self,
        org: OrgId,
        upload: UploadId,
    ) -> Result<Option<UploadState>, StoreError> {
        self.read("upload_state", move |mut conn| async move {
            let row = sqlx::query!(
                r#"-- upload_state
                select size_bytes, sha256, max_bytes, declared_sha256,
                    (stored_at is null and deleted_at is null and complete_by > authority_now())
                        as "is_open?"
                from uploads where id = $1 and org_id = $2"#,
                upload.0,
                org.0
            )
            .fetch_optional(&mut *conn)
            .await?;
            Ok(row.map(|row| UploadState {
                stored: stored(row.size_bytes, row.sha256),
                max_bytes: row.max_bytes,
                declared_sha256: row
                    .declared_sha256
                    .and_then(|sha256| sha256.try_into().ok()),
                is_open: row.is_open == Some(true),
            }))
        })
        .await
    }

    /// Makes the object `key`, in which `found` was read, the upload.
    pub async fn complete_upload(
        &self,
        upload: UploadId,
        key: String,
        found: Stored,
    ) -> Result<Completed, StoreError> {
        self.execute(CompleteUpload { upload, key, found }).await
    }
}

fn stored(size_bytes: Option<i64>, sha256: Option<Vec<u8>>) -> Option<Stored> {
    Some(Stored {
        size_bytes: size_bytes?.unsigned_abs(),
        sha256: sha256?.try_into().ok()?,
    })
}

struct CompleteUpload {
    upload: UploadId,
    key: String,
    found: Stored,
}

impl Transaction for CompleteUpload {
    const NAME: &'static str = "complete_upload";
    type Output = Completed;

    async fn run(&self, tx: &mut Tx) -> Result<Completed, StoreError> {
        let over_quota = lock_account(tx, self.upload, self.found.size_bytes).await?;
        let row = sqlx::query!(
            r#"-- complete_upload: lock
            with u as materialized (
                select object_key, size_bytes, sha256, complete_by, deleted_at from uploads
                where id = $1 for no key update
            ), clock as materialized (
                select authority_now() as now from (select count(*) from u) it_is_locked
            )
            select u.object_key, u.size_bytes, u.sha256, clock.now as "now!",
                (u.complete_by > clock.now and u.deleted_at is null) as "is_open?"
            from u, clock"#,
            self.upload.0
        )
        .fetch_optional(&mut **tx)
        .await?;
        let Some(row) = row else {
            return Ok(Completed::TooLate);
        };
        match stored(row.size_bytes, row.sha256) {
            // An earlier run of this very transaction.
            Some(_) if row.object_key == self.key => Ok(Completed::Done),
            Some(before) => Ok(Completed::Before(before)),
            None if row.is_open == Some(true) || tx.fence == FenceMode::OnlyWhere => {
                match over_quota {
                    Some(full) => Ok(Completed::OverQuota(full)),
                    None => self.write(tx, row.now).await,
                }
            }
            None => Ok(Completed::TooLate),
        }
    }
}

impl CompleteUpload {
    async fn write(&self, tx: &mut Tx, now: OffsetDateTime) -> Result<Completed, StoreError> {
        let written = sqlx::query!(
            r#"-- complete_upload
            update uploads set object_key = $2, size_bytes = $3, sha256 = $4,
                stored_at = $5
            where id = $1 and stored_at is null and deleted_at is null and complete_by > $5"#,
            self.upload.0,
            self.key,
            i64::try_from(self.found.size_bytes).unwrap_or(i64::MAX),
            &self.found.sha256[..],
            now
        )
        .execute(&mut **tx)
        .await?
        .rows_affected();
        if written == 1 {
            return Ok(Completed::Done);
        }
        let what = format!("completing {} wrote {written} rows", self.upload);
        Err(StoreError::inconsistent("uploads", what))
    }
}
