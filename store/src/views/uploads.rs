//! Files that buyers sent.

use fencepost_domain::ids::{OrgId, UploadId};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::StoreError;
use crate::run::Store;

/// An upload as its buyer sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadView {
    /// Its id.
    pub id: Uuid,
    /// Size, once it is there.
    pub size_bytes: Option<i64>,
    /// Digest, hexadecimal, once it is there.
    pub sha256: Option<String>,
    /// When it was asked for.
    pub created_at: OffsetDateTime,
    /// When it was all there.
    pub stored_at: Option<OffsetDateTime>,
    /// Until when it is kept at least; `None` while a job that has not ended reads it.
    pub expires_at: Option<OffsetDateTime>,
    /// When it was given up.
    pub deleted_at: Option<OffsetDateTime>,
}

impl Store {
    /// One upload of `org`.
    pub async fn upload(
        &self,
        org: OrgId,
        upload: UploadId,
    ) -> Result<Option<UploadView>, StoreError> {
        let unused = self.settings().retention.unused_uploads_micros();
        self.read("upload", move |mut conn| async move {
            sqlx::query_as!(
                UploadView,
                r#"-- upload
                select u.id, u.size_bytes, encode(u.sha256, 'hex') as sha256, u.created_at,
                    u.stored_at, u.deleted_at,
                    case when n.readers = 0 then greatest(n.until,
                        u.created_at + $3::bigint * interval '1 microsecond') end as expires_at
                from uploads u cross join lateral (
                    select count(*) filter (where j.ended_at is null) as readers,
                        max(case when j.status = 'cancelled' and j.attempt_counter = 0
                            then j.ended_at + $3::bigint * interval '1 microsecond'
                            else coalesce(j.files_expire_at, j.ended_at) end) as until
                    from job_inputs i join jobs j on j.id = i.job_id where i.upload_id = u.id
                ) n
                where u.id = $1 and u.org_id = $2"#,
                upload.0,
                org.0,
                unused
            )
            .fetch_optional(&mut *conn)
            .await
        })
        .await
    }
}
