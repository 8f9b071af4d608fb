//! A match round: leases waiting jobs to every free slot that was pulled for, in one transaction.
//!
//! Locks: the devices that pull (current session, enabled, not draining: checked again under the
//! lock), then the orgs with jobs for them; in a second statement, whose snapshot is newer than those
//! locks, the jobs that it may take (`SKIP LOCKED`: another gateway's are not waited for). So the
//! slots of a device and the limit of an org are exact across gateways.
//! Checks: `domain::matcher` decides, on locked rows, who gets what.
//! Writes: attempts with epoch, digest and output key; `queued → active`. A job that still has a
//! live attempt is left out by the unique index and counted as a violated invariant.
//!
//! This is the file in which a lease is granted.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use fencepost_domain::artifact_key;
use fencepost_domain::commit_token::CommitToken;
use fencepost_domain::ids::{AttemptId, DeviceId, JobId, OrgId, SessionNumber};
use fencepost_domain::matcher::{Assignment, Candidate, DeviceRoom, OrgRoom, assign};
use fencepost_domain::service::{ServiceName, ServiceParams};
use serde::Deserialize;
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::StoreError;
use crate::run::{Store, Transaction, Tx};
use crate::secrets::mint_commit_token;

/// A device asks for work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pull {
    /// The device.
    pub device: DeviceId,
    /// The session that asks; only the device's current one is leased to.
    pub session: SessionNumber,
    /// How many attempts it can take.
    pub slots_free: u32,
}

/// Where the next round begins to look, so that many orgs with many lanes all get their turn though
/// no round reads more than a bounded number of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cursor {
    lane: String,
    org: Uuid,
}

/// What a round did.
#[derive(Debug)]
pub struct RoundReport {
    /// What was leased. The plaintext tokens are in here, for the offers, and nowhere else.
    pub leased: Vec<LeasedAttempt>,
    /// Whether attempts or waiting jobs are due: sweep, then ask again.
    pub due: bool,
    /// Give it to the next round.
    pub cursor: Cursor,
}

/// A lease to be offered.
#[derive(Debug, Clone)]
pub struct LeasedAttempt {
    /// The job.
    pub job: JobId,
    /// The attempt.
    pub attempt: AttemptId,
    /// Which attempt of the job it is.
    pub attempt_number: i32,
    /// The device it was leased to.
    pub device: DeviceId,
    /// The epoch.
    pub epoch: i64,
    /// The secret. It leaves once, in the offer.
    pub token: CommitToken,
    /// The accept deadline.
    pub expires_at: OffsetDateTime,
    /// From when it was decided.
    pub remaining: Duration,
    /// Until when links to its objects can be used.
    pub grant_expires_at: OffsetDateTime,
    /// The service.
    pub service: String,
    /// Its parameters.
    pub params: Value,
    /// Its inputs: array of `{name, object_key, sha256, size_bytes}`.
    pub inputs: Value,
    /// The object that it may write.
    pub output_key: String,
    /// The longest output.
    pub max_output_seconds: u32,
    /// The longest run.
    pub max_run: Duration,
}

impl Store {
    /// Leases jobs for standing pulls. Pulls of sessions that are not current get nothing.
    pub async fn lease_round(
        &self,
        pulls: Vec<Pull>,
        cursor: Cursor,
    ) -> Result<RoundReport, StoreError> {
        let wanted: u32 = pulls.iter().map(|pull| pull.slots_free).sum();
        // Ids and secrets are made before the transaction: a second run, after an unknown COMMIT,
        // finds the first one's attempts by them.
        let seeds = (0..wanted)
            .map(|_| Seed {
                attempt: AttemptId::new(),
                token: mint_commit_token(),
            })
            .collect();
        self.execute(LeaseRound {
            pulls,
            seeds,
            cursor,
        })
        .await
    }
}

/// The most (lane, org) pairs that one round looks at.
const MAX_PAIRS: i32 = 256;

struct LeaseRound {
    pulls: Vec<Pull>,
    seeds: Vec<Seed>,
    cursor: Cursor,
}

struct Seed {
    attempt: AttemptId,
    token: CommitToken,
}

impl Transaction for LeaseRound {
    const NAME: &'static str = "lease_round";
    type Output = RoundReport;

    async fn run(&self, tx: &mut Tx) -> Result<RoundReport, StoreError> {
        if tx.rerun {
            let granted = self.find_granted(tx).await?;
            if !granted.is_empty() {
                let leased = self.with_tokens(granted)?;
                return Ok(RoundReport {
                    leased,
                    due: false,
                    cursor: self.cursor.clone(),
                });
            }
        }
        let locked = self.lock_rooms(tx).await?;
        let mut report = RoundReport {
            leased: Vec::new(),
            due: locked.due,
            cursor: locked.cursor.clone(),
        };
        if locked.orgs.is_empty() {
            return Ok(report);
        }
        let waiting = pick(tx, &locked, self.seeds.len()).await?;
        let rooms = self.rooms(&locked, &waiting);
        let orgs = org_rooms(&locked, &waiting);
        let candidates = waiting
            .jobs
            .iter()
            .map(|job| job.candidate.clone())
            .collect();
        let assignments = assign(rooms, candidates, orgs);
        if !assignments.is_empty() {
            let granted = self.grant(tx, &waiting, &assignments).await?;
            count_blocked(assignments.len() - granted.len());
            report.leased = self.with_tokens(granted)?;
        }
        Ok(report)
    }
}

/// Jobs that were assigned and not inserted: each still has a live attempt, which cannot be.
fn count_blocked(blocked: usize) {
    if blocked > 0 {
        let id = "queued_job_has_live_attempt";
        metrics::counter!("fencepost_invariant_violations_total", "id" => id)
            .increment(blocked as u64);
        tracing::error!(
            blocked,
            "queued jobs still have a live attempt and were not leased again"
        );
    }
}

/// What the first statement locked and found.
struct Locked {
    devices: Vec<LockedDevice>,
    orgs: Vec<LockedOrg>,
    pairs: Vec<ServablePair>,
    due: bool,
    cursor: Cursor,
}

#[derive(Deserialize)]
struct LockedDevice {
    id: Uuid,
    slots: i64,
    words: BTreeSet<String>,
}

#[derive(Deserialize)]
struct LockedOrg {
    id: Uuid,
    max_live_attempts: Option<i64>,
}

#[derive(Deserialize)]
struct ServablePair {
    lane: String,
    org_id: Uuid,
}

/// What the second statement counted and locked.
#[derive(Default)]
struct Picked {
    live_of_device: HashMap<Uuid, i64>,
    live_of_org: HashMap<Uuid, i64>,
    jobs: Vec<PickedJob>,
}

struct PickedJob {
    candidate: Candidate,
    extension: &'static str,
}

impl LeaseRound {
    async fn lock_rooms(&self, tx: &mut Tx) -> Result<Locked, StoreError> {
        let devices: Vec<Uuid> = self.pulls.iter().map(|pull| pull.device.0).collect();
        let sessions: Vec<i64> = self.pulls.iter().map(|pull| pull.session.0).collect();
        let max_orgs = i64::try_from(self.seeds.len() * 2).unwrap_or(i64::MAX);
        let row = sqlx::query!(
            r#"-- lease_round: lock
            with recursive d as materialized (
                select devices.id, devices.slots, devices.words from devices
                join unnest($1::uuid[], $2::bigint[]) as p(device_id, session)
                    on p.device_id = devices.id
                where devices.current_session = p.session
                    and devices.enabled and not devices.draining
                order by devices.id for no key update of devices
            ), pairs as (
                -- a walk along the index that touches one entry of each (lane, org)
                (select lane, org_id, 1 as place from jobs
                 where queue_key is not null and (lane, org_id) > ($3, $4)
                 order by lane, org_id limit 1)
                union all
                select next.lane, next.org_id, pairs.place + 1
                from pairs cross join lateral (
                    select lane, org_id from jobs
                    where queue_key is not null and (lane, org_id) > (pairs.lane, pairs.org_id)
                    order by lane, org_id limit 1
                ) next
                where pairs.place < $5
            ), servable as materialized (
                select lane, org_id, place from pairs
                where exists (select from d where string_to_array(pairs.lane, ' ') <@ d.words)
            ), o as materialized (
                select id, max_live_attempts from orgs
                where id in (select org_id from servable group by org_id
                             order by min(place) limit $6)
                    and (select count(*) from d) > 0
                order by id for no key update
            ), clock as materialized (
                select authority_now() as now from (select count(*) from o) all_are_locked
            )
            select coalesce((select jsonb_agg(d) from d), '[]') as "devices!",
                coalesce((select jsonb_agg(o) from o), '[]') as "orgs!",
                coalesce((select jsonb_agg(servable) from servable
                          where org_id in (select id from o)), '[]') as "pairs!",
                (select count(*) from pairs) as "seen!",
                (select lane from pairs order by place desc limit 1) as last_lane,
                (select org_id from pairs order by place desc limit 1) as last_org,
                (exists (select from attempts where ended_at is null and check_after <= clock.now)
                 or exists (select from jobs where wake_at <= clock.now)) as "due!"
            from clock"#,
            &devices,
            &sessions,
            self.cursor.lane,
            self.cursor.org,
            MAX_PAIRS,
            max_orgs
        )
        .fetch_one(&mut **tx)
        .await?;
        // Fewer than the bound means that the walk reached the end: begin anew.
        let cursor = match (row.last_lane, row.last_org) {
            (Some(lane), Some(org)) if row.seen >= i64::from(MAX_PAIRS) => Cursor { lane, org },
            _ => Cursor::default(),
        };
        Ok(Locked {
            devices: read_json(row.devices)?,
            orgs: read_json(row.orgs)?,
            pairs: read_json(row.pairs)?,
            due: row.due,
            cursor,
        })
    }

    /// Slots offered = the smaller of what was pulled for and what is free by the attempt rows.
    fn rooms(&self, locked: &Locked, picked: &Picked) -> Vec<DeviceRoom> {
        let room = |device: &LockedDevice| {
            let live = picked.live_of_device.get(&device.id).copied().unwrap_or(0);
            let pulled = self
                .pulls
                .iter()
                .filter(|pull| pull.device.0 == device.id)
                .map(|pull| i64::from(pull.slots_free))
                .max()
                .unwrap_or(0);
            let free = usize::try_from(pulled.min(device.slots - live)).unwrap_or(0);
            DeviceRoom {
                device: DeviceId(device.id),
                free,
                words: device.words.clone(),
            }
        };
        locked.devices.iter().map(room).collect()
    }

    async fn grant(
        &self,
        tx: &mut Tx,
        picked: &Picked,
        assignments: &[Assignment],
    ) -> Result<Vec<Granted>, StoreError> {
        let settings = tx.settings.clone();
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
                select authority_now() as now
            ), granted as (
                insert into attempts (id, job_id, org_id, device_id, provider_id, attempt_number,
                    output_key, leased_at, run_deadline, session_number, lease_epoch,
                    token_digest, lease_expires_at, check_after, grant_expires_at)
                select p.attempt_id, j.id, j.org_id, d.id, d.provider_id, j.attempt_counter + 1,
                    p.output_key, clock.now,
                    clock.now + j.max_run_micros * interval '1 microsecond', p.session,
                    j.epoch_counter + 1, p.digest,
                    clock.now + $7::bigint * interval '1 microsecond',
                    clock.now + $7::bigint * interval '1 microsecond',
                    clock.now + $8::bigint * interval '1 microsecond'
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
            select g.id, g.job_id, g.device_id, g.attempt_number, g.lease_epoch as epoch,
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
            settings.offer_accept.micros(),
            settings.grant.micros()
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

    /// What an earlier run of this very round granted.
    async fn find_granted(&self, tx: &mut Tx) -> Result<Vec<Granted>, StoreError> {
        let ids: Vec<Uuid> = self.seeds.iter().map(|seed| seed.attempt.0).collect();
        let rows = sqlx::query_as!(
            Granted,
            r#"-- lease_round: find
            with clock as materialized (select authority_now() as now)
            select a.id, a.job_id, a.device_id, a.attempt_number, a.lease_epoch as epoch,
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
    fn with_tokens(&self, granted: Vec<Granted>) -> Result<Vec<LeasedAttempt>, StoreError> {
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

fn org_rooms(locked: &Locked, picked: &Picked) -> Vec<OrgRoom> {
    let room = |org: &LockedOrg| OrgRoom {
        org: OrgId(org.id),
        live: picked.live_of_org.get(&org.id).copied().unwrap_or(0),
        limit: org.max_live_attempts,
    };
    locked.orgs.iter().map(room).collect()
}

/// Counts what is live, takes the heads of every (lane, org) fairly, and locks them.
async fn pick(tx: &mut Tx, locked: &Locked, wanted: usize) -> Result<Picked, StoreError> {
    let devices: Vec<Uuid> = locked.devices.iter().map(|device| device.id).collect();
    let lanes: Vec<String> = locked.pairs.iter().map(|pair| pair.lane.clone()).collect();
    let pair_orgs: Vec<Uuid> = locked.pairs.iter().map(|pair| pair.org_id).collect();
    let orgs: Vec<Uuid> = locked.orgs.iter().map(|org| org.id).collect();
    // Twice what can be leased, because some of it may be barred or locked by others.
    let most = i64::try_from(wanted * 2).unwrap_or(i64::MAX);
    let heads = most / i64::try_from(lanes.len().max(1)).unwrap_or(1) + 2;
    let rows = sqlx::query!(
        r#"-- lease_round: count and pick
        with clock as materialized (
            select authority_now() as now
        ), live_of_device as materialized (
            select device_id as id, count(*) as live from attempts
            where device_id = any($1) and ended_at is null group by device_id
        ), live_of_org as materialized (
            select org_id as id, count(*) as live from attempts
            where org_id = any($2) and ended_at is null group by org_id
        ), heads as materialized (
            select h.*, row_number() over (partition by h.org_id order by h.queue_key, h.id) as place
            from unnest($3::text[], $4::uuid[]) as p(lane, org_id) cross join lateral (
                select id, org_id, queue_key from jobs
                where queue_key is not null and lane = p.lane and org_id = p.org_id
                order by queue_key, id limit $5
            ) h
        ), chosen as materialized (
            select heads.id, coalesce(o.live, 0) + heads.place as turn
            from heads left join live_of_org o on o.id = heads.org_id
            order by turn, heads.queue_key limit $6
        ), j as materialized (
            select jobs.* from jobs, clock
            where id in (select id from chosen) and queue_key is not null
                and admission_deadline > clock.now
            order by id for no key update of jobs skip locked
        )
        select j.id as "id?", j.org_id as "org_id?", j.lane as "lane?", j.service as "service?",
            j.params as "params?",
            coalesce((select jsonb_object_agg(id, live) from live_of_device), '{}')
                as "live_of_device!",
            coalesce((select jsonb_object_agg(id, live) from live_of_org), '{}') as "live_of_org!",
            -- devices that gave this job's offer back within five minutes
            array(select device_id from attempts a
                where a.job_id = j.id and a.accepted_at is null
                    and a.ended_at > clock.now - interval '5 minutes') as "barred!",
            -- devices that failed or lost it
            array(select device_id from attempts a
                where a.job_id = j.id and a.charged) as "shunned!"
        from clock left join j on true
        order by j.queue_key, j.id"#,
        &devices,
        &orgs,
        &lanes,
        &pair_orgs,
        heads,
        most
    )
    .fetch_all(&mut **tx)
    .await?;
    let mut picked = Picked::default();
    for row in rows {
        picked.live_of_device = read_json(row.live_of_device)?;
        picked.live_of_org = read_json(row.live_of_org)?;
        let (Some(id), Some(org), Some(lane), Some(service), Some(params)) =
            (row.id, row.org_id, row.lane, row.service, row.params)
        else {
            continue;
        };
        picked.jobs.push(PickedJob {
            candidate: Candidate {
                job: JobId(id),
                org: OrgId(org),
                lane,
                barred: row.barred.into_iter().map(DeviceId).collect(),
                shunned: row.shunned.into_iter().map(DeviceId).collect(),
            },
            extension: extension(&service, &params),
        });
    }
    Ok(picked)
}

/// File extension of the service's output; a service that this build does not know gets a plain one.
fn extension(service: &str, params: &Value) -> &'static str {
    let service = ServiceName::parse(service);
    match service.map(|service| ServiceParams::parse(service, params)) {
        Some(Ok(ServiceParams::Transcode(params))) => params.codec.extension(),
        Some(Err(_)) | None => "bin",
    }
}

/// A granted lease without its secret.
struct Granted {
    id: Uuid,
    job_id: Uuid,
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

fn read_json<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, StoreError> {
    serde_json::from_value(value)
        .map_err(|error| StoreError::inconsistent("devices", error.to_string()))
}
