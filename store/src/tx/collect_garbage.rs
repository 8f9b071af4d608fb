//! Objects that nobody will ask for any more.
//!
//! An ended attempt leaves what its agent uploaded, and a copy for each pick-up of its verification.
//! Of all these only what belongs to the published result is kept, until its files are given up: the
//! copy, and the artifacts that the winning attempt named. The rest is deleted when no transfer can be writing it any more, and
//! once again later, for a transfer that outlived its bound.
//!
//! Locks: attempts, by id, skipping what others hold. Writes: when the next pass is due, *before*
//! the objects are deleted: a gateway that dies in between has only put the pass off.

use fencepost_domain::artifact_key;
use fencepost_domain::ids::{AttemptId, JobId};
use uuid::Uuid;

use crate::error::StoreError;
use crate::run::{Store, Transaction, Tx};

/// How many passes there are.
pub(super) const PASSES: i32 = 2;

/// The objects of one ended attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Garbage {
    /// The attempt.
    pub attempt: AttemptId,
    /// Everything that it left, but for what was published.
    pub keys: Vec<String>,
    /// Where copies of its output were made, or below which.
    pub copies: Vec<String>,
    /// The copy that was published: not to be deleted.
    pub kept: Option<String>,
    /// The upload in parts that may be unfinished.
    pub parts: Option<PartsLeft>,
}

/// An upload in parts that may be unfinished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartsLeft {
    /// What it was to become.
    pub key: String,
    /// The bucket's name for it, if it was written down.
    pub id: Option<String>,
}

impl Store {
    /// Up to `limit` ended attempts whose objects are to be deleted now. Say so with
    /// [`Store::garbage_deleted`]; otherwise they come again in an hour.
    pub async fn collect_garbage(&self, limit: u32) -> Result<Vec<Garbage>, StoreError> {
        self.execute(CollectGarbage {
            limit: i64::from(limit),
        })
        .await
    }

    /// The objects of these attempts were deleted.
    pub async fn garbage_deleted(&self, attempts: Vec<AttemptId>) -> Result<(), StoreError> {
        self.execute(GarbageDeleted { attempts }).await
    }
}

struct CollectGarbage {
    limit: i64,
}

impl Transaction for CollectGarbage {
    const NAME: &'static str = "collect_garbage";
    type Output = Vec<Garbage>;

    async fn run(&self, tx: &mut Tx) -> Result<Vec<Garbage>, StoreError> {
        let rows = sqlx::query!(
            r#"-- collect_garbage
            with due as materialized (
                select id from attempts where collect_after <= (select authority_now())
                order by collect_after limit $1
            ), mine as materialized (
                select id from attempts where id in (select id from due)
                order by id for no key update skip locked
            ), put_off as (
                update attempts a set collect_after = authority_now() + interval '1 hour'
                from mine where a.id = mine.id
                returning a.*
            )
            select p.id, p.job_id, p.output_key, p.verification_epoch, p.part_bytes, p.multipart_id,
                case when j.files_deleted_at is null then j.output_key end as "published?",
                array(select g.object_key from attempt_grants g where g.attempt_id = p.id
                    and (j.winning_attempt_id is distinct from p.id
                        or j.files_deleted_at is not null
                        or not exists (select from attempt_artifacts f
                            where f.object_key = g.object_key))) as "artifacts!"
            from put_off p join jobs j on j.id = p.job_id"#,
            self.limit
        )
        .fetch_all(&mut **tx)
        .await?;
        let garbage = rows.into_iter().map(|row| {
            let (job, attempt) = (JobId(row.job_id), AttemptId(row.id));
            let copies = (1..=row.verification_epoch)
                .map(|epoch| artifact_key::verified_copy(job, attempt, epoch));
            let parts = row.part_bytes.map(|_| PartsLeft {
                key: row.output_key.clone(),
                id: row.multipart_id,
            });
            Garbage {
                attempt,
                copies: copies.collect(),
                keys: std::iter::once(row.output_key)
                    .chain(row.artifacts)
                    .collect(),
                kept: row.published,
                parts,
            }
        });
        Ok(garbage.collect())
    }
}

struct GarbageDeleted {
    attempts: Vec<AttemptId>,
}

impl Transaction for GarbageDeleted {
    const NAME: &'static str = "garbage_deleted";
    type Output = ();

    async fn run(&self, tx: &mut Tx) -> Result<(), StoreError> {
        let ids: Vec<Uuid> = self.attempts.iter().map(|attempt| attempt.0).collect();
        let longest_transfer = tx.settings.longest_transfer.micros();
        sqlx::query!(
            r#"-- garbage_deleted
            with clock as materialized (
                select authority_now() as now
            ), passed as materialized (
                -- a pass while somebody may still write is none
                select id, greatest(grant_expires_at, ended_at)
                    + $3::bigint * interval '1 microsecond' as quiet_at
                from attempts where id = any($1)
            )
            update attempts a set
                collections = a.collections + (clock.now >= passed.quiet_at)::int,
                collect_after = case
                    when clock.now < passed.quiet_at then passed.quiet_at
                    when a.collections + 1 < $2 then a.collect_after
                    -- what was published goes when its time is over
                    when j.winning_attempt_id = a.id and j.files_deleted_at is null
                        then greatest(j.files_expire_at, clock.now + interval '1 hour')
                end
            from passed, clock, jobs j
            where a.id = passed.id and j.id = a.job_id and a.collect_after is not null"#,
            &ids,
            PASSES,
            longest_transfer
        )
        .execute(&mut **tx)
        .await?;
        Ok(())
    }
}
