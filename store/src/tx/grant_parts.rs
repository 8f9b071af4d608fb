//! A holder asks for links to the parts of its output.
//!
//! Two transactions, with a request to the bucket between them. Locks, both: the job, then the
//! attempt. Checks, both: the fence without token. The first writes until when transfers can start,
//! and the size of parts, once for ever; so a clean-up knows that there may be an upload whose name
//! nobody wrote down. The second writes that name; the first one to be written stays.

use fencepost_domain::fencing::{LeaseClaim, Operation};
use time::OffsetDateTime;

use super::Refusal;
use super::grant_objects::{extend, is_granted_to};
use crate::artifacts::OpenUpload;
use crate::error::StoreError;
use crate::fence::{WhereFacts, judge};
use crate::rows::lock_pairs;
use crate::run::{Store, Transaction, Tx};

/// Where parts go.
#[derive(Debug, Clone)]
pub struct PartsGranted {
    /// The object that they become.
    pub output_key: String,
    /// The size of every part but the last.
    pub part_bytes: u64,
    /// The bucket's name of the upload, if it was begun.
    pub upload_id: Option<String>,
    /// By Postgres's clock.
    pub expires_at: OffsetDateTime,
}

impl Store {
    /// Grants the holder of a lease the parts of its output, of `part_bytes` each unless another
    /// size was settled before.
    pub async fn grant_parts(
        &self,
        claim: LeaseClaim,
        part_bytes: u64,
    ) -> Result<Result<PartsGranted, Refusal>, StoreError> {
        let what = What::Size(i64::try_from(part_bytes).unwrap_or(i64::MAX));
        self.execute(GrantParts { claim, what }).await
    }

    /// The upload was begun under this name. Gives the name that counts.
    pub async fn parts_begun(
        &self,
        claim: LeaseClaim,
        upload: OpenUpload,
    ) -> Result<Result<PartsGranted, Refusal>, StoreError> {
        let what = What::Begun(upload);
        self.execute(GrantParts { claim, what }).await
    }
}

enum What {
    Size(i64),
    Begun(OpenUpload),
}

struct GrantParts {
    claim: LeaseClaim,
    what: What,
}

impl Transaction for GrantParts {
    const NAME: &'static str = "grant_parts";
    type Output = Result<PartsGranted, Refusal>;

    async fn run(&self, tx: &mut Tx) -> Result<Self::Output, StoreError> {
        let locked = lock_pairs(tx, &[self.claim.attempt]).await?;
        let Some(pair) = locked.find(self.claim.attempt) else {
            return Ok(Err(Refusal::UnknownAttempt));
        };
        let (fence, clock) = (&pair.attempt.fence, locked.clock());
        match judge(tx.fence, fence, &self.claim, None, Operation::Grant, clock) {
            Err(violation) => Ok(Err(Refusal::Fence(violation))),
            Ok(_) if !is_granted_to(tx, pair) => Ok(Err(Refusal::JobNotActive)),
            Ok(facts) => self.write(tx, &facts, locked.now).await.map(Ok),
        }
    }
}

impl GrantParts {
    async fn write(
        &self,
        tx: &mut Tx,
        facts: &WhereFacts,
        now: OffsetDateTime,
    ) -> Result<PartsGranted, StoreError> {
        let granted = extend(tx, facts, now).await?;
        let (part_bytes, begun) = match &self.what {
            What::Size(bytes) => (*bytes, None),
            What::Begun(upload) => (
                i64::try_from(upload.part_bytes).unwrap_or(i64::MAX),
                Some(&upload.id),
            ),
        };
        // The row is locked, and the statement before has compared the facts.
        let row = sqlx::query!(
            r#"-- grant_parts
            update attempts set part_bytes = coalesce(part_bytes, $2),
                multipart_id = coalesce(multipart_id, $3)
            where id = $1 and ended_at is null
            returning part_bytes as "part_bytes!", multipart_id"#,
            facts.attempt_id,
            part_bytes,
            begun
        )
        .fetch_optional(&mut **tx)
        .await?;
        let row = row.ok_or_else(|| {
            StoreError::inconsistent("attempts", "parts: judged one row, wrote none")
        })?;
        Ok(PartsGranted {
            output_key: granted.output_key,
            part_bytes: row.part_bytes.unsigned_abs(),
            upload_id: row.multipart_id,
            expires_at: granted.expires_at,
        })
    }
}
