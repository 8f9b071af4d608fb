//! A buyer gives up a file that they sent.
//!
//! Locks: the org's ledger account, so that no submit takes the file as an input meanwhile; then the
//! upload. Checks: no job that has not ended reads it. Writes: the moment; the collector deletes the
//! object.

use fencepost_domain::ids::{JobId, OrgId, UploadId};

use crate::error::StoreError;
use crate::run::{Store, Transaction, Tx};

/// What became of a buyer's wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadDeleted {
    /// It is given up, by now or before.
    Done,
    /// There is no such upload.
    NoUpload,
    /// This job still reads it.
    InUse(JobId),
}

impl Store {
    /// Gives up an upload of `org`. May be repeated.
    pub async fn delete_upload(
        &self,
        org: OrgId,
        upload: UploadId,
    ) -> Result<UploadDeleted, StoreError> {
        self.execute(DeleteUpload { org, upload }).await
    }
}

struct DeleteUpload {
    org: OrgId,
    upload: UploadId,
}

impl Transaction for DeleteUpload {
    const NAME: &'static str = "delete_upload";
    type Output = UploadDeleted;

    async fn run(&self, tx: &mut Tx) -> Result<UploadDeleted, StoreError> {
        sqlx::query!(
            r#"-- delete_upload: lock account
            select from org_accounts where org_id = $1 for no key update"#,
            self.org.0
        )
        .execute(&mut **tx)
        .await?;
        let found = sqlx::query_scalar!(
            r#"-- delete_upload: lock
            select id from uploads where id = $1 and org_id = $2 for no key update"#,
            self.upload.0,
            self.org.0
        )
        .fetch_optional(&mut **tx)
        .await?;
        if found.is_none() {
            return Ok(UploadDeleted::NoUpload);
        }
        let reader = sqlx::query_scalar!(
            r#"-- delete_upload: readers
            select j.id from job_inputs i join jobs j on j.id = i.job_id
            where i.upload_id = $1 and j.ended_at is null order by j.id limit 1"#,
            self.upload.0
        )
        .fetch_optional(&mut **tx)
        .await?;
        if let Some(job) = reader {
            return Ok(UploadDeleted::InUse(JobId(job)));
        }
        sqlx::query!(
            r#"-- delete_upload
            update uploads set deleted_at = authority_now(), look_after = authority_now()
            where id = $1 and deleted_at is null"#,
            self.upload.0
        )
        .execute(&mut **tx)
        .await?;
        Ok(UploadDeleted::Done)
    }
}
