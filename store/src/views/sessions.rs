//! What a gateway re-reads about the sessions that it holds.

use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::failure::FailureCode;
use fencepost_domain::ids::{AttemptId, DeviceId, JobId, SessionNumber};
use fencepost_domain::job::JobStatus;
use uuid::Uuid;

use crate::error::StoreError;
use crate::finalized::{Ended, FinalizedAttempt};
use crate::run::Store;

/// A session as the database knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionView {
    /// The device.
    pub device: DeviceId,
    /// The session that was asked about.
    pub session: SessionNumber,
    /// Whether it is still the current one.
    pub current: bool,
    /// Whether the device may work at all, and has not been disabled or paired again since.
    pub valid: bool,
    /// The device's live attempts.
    pub live: Vec<HeldAttempt>,
}

/// A live attempt of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldAttempt {
    /// The job.
    pub job: JobId,
    /// The attempt.
    pub attempt: AttemptId,
    /// Its epoch.
    pub epoch: i64,
    /// Whether its agent took it.
    pub accepted: bool,
    /// Whether it was claimed outside a session, whose agent does not know of it.
    pub claimed: bool,
    /// Why it must stop.
    pub stop_reason: Option<String>,
}

impl Store {
    /// The sessions asked about, with the live attempts of their devices.
    pub async fn sessions(
        &self,
        asked: Vec<(DeviceId, SessionNumber)>,
    ) -> Result<Vec<SessionView>, StoreError> {
        let devices: Vec<Uuid> = asked.iter().map(|(device, _)| device.0).collect();
        let rows = self
            .read_reserved("sessions", move |mut conn| async move {
                sqlx::query!(
                    r#"-- sessions
                    select d.id, coalesce(d.current_session, 0) as "current!", d.enabled,
                        d.void_through,
                        a.id as "attempt_id?", a.job_id as "job_id?",
                        a.lease_epoch as "lease_epoch?", a.stop_reason,
                        (a.accepted_at is not null) as "accepted!", a.claimed as "claimed?"
                    from devices d
                    left join attempts a on a.device_id = d.id and a.ended_at is null
                    where d.id = any($1) order by d.id, a.id"#,
                    &devices
                )
                .fetch_all(&mut *conn)
                .await
            })
            .await?;
        let view = |&(device, session): &(DeviceId, SessionNumber)| {
            // The rows come in the order of devices.
            let from = rows.partition_point(|row| row.id < device.0);
            let mine = rows[from..].iter().take_while(|row| row.id == device.0);
            let live = mine.clone().filter_map(|row| {
                Some(HeldAttempt {
                    job: JobId(row.job_id?),
                    attempt: AttemptId(row.attempt_id?),
                    epoch: row.lease_epoch?,
                    accepted: row.accepted,
                    claimed: row.claimed?,
                    stop_reason: row.stop_reason.clone(),
                })
            });
            let first = mine.clone().next();
            SessionView {
                device,
                session,
                current: first.is_some_and(|row| row.current == session.0),
                valid: first.is_some_and(|row| row.enabled && row.void_through < session.0),
                live: live.collect(),
            }
        };
        Ok(asked.iter().map(view).collect())
    }

    /// Of the attempts asked about, those that have ended: the proof that frees their slots.
    pub async fn finalized(
        &self,
        attempts: Vec<AttemptId>,
    ) -> Result<Vec<FinalizedAttempt>, StoreError> {
        let ids: Vec<Uuid> = attempts.iter().map(|attempt| attempt.0).collect();
        let rows = self
            .read_reserved("finalized", move |mut conn| async move {
                sqlx::query!(
                    r#"-- finalized
                    select a.id, a.job_id, a.device_id, a.status::text as "status!",
                        a.failure_code, a.failure_message, j.status::text as "job_status!"
                    from attempts a join jobs j on j.id = a.job_id
                    where a.id = any($1) and a.ended_at is not null"#,
                    &ids
                )
                .fetch_all(&mut *conn)
                .await
            })
            .await?;
        let ended = rows.into_iter().filter_map(|row| {
            Some(FinalizedAttempt::after_commit(Ended {
                attempt: AttemptId(row.id),
                job: JobId(row.job_id),
                device: DeviceId(row.device_id),
                status: AttemptStatus::parse(&row.status)?,
                code: row.failure_code.as_deref().map(FailureCode::parse_lenient),
                message: row.failure_message,
                job_status: JobStatus::parse(&row.job_status)?,
            }))
        });
        Ok(ended.collect())
    }
}
