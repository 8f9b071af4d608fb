//! What attempts wrote besides their results, as buyers see it. Never who wrote it.

use std::collections::HashMap;

use fencepost_domain::ids::{JobId, OrgId};
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::StoreError;
use crate::run::Store;

/// How many events are shown of each attempt: its last ones.
pub const SHOWN_EVENTS: i64 = 100;

/// An event.
#[derive(Debug, Clone)]
pub struct EventView {
    /// The attempt that wrote it.
    pub attempt_id: Uuid,
    /// Its place among all that happened to the job.
    pub job_seq: i64,
    /// What happened.
    pub kind: String,
    /// What there is to say about it.
    pub payload: Value,
    /// When it was written.
    pub recorded_at: OffsetDateTime,
}

/// An artifact.
#[derive(Debug, Clone)]
pub struct ArtifactView {
    /// The attempt that wrote it.
    pub attempt_id: Uuid,
    /// That attempt's number.
    pub attempt_number: i32,
    /// Its place among all that happened to the job.
    pub job_seq: i64,
    /// Its name.
    pub name: String,
    /// Its object.
    pub object_key: String,
    /// The declared digest, hexadecimal.
    pub sha256: String,
    /// The declared size.
    pub size_bytes: i64,
    /// When it was written.
    pub recorded_at: OffsetDateTime,
    /// Whether its bytes are there and nobody can change them any more.
    pub is_kept: bool,
    /// Until when a link that is made now can be used.
    pub link_expires_at: OffsetDateTime,
}

impl Store {
    /// The last events of each attempt of a job of `org`, by attempt, in order.
    pub async fn attempt_events(
        &self,
        org: OrgId,
        job: JobId,
    ) -> Result<HashMap<Uuid, Vec<EventView>>, StoreError> {
        let events = self
            .read("attempt_events", move |mut conn| async move {
                sqlx::query_as!(
                    EventView,
                    r#"-- attempt_events
                    select attempt_id as "attempt_id!", job_seq as "job_seq!", kind as "kind!",
                        payload as "payload!", recorded_at as "recorded_at!"
                    from (
                        select e.*, row_number()
                            over (partition by e.attempt_id order by e.job_seq desc) as age
                        from attempt_events e join jobs j on j.id = e.job_id
                        where j.id = $1 and j.org_id = $2) e
                    where age <= $3 order by job_seq"#,
                    job.0,
                    org.0,
                    SHOWN_EVENTS
                )
                .fetch_all(&mut *conn)
                .await
            })
            .await?;
        let mut by_attempt: HashMap<Uuid, Vec<EventView>> = HashMap::new();
        for event in events {
            by_attempt.entry(event.attempt_id).or_default().push(event);
        }
        Ok(by_attempt)
    }

    /// The artifacts of a job of `org`, in order; `None` without such a job.
    pub async fn artifacts(
        &self,
        org: OrgId,
        job: JobId,
    ) -> Result<Option<Vec<ArtifactView>>, StoreError> {
        let grant = self.settings().grant.micros();
        self.read("artifacts", move |mut conn| async move {
            let found = sqlx::query_scalar!(
                r#"-- artifacts: job
                select exists (select from jobs where id = $1 and org_id = $2
                    and erased_at is null) as "found!""#,
                job.0,
                org.0
            )
            .fetch_one(&mut *conn)
            .await?;
            if !found {
                return Ok(None);
            }
            sqlx::query_as!(
                ArtifactView,
                r#"-- artifacts
                select f.attempt_id, a.attempt_number, f.job_seq, f.name, f.object_key,
                    encode(f.sha256, 'hex') as "sha256!", f.size_bytes, f.recorded_at,
                    (a.ended_at is not null and j.files_deleted_at is null
                        and coalesce(j.files_expire_at > authority_now(), true)
                        and (a.status = 'succeeded' or a.collections = 0)) as "is_kept!",
                    authority_now() + $2::bigint * interval '1 microsecond' as "link_expires_at!"
                from attempt_artifacts f join attempts a on a.id = f.attempt_id
                    join jobs j on j.id = f.job_id
                where f.job_id = $1 order by f.job_seq"#,
                job.0,
                grant
            )
            .fetch_all(&mut *conn)
            .await
            .map(Some)
        })
        .await
    }
}
