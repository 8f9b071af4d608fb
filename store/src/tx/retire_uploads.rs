//! Uploads that nobody needs any more: never used, or read by jobs that ended long ago.
//!
//! An upload is kept while a job that has not ended reads it, for as long after as was promised to its
//! last job, and for the shorter time of unused ones if no job ever started with it. Time is judged by
//! the clock's mark: a clock that leapt ahead deletes nothing.
//!
//! Locks: the orgs' ledger accounts, by id, so that no submit takes one of the files as an input
//! meanwhile; then uploads, by id; both skipping what others hold. Writes: the moment, and when it is
//! looked at again, *before* the object is deleted: a gateway that dies in between has only put it off.

use fencepost_domain::ids::UploadId;
use uuid::Uuid;

use crate::error::StoreError;
use crate::run::{Store, Transaction, Tx};

/// An upload whose object is to be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetiredUpload {
    /// The upload.
    pub upload: UploadId,
    /// Its object.
    pub object_key: String,
}

impl Store {
    /// Looks at up to `limit` uploads; gives those whose objects are to be deleted now. Say so with
    /// [`Store::uploads_erased`]; otherwise they come again in an hour.
    pub async fn retire_uploads(&self, limit: u32) -> Result<Vec<RetiredUpload>, StoreError> {
        let limit = i64::from(limit);
        self.execute(RetireUploads { limit }).await
    }

    /// The objects of these uploads were deleted. The rows go when records do.
    pub async fn uploads_erased(&self, uploads: Vec<UploadId>) -> Result<(), StoreError> {
        self.execute(UploadsErased { uploads }).await
    }
}

struct RetireUploads {
    limit: i64,
}

impl Transaction for RetireUploads {
    const NAME: &'static str = "retire_uploads";
    type Output = Vec<RetiredUpload>;

    async fn run(&self, tx: &mut Tx) -> Result<Vec<RetiredUpload>, StoreError> {
        let due = sqlx::query_scalar!(
            r#"-- retire_uploads: lock accounts
            with due as materialized (
                select id, org_id from uploads where look_after <= (select authority_mark())
                order by look_after limit $1
            ), accounts as materialized (
                select org_id from org_accounts where org_id in (select org_id from due)
                order by org_id for no key update skip locked
            )
            select id from due where org_id in (select org_id from accounts)"#,
            self.limit
        )
        .fetch_all(&mut **tx)
        .await?;
        if due.is_empty() {
            return Ok(Vec::new());
        }
        self.retire(tx, &due).await
    }
}

impl RetireUploads {
    async fn retire(&self, tx: &mut Tx, due: &[Uuid]) -> Result<Vec<RetiredUpload>, StoreError> {
        let unused = tx.settings.retention.unused_uploads_micros();
        let rows = sqlx::query!(
            r#"-- retire_uploads
            with mine as materialized (
                select id, created_at, deleted_at from uploads where id = any($1)
                order by id for no key update skip locked
            ), clock as materialized (
                select authority_mark() as mark, authority_now() as now,
                    $2::bigint * interval '1 microsecond' as unused
                from (select count(*) from mine) all_are_locked
            ), needed as materialized (
                select m.id, m.deleted_at,
                    count(*) filter (where j.id is not null and j.ended_at is null) as readers,
                    greatest(m.created_at + c.unused,
                        max(case when j.status = 'cancelled' and j.attempt_counter = 0
                            then j.ended_at + c.unused
                            else coalesce(j.files_expire_at, j.ended_at) end)) as until
                from mine m cross join clock c
                    left join job_inputs i on i.upload_id = m.id left join jobs j on j.id = i.job_id
                group by m.id, m.created_at, m.deleted_at, c.unused
            ), looked_at as (
                update uploads u set
                    deleted_at = case when n.deleted_at is not null then n.deleted_at
                        when n.readers = 0 and n.until <= c.mark then c.now end,
                    look_after = case
                        when n.deleted_at is not null or n.readers = 0 and n.until <= c.mark
                            then c.now + interval '1 hour'
                        when n.readers > 0 then c.now + interval '1 day'
                        else n.until end
                from needed n, clock c where u.id = n.id
                returning u.id, u.object_key, u.deleted_at
            )
            select id, object_key from looked_at where deleted_at is not null order by id"#,
            due,
            unused
        )
        .fetch_all(&mut **tx)
        .await?;
        let retired = rows.into_iter().map(|row| RetiredUpload {
            upload: UploadId(row.id),
            object_key: row.object_key,
        });
        Ok(retired.collect())
    }
}

struct UploadsErased {
    uploads: Vec<UploadId>,
}

impl Transaction for UploadsErased {
    const NAME: &'static str = "uploads_erased";
    type Output = ();

    async fn run(&self, tx: &mut Tx) -> Result<(), StoreError> {
        let ids: Vec<Uuid> = self.uploads.iter().map(|upload| upload.0).collect();
        let records = tx.settings.retention.records_micros();
        sqlx::query!(
            r#"-- uploads_erased: later
            update uploads set look_after = greatest(authority_now() + interval '1 day',
                deleted_at + $2::bigint * interval '1 microsecond')
            where id = any($1) and deleted_at is not null"#,
            &ids,
            records
        )
        .execute(&mut **tx)
        .await?;
        sqlx::query!(
            r#"-- uploads_erased: rows
            delete from uploads u where id = any($1)
                and deleted_at + $2::bigint * interval '1 microsecond' <= authority_mark()
                and not exists (select from job_inputs i where i.upload_id = u.id)"#,
            &ids,
            records
        )
        .execute(&mut **tx)
        .await?;
        Ok(())
    }
}
