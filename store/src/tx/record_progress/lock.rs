//! The locking read of progress, which waits for nobody when it takes many.

use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::clock::ClockReading;
use fencepost_domain::fencing::AttemptFence;
use fencepost_domain::ids::{AttemptId, DeviceId, JobId};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::StoreError;
use crate::run::Tx;

/// A locked attempt, as much of it as progress may decide on.
pub(super) struct Row {
    pub(super) fence: AttemptFence,
    pub(super) stop_reason: Option<String>,
    pub(super) leased_at: OffsetDateTime,
    pub(super) run_deadline: OffsetDateTime,
}

struct LockedRow {
    now: OffsetDateTime,
    mark: OffsetDateTime,
    id: Option<Uuid>,
    job_id: Option<Uuid>,
    device_id: Option<Uuid>,
    status: Option<String>,
    lease_epoch: Option<i64>,
    lease_expires_at: Option<OffsetDateTime>,
    stop_reason: Option<String>,
    leased_at: Option<OffsetDateTime>,
    run_deadline: Option<OffsetDateTime>,
}

/// The locking read, which differs only in how it meets a lock: that cannot be a parameter.
macro_rules! lock_progress {
    ($ids:expr, $name:literal, $meet:literal) => {
        sqlx::query_as!(
            LockedRow,
            $name
                + r#"with a as materialized (
                select * from attempts where id = any($1) order by id for no key update "#
                + $meet
                + r#"
            ), clock as materialized (
                select authority_mark() as mark, authority_now() as now
                from (select count(*) from a) all_are_locked
            )
            select clock.now as "now!", clock.mark as "mark!", a.id as "id?", a.job_id as "job_id?",
                a.device_id as "device_id?", a.status::text as "status?",
                a.lease_epoch as "lease_epoch?", a.lease_expires_at, a.stop_reason,
                a.leased_at as "leased_at?", a.run_deadline as "run_deadline?"
            from clock left join a on true"#,
            $ids
        )
    };
}

pub(super) async fn lock(
    tx: &mut Tx,
    ids: &[Uuid],
    wait: bool,
) -> Result<(ClockReading, Vec<Row>), StoreError> {
    let records = if wait {
        lock_progress!(ids, "-- record_progress: lock, waiting\n", "")
            .fetch_all(&mut **tx)
            .await?
    } else {
        lock_progress!(
            ids,
            "-- record_progress: lock what is free\n",
            "skip locked"
        )
        .fetch_all(&mut **tx)
        .await?
    };
    tx.point("locked").await;
    let clock = records
        .first()
        .map(|record| ClockReading {
            now: record.now,
            mark: record.mark,
        })
        .ok_or_else(|| StoreError::inconsistent("attempts", "a locking read gave no clock"))?;
    Ok((
        clock,
        records
            .into_iter()
            .filter_map(LockedRow::into_row)
            .collect(),
    ))
}

impl LockedRow {
    fn into_row(self) -> Option<Row> {
        Some(Row {
            fence: AttemptFence {
                device: DeviceId(self.device_id?),
                job: JobId(self.job_id?),
                attempt: AttemptId(self.id?),
                epoch: self.lease_epoch?,
                digest: None,
                status: AttemptStatus::parse(&self.status?)?,
                expires_at: self.lease_expires_at,
            },
            stop_reason: self.stop_reason,
            leased_at: self.leased_at?,
            run_deadline: self.run_deadline?,
        })
    }
}
