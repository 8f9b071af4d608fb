//! The third statement: attempts come into being, and their jobs become active.

use std::time::Duration;

use fencepost_domain::artifact_key;
use fencepost_domain::commit_token::CommitToken;
use fencepost_domain::ids::{AttemptId, DeviceId, JobId, OrgId};
use fencepost_domain::matcher::Assignment;
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use super::pick::Picked;
use super::{LeaseRound, LeasedAttempt};
use crate::error::StoreError;
use crate::run::Tx;

impl LeaseRound {
    #[expect(clippy::too_many_lines, reason = "one statement")]
    pub(super) async fn grant(
        &self,
        tx: &mut Tx,
        picked: &Picked,
        assignments: &[Assignment],
    ) -> Result<Vec<Granted>, StoreError> {
        let settings = tx.settings.clone();
        // A claim counts as accepted; an offer has until the accept deadline.
        let (claim, length) = match &self.claim {
            Some(claim) => (Some(claim.request.0), settings.lease_ttl),
            None => (None, settings.offer_accept),
        };
        let (mut jobs, mut devices, mut sessions) = (Vec::new(), Vec::new(), Vec::new());
        let (mut attempts, mut digests, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        for (assignment, seed) in assignments.iter().zip(&self.seeds) {
            jobs.push(assignment.job.0);
            devices.push(assignment.device.0);
            sessions.push(self.session_of(assignment.device));
            attempts.push(seed.attempt.0);
            digests.push(seed.token.digest().as_bytes().to_vec());
            let extension = picked
                .jobs
                .iter()
                .find(|job| job.candidate.job == assignment.job)
                .map_or("bin", |job| job.extension);
            keys.push(artifact_key::attempt_output(
                assignment.job,
                seed.attempt,
                extension,
            ));
        }
        let rows = sqlx::query_as!(
            Granted,
            r#"-- lease_round: grant
            with picks as materialized (
                select * from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::uuid[],
                                     $5::bytea[], $6::text[])
                    as p(job_id, device_id, session, attempt_id, digest, output_key)
            ), clock as materialized (
                select $10::timestamptz as now
            ), granted as (
                insert into attempts (id, job_id, org_id, device_id, provider_id, attempt_number,
                    output_key, leased_at, run_deadline, session_number, lease_epoch,
                    token_digest, lease_expires_at, check_after, grant_expires_at,
                    accepted_at, claimed, unpresented_claim)
                select p.attempt_id, j.id, j.org_id, d.id, d.provider_id, j.attempt_counter + 1,
                    p.output_key, clock.now,
                    clock.now + j.max_run_micros * interval '1 microsecond', p.session,
                    j.epoch_counter + 1, p.digest,
                    clock.now + least($7, j.max_run_micros) * interval '1 microsecond',
                    clock.now + least($7, j.max_run_micros) * interval '1 microsecond',
                    clock.now + $8::bigint * interval '1 microsecond',
                    case when $9::uuid is not null then clock.now end, $9::uuid is not null, $9
                from picks p join jobs j on j.id = p.job_id
                    join devices d on d.id = p.device_id, clock
                where j.status = 'queued' and j.queue_key is not null
                on conflict (job_id) where ended_at is null do nothing
                returning *
            ), activated as (
                update jobs j set status = 'active', queue_key = null,
                    epoch_counter = granted.lease_epoch, attempt_counter = granted.attempt_number
                from granted where j.id = granted.job_id and j.status = 'queued'
                returning j.*
            )
            select g.id, g.job_id, g.org_id, g.device_id, g.attempt_number, g.lease_epoch as epoch,
                g.lease_expires_at as "expires_at!", g.leased_at as now, g.grant_expires_at,
                g.output_key, j.service, j.params, j.inputs, j.max_output_seconds,
                j.max_run_micros
            from granted g join activated j on j.id = g.job_id"#,
            &jobs,
            &devices,
            &sessions,
            &attempts,
            &digests,
            &keys,
            length.micros(),
            settings.grant.micros(),
            claim,
            picked.now
        )
        .fetch_all(&mut **tx)
        .await?;
        Ok(rows)
    }

    fn session_of(&self, device: DeviceId) -> i64 {
        let sessions = self.pulls.iter().filter(|pull| pull.device == device);
        // The lock statement let only pulls of the current session through, which is the highest.
        sessions.map(|pull| pull.session.0).max().unwrap_or(0)
    }

    /// An earlier run that is still committing holds the devices that it leased to.
    pub(super) async fn wait_for_earlier_run(&self, tx: &mut Tx) -> Result<(), StoreError> {
        let devices: Vec<Uuid> = self.pulls.iter().map(|pull| pull.device.0).collect();
        sqlx::query!(
            r#"-- lease_round: wait
            select from devices where id = any($1) order by id for no key update"#,
            &devices
        )
        .execute(&mut **tx)
        .await?;
        Ok(())
    }

    /// What an earlier run of this very round granted.
    pub(super) async fn find_granted(&self, tx: &mut Tx) -> Result<Vec<Granted>, StoreError> {
        let ids: Vec<Uuid> = self.seeds.iter().map(|seed| seed.attempt.0).collect();
        let rows = sqlx::query_as!(
            Granted,
            r#"-- lease_round: find
            with clock as materialized (select authority_now() as now)
            select a.id, a.job_id, a.org_id, a.device_id, a.attempt_number, a.lease_epoch as epoch,
                a.lease_expires_at as "expires_at!", clock.now as "now!", a.grant_expires_at,
                a.output_key, j.service, j.params, j.inputs, j.max_output_seconds,
                j.max_run_micros
            from attempts a join jobs j on j.id = a.job_id, clock
            where a.id = any($1) and a.ended_at is null"#,
            &ids
        )
        .fetch_all(&mut **tx)
        .await?;
        Ok(rows)
    }

    /// Pairs rows with their secrets by id, never by order.
    pub(super) fn with_tokens(
        &self,
        granted: Vec<Granted>,
    ) -> Result<Vec<LeasedAttempt>, StoreError> {
        let leased = granted.into_iter().map(|row| {
            let seed = self.seeds.iter().find(|seed| seed.attempt.0 == row.id);
            let seed = seed.ok_or_else(|| {
                StoreError::inconsistent("attempts", format!("{} is of another round", row.id))
            })?;
            Ok(row.lease(seed.token.clone()))
        });
        leased.collect()
    }
}

/// A granted lease without its secret.
pub(super) struct Granted {
    id: Uuid,
    job_id: Uuid,
    org_id: Uuid,
    device_id: Uuid,
    attempt_number: i32,
    epoch: i64,
    expires_at: OffsetDateTime,
    now: OffsetDateTime,
    grant_expires_at: OffsetDateTime,
    output_key: String,
    service: String,
    params: Value,
    inputs: Value,
    max_output_seconds: i32,
    max_run_micros: i64,
}

impl Granted {
    fn lease(self, token: CommitToken) -> LeasedAttempt {
        LeasedAttempt {
            job: JobId(self.job_id),
            org: OrgId(self.org_id),
            attempt: AttemptId(self.id),
            attempt_number: self.attempt_number,
            device: DeviceId(self.device_id),
            epoch: self.epoch,
            token,
            expires_at: self.expires_at,
            remaining: (self.expires_at - self.now).try_into().unwrap_or_default(),
            grant_expires_at: self.grant_expires_at,
            service: self.service,
            params: self.params,
            inputs: self.inputs,
            output_key: self.output_key,
            max_output_seconds: self.max_output_seconds.unsigned_abs(),
            max_run: Duration::from_micros(self.max_run_micros.unsigned_abs()),
        }
    }
}
