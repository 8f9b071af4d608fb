//! Locked rows: what a decision may compare, converted into the domain's types.

use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::clock::ClockReading;
use fencepost_domain::commit_token::CommitTokenDigest;
use fencepost_domain::ending::JobFacts;
use fencepost_domain::failure::FailureCode;
use fencepost_domain::fencing::AttemptFence;
use fencepost_domain::ids::{AttemptId, DeviceId, JobId, ProviderId};
use fencepost_domain::job::JobStatus;
use fencepost_domain::ledger::PriceTerms;
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use crate::artifacts::OpenUpload;
use crate::error::StoreError;
use crate::finalized::Ended;
use crate::run::Tx;

/// A job's row, locked.
#[derive(Debug, Clone)]
pub(crate) struct JobRow {
    pub(crate) id: JobId,
    pub(crate) facts: JobFacts,
    pub(crate) terms: PriceTerms,
    pub(crate) held_micros: i64,
    pub(crate) epoch_counter: i64,
    pub(crate) service: String,
    pub(crate) params: Value,
    pub(crate) max_output_seconds: i32,
    pub(crate) cancel_requested_at: Option<OffsetDateTime>,
}

/// An attempt's row, locked.
#[derive(Debug, Clone)]
pub(crate) struct AttemptRow {
    pub(crate) fence: AttemptFence,
    pub(crate) provider: ProviderId,
    pub(crate) output_key: String,
    pub(crate) accepted: bool,
    /// Whether it was claimed outside a session.
    pub(crate) claimed: bool,
    /// The request id of its claim, until its epoch is presented.
    pub(crate) unpresented_claim: Option<Uuid>,
    /// The pair that the last resume replaced, until a frame presents the new one.
    pub(crate) replaced: Option<(i64, CommitTokenDigest)>,
    pub(crate) resumes: i32,
    pub(crate) leased_at: OffsetDateTime,
    pub(crate) run_deadline: OffsetDateTime,
    pub(crate) final_answer: Option<FinalAnswer>,
    pub(crate) hand_off: Option<FinalAnswer>,
    pub(crate) verification_epoch: i64,
    pub(crate) verification_started_at: Option<OffsetDateTime>,
    pub(crate) verify_until: Option<OffsetDateTime>,
    pub(crate) declared: Option<Declared>,
    /// The upload in parts that was begun for its output.
    pub(crate) parts: Option<OpenUpload>,
    pub(crate) failure_code: Option<FailureCode>,
    pub(crate) failure_message: Option<String>,
}

/// The output that a commit declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// Where it was uploaded.
    pub object_key: String,
    /// Its digest.
    pub sha256: [u8; 32],
    /// Its size.
    pub size_bytes: i64,
}

/// A stored commit, fail, release or hand-off of an attempt, with who wrote it.
#[derive(Debug, Clone)]
pub(crate) struct FinalAnswer {
    pub(crate) operation: String,
    pub(crate) epoch: i64,
    pub(crate) digest: CommitTokenDigest,
    pub(crate) content: Vec<u8>,
}

/// An attempt with its job, both locked.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    pub(crate) job: JobRow,
    pub(crate) attempt: AttemptRow,
}

impl Pair {
    /// What there is to say of an attempt that has ended; `None` while it is live.
    pub(crate) fn ended(&self) -> Option<Ended> {
        let fence = &self.attempt.fence;
        (!fence.status.is_live()).then(|| Ended {
            attempt: fence.attempt,
            job: fence.job,
            device: fence.device,
            status: fence.status,
            code: self.attempt.failure_code,
            message: self.attempt.failure_message.clone(),
            job_status: self.job.facts.status,
        })
    }
}

impl AttemptRow {
    /// The end of the lease, below which no renewal goes. A clock that has gone back since it gave
    /// the lease gave an end that means nothing.
    pub(crate) fn lasting_expiry(&self, now: OffsetDateTime) -> OffsetDateTime {
        lasting(self.fence.expires_at, self.leased_at, now)
    }
}

/// The end of a lease that was given at `leased_at`, or `now` if that is yet to come.
pub(crate) fn lasting(
    expires_at: Option<OffsetDateTime>,
    leased_at: OffsetDateTime,
    now: OffsetDateTime,
) -> OffsetDateTime {
    expires_at.filter(|_| leased_at <= now).unwrap_or(now)
}

/// Locked pairs and the clock as it was when all locks were held.
#[derive(Debug)]
pub(crate) struct LockedPairs {
    pub(crate) now: OffsetDateTime,
    pub(crate) mark: OffsetDateTime,
    pub(crate) pairs: Vec<Pair>,
}

impl LockedPairs {
    /// The clock with its mark.
    pub(crate) fn clock(&self) -> ClockReading {
        ClockReading {
            now: self.now,
            mark: self.mark,
        }
    }

    pub(crate) fn find(&self, attempt: AttemptId) -> Option<&Pair> {
        self.pairs
            .iter()
            .find(|pair| pair.attempt.fence.attempt == attempt)
    }
}

/// Completes a locking read: the given CTEs must lock `j` (jobs), then `a` (attempts). The clock is
/// read after both. Yields a [`PairRecord`] for each attempt, or one with the clock alone.
macro_rules! select_pairs {
    ($ctes:literal, $($argument:expr),+ $(,)?) => {
        sqlx::query_as!(
            $crate::rows::PairRecord,
            $ctes
                + r#"clock as materialized (
            select authority_mark() as mark, authority_now() as now
            from (select count(*) from a) attempts_are_locked
        )
        select clock.now as "now!", clock.mark as "mark!", a.id as "attempt_id?", a.job_id as "job_id?",
            a.device_id as "device_id?", a.provider_id as "provider_id?",
            a.output_key as "output_key?", a.status::text as "status?",
            a.lease_epoch as "lease_epoch?", a.token_digest, a.lease_expires_at,
            a.accepted_at, a.claimed as "claimed?", a.unpresented_claim,
            a.replaced_epoch, a.replaced_digest, a.resumes as "resumes?",
            a.leased_at as "leased_at?",
            a.run_deadline as "run_deadline?", a.final_operation, a.final_epoch, a.final_digest, a.final_content,
            a.retain_epoch, a.retain_digest, a.retain_content,
            a.declared_key, a.declared_sha256, a.declared_size_bytes,
            a.verification_epoch as "verification_epoch?", a.verification_started_at,
            a.verify_until, a.part_bytes, a.multipart_id, a.failure_code, a.failure_message,
            j.org_id as "org_id?", j.status::text as "job_status?",
            j.max_attempts as "max_attempts?", j.charged_attempts as "charged_attempts?",
            j.returned_offers as "returned_offers?",
            j.admission_deadline as "admission_deadline?", j.base_micros as "base_micros?",
            j.per_minute_micros as "per_minute_micros?",
            j.provider_share_bps as "provider_share_bps?", j.held_micros as "held_micros?",
            j.epoch_counter as "epoch_counter?", j.service as "service?", j.params as "params?",
            j.max_output_seconds as "max_output_seconds?", j.cancel_requested_at
        from clock left join a on true left join j on j.id = a.job_id"#,
            $($argument),+
        )
    };
}
pub(crate) use select_pairs;

/// A time as it is given to SQL inside JSON, to the microsecond.
pub(crate) fn sql_time(at: OffsetDateTime) -> String {
    // RFC 3339 cannot fail for the years that Postgres hands out.
    at.format(&Rfc3339).unwrap_or_default()
}

/// Locks the jobs of `attempts`, then the attempts, each in id order, then reads the clock.
///
/// An attempt's job never changes, so finding it without a lock is safe; everything else comes out
/// of the locking CTEs.
pub(crate) async fn lock_pairs(
    tx: &mut Tx,
    attempts: &[AttemptId],
) -> Result<LockedPairs, StoreError> {
    let ids: Vec<Uuid> = attempts.iter().map(|id| id.0).collect();
    let records = select_pairs!(
        r#"-- lock_pairs
        with wanted as materialized (
            select job_id from attempts where id = any($1)
        ), j as materialized (
            select * from jobs where id in (select job_id from wanted)
            order by id for no key update
        ), a as materialized (
            select attempts.* from attempts, (select count(*) from j) jobs_are_locked
            where id = any($1)
            order by id for no key update of attempts
        ), "#,
        &ids
    )
    .fetch_all(&mut **tx)
    .await?;
    tx.point("locked").await;
    PairRecord::into_pairs(records)
}

/// One row of a locking read, before it is made sense of.
pub(crate) struct PairRecord {
    pub(crate) now: OffsetDateTime,
    pub(crate) mark: OffsetDateTime,
    pub(crate) attempt_id: Option<Uuid>,
    pub(crate) job_id: Option<Uuid>,
    pub(crate) device_id: Option<Uuid>,
    pub(crate) provider_id: Option<Uuid>,
    pub(crate) output_key: Option<String>,
    pub(crate) status: Option<String>,
    pub(crate) lease_epoch: Option<i64>,
    pub(crate) token_digest: Option<Vec<u8>>,
    pub(crate) lease_expires_at: Option<OffsetDateTime>,
    pub(crate) accepted_at: Option<OffsetDateTime>,
    pub(crate) claimed: Option<bool>,
    pub(crate) unpresented_claim: Option<Uuid>,
    pub(crate) replaced_epoch: Option<i64>,
    pub(crate) replaced_digest: Option<Vec<u8>>,
    pub(crate) resumes: Option<i32>,
    pub(crate) leased_at: Option<OffsetDateTime>,
    pub(crate) run_deadline: Option<OffsetDateTime>,
    pub(crate) final_operation: Option<String>,
    pub(crate) final_epoch: Option<i64>,
    pub(crate) final_digest: Option<Vec<u8>>,
    pub(crate) final_content: Option<Vec<u8>>,
    pub(crate) retain_epoch: Option<i64>,
    pub(crate) retain_digest: Option<Vec<u8>>,
    pub(crate) retain_content: Option<Vec<u8>>,
    pub(crate) declared_key: Option<String>,
    pub(crate) declared_sha256: Option<Vec<u8>>,
    pub(crate) declared_size_bytes: Option<i64>,
    pub(crate) verification_epoch: Option<i64>,
    pub(crate) verification_started_at: Option<OffsetDateTime>,
    pub(crate) verify_until: Option<OffsetDateTime>,
    pub(crate) part_bytes: Option<i64>,
    pub(crate) multipart_id: Option<String>,
    pub(crate) failure_code: Option<String>,
    pub(crate) failure_message: Option<String>,
    pub(crate) org_id: Option<Uuid>,
    pub(crate) job_status: Option<String>,
    pub(crate) max_attempts: Option<i32>,
    pub(crate) charged_attempts: Option<i32>,
    pub(crate) returned_offers: Option<i32>,
    pub(crate) admission_deadline: Option<OffsetDateTime>,
    pub(crate) base_micros: Option<i64>,
    pub(crate) per_minute_micros: Option<i64>,
    pub(crate) provider_share_bps: Option<i32>,
    pub(crate) held_micros: Option<i64>,
    pub(crate) epoch_counter: Option<i64>,
    pub(crate) service: Option<String>,
    pub(crate) params: Option<Value>,
    pub(crate) max_output_seconds: Option<i32>,
    pub(crate) cancel_requested_at: Option<OffsetDateTime>,
}

impl PairRecord {
    /// The clock and every complete pair. A locking read always returns the clock, even without rows.
    pub(crate) fn into_pairs(records: Vec<Self>) -> Result<LockedPairs, StoreError> {
        let (now, mark) = records
            .first()
            .map(|record| (record.now, record.mark))
            .ok_or_else(|| StoreError::inconsistent("attempts", "a locking read gave no clock"))?;
        let pairs = records
            .into_iter()
            .filter(|record| record.attempt_id.is_some() && record.org_id.is_some())
            .map(Self::into_pair)
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| {
                StoreError::inconsistent("attempts", "a row has a label of no variant")
            })?;
        Ok(LockedPairs { now, mark, pairs })
    }

    fn into_pair(self) -> Option<Pair> {
        let job = self.job()?;
        let final_answer = match self.final_operation {
            Some(operation) => Some(FinalAnswer {
                operation,
                epoch: self.final_epoch?,
                digest: CommitTokenDigest::from_bytes(&self.final_digest?)?,
                content: self.final_content?,
            }),
            None => None,
        };
        let hand_off = match self.retain_epoch {
            Some(epoch) => Some(FinalAnswer {
                operation: "retain".to_owned(),
                epoch,
                digest: CommitTokenDigest::from_bytes(&self.retain_digest?)?,
                content: self.retain_content?,
            }),
            None => None,
        };
        let declared = match self.declared_key {
            Some(object_key) => Some(Declared {
                object_key,
                sha256: self.declared_sha256?.try_into().ok()?,
                size_bytes: self.declared_size_bytes?,
            }),
            None => None,
        };
        let attempt = AttemptRow {
            fence: AttemptFence {
                device: DeviceId(self.device_id?),
                job: job.id,
                attempt: AttemptId(self.attempt_id?),
                epoch: self.lease_epoch?,
                digest: self
                    .token_digest
                    .as_deref()
                    .and_then(CommitTokenDigest::from_bytes),
                status: AttemptStatus::parse(&self.status?)?,
                expires_at: self.lease_expires_at,
            },
            provider: ProviderId(self.provider_id?),
            output_key: self.output_key?,
            accepted: self.accepted_at.is_some(),
            claimed: self.claimed?,
            unpresented_claim: self.unpresented_claim,
            replaced: self.replaced_epoch.zip(
                self.replaced_digest
                    .as_deref()
                    .and_then(CommitTokenDigest::from_bytes),
            ),
            resumes: self.resumes?,
            leased_at: self.leased_at?,
            run_deadline: self.run_deadline?,
            final_answer,
            hand_off,
            verification_epoch: self.verification_epoch?,
            verification_started_at: self.verification_started_at,
            verify_until: self.verify_until,
            declared,
            parts: self
                .multipart_id
                .zip(self.part_bytes)
                .map(|(id, bytes)| OpenUpload {
                    id,
                    part_bytes: bytes.unsigned_abs(),
                }),
            failure_code: self.failure_code.as_deref().map(FailureCode::parse_lenient),
            failure_message: self.failure_message,
        };
        Some(Pair { job, attempt })
    }

    fn job(&self) -> Option<JobRow> {
        Some(JobRow {
            id: JobId(self.job_id?),
            facts: JobFacts {
                status: JobStatus::parse(self.job_status.as_deref()?)?,
                max_attempts: self.max_attempts?,
                charged_attempts: self.charged_attempts?,
                returned_offers: self.returned_offers?,
                // Looked up only where it could matter (see return_offers).
                returned_widely: false,
                admission_deadline: self.admission_deadline?,
            },
            terms: PriceTerms {
                base_micros: self.base_micros?,
                per_minute_micros: self.per_minute_micros?,
                provider_share_bps: self.provider_share_bps?,
            },
            held_micros: self.held_micros?,
            epoch_counter: self.epoch_counter?,
            service: self.service.clone()?,
            params: self.params.clone()?,
            max_output_seconds: self.max_output_seconds?,
            cancel_requested_at: self.cancel_requested_at,
        })
    }
}

/// The status of a job as it is stored.
pub(crate) fn job_status(label: &str) -> Result<JobStatus, StoreError> {
    let unknown = || StoreError::inconsistent("jobs", format!("unknown status {label}"));
    JobStatus::parse(label).ok_or_else(unknown)
}
