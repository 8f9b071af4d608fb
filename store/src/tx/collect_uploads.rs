//! What lies in a bucket beside uploads: the object that was sent, of which the upload is a copy, and
//! copies that did not become it. Also all of an upload that was never completed.
//!
//! Locks: uploads, by id, skipping what others hold. Writes: when the next pass is due, *before* the
//! objects are deleted. The first pass is an hour after the last moment at which a copy can become
//! the upload, and there is a second one for transfers that outlived their bound.

use fencepost_domain::artifact_key;
use fencepost_domain::ids::UploadId;
use uuid::Uuid;

use super::collect_garbage::PASSES;
use crate::error::StoreError;
use crate::run::{Store, Transaction, Tx};

/// What lies beside one upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadGarbage {
    /// The upload.
    pub upload: UploadId,
    /// What was sent.
    pub incoming: String,
    /// Below which its copies are.
    pub copies: String,
    /// The copy that is the upload.
    pub kept: Option<String>,
}

impl Store {
    /// Up to `limit` uploads beside which there may be objects to delete now. Say so with
    /// [`Store::uploads_collected`]; otherwise they come again in an hour.
    pub async fn collect_uploads(&self, limit: u32) -> Result<Vec<UploadGarbage>, StoreError> {
        let limit = i64::from(limit);
        self.execute(CollectUploads { limit }).await
    }

    /// The objects beside these uploads were deleted.
    pub async fn uploads_collected(&self, uploads: Vec<UploadId>) -> Result<(), StoreError> {
        self.execute(UploadsCollected { uploads }).await
    }
}

struct CollectUploads {
    limit: i64,
}

impl Transaction for CollectUploads {
    const NAME: &'static str = "collect_uploads";
    type Output = Vec<UploadGarbage>;

    async fn run(&self, tx: &mut Tx) -> Result<Self::Output, StoreError> {
        let rows = sqlx::query!(
            r#"-- collect_uploads
            with due as materialized (
                select id from uploads where collect_after <= (select authority_mark())
                order by collect_after limit $1
            ), mine as materialized (
                select id from uploads where id in (select id from due)
                order by id for no key update skip locked
            )
            update uploads u set collect_after = authority_now() + interval '1 hour'
            from mine where u.id = mine.id
            returning u.id, case when u.stored_at is not null and u.deleted_at is null
                then u.object_key end as kept"#,
            self.limit
        )
        .fetch_all(&mut **tx)
        .await?;
        let garbage = rows.into_iter().map(|row| {
            let upload = UploadId(row.id);
            UploadGarbage {
                upload,
                incoming: artifact_key::incoming_upload(upload),
                copies: artifact_key::upload(upload),
                kept: row.kept,
            }
        });
        Ok(garbage.collect())
    }
}

struct UploadsCollected {
    uploads: Vec<UploadId>,
}

impl Transaction for UploadsCollected {
    const NAME: &'static str = "uploads_collected";
    type Output = ();

    async fn run(&self, tx: &mut Tx) -> Result<(), StoreError> {
        let ids: Vec<Uuid> = self.uploads.iter().map(|upload| upload.0).collect();
        sqlx::query!(
            r#"-- uploads_collected
            update uploads set collections = collections + 1,
                collect_after = case when collections + 1 < $2 then collect_after end
            where id = any($1) and collect_after is not null"#,
            &ids,
            PASSES
        )
        .execute(&mut **tx)
        .await?;
        Ok(())
    }
}
