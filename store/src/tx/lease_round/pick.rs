//! The second statement: what is taken, and the jobs that may be leased, fairly chosen and locked.

use std::collections::HashMap;

use fencepost_domain::device_health::{LOOK_BACK, PastAttempt, judge};
use fencepost_domain::ids::{DeviceId, JobId, OrgId};
use fencepost_domain::matcher::{Candidate, DeviceRoom, OrgRoom};
use fencepost_domain::service::{ServiceName, ServiceParams};
use serde::Deserialize;
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use super::lock::{Locked, LockedDevice, LockedOrg};
use super::{LeaseRound, read_json};
use crate::error::StoreError;
use crate::run::Tx;
use crate::views::blame;

/// What the second statement counted and locked.
#[derive(Default)]
pub(super) struct Picked {
    pub(super) now: Option<OffsetDateTime>,
    pub(super) past: Vec<PastOfDevice>,
    pub(super) live_of_device: HashMap<Uuid, i64>,
    pub(super) live_of_org: HashMap<Uuid, i64>,
    pub(super) jobs: Vec<PickedJob>,
}

/// How one of the last attempts of a device ended.
#[derive(Deserialize)]
pub(super) struct PastOfDevice {
    device_id: Uuid,
    #[serde(with = "time::serde::rfc3339::option")]
    ended_at: Option<OffsetDateTime>,
    blame: String,
}

impl PastOfDevice {
    fn judged(&self) -> PastAttempt {
        PastAttempt {
            ended_at: self.ended_at,
            blame: blame(&self.blame),
        }
    }
}

impl Picked {
    /// Whether the device has failed so often of late that it gets nothing now.
    fn is_closed(&self, device: Uuid) -> bool {
        let Some(now) = self.now else { return false };
        let mine = self.past.iter().filter(|past| past.device_id == device);
        // An end that is yet to come was written by a clock that has gone back since.
        let past: Vec<_> = mine
            .map(PastOfDevice::judged)
            .filter(|past| past.ended_at.is_none_or(|ended_at| ended_at <= now))
            .collect();
        judge(&past).is_closed(now)
    }
}

pub(super) struct PickedJob {
    pub(super) candidate: Candidate,
    pub(super) extension: &'static str,
}

/// A job that was locked.
#[derive(Deserialize)]
struct Waiting {
    id: Uuid,
    org_id: Uuid,
    lane: String,
    service: String,
    params: Value,
    barred: Vec<Uuid>,
    shunned: Vec<Uuid>,
}

impl From<Waiting> for PickedJob {
    fn from(job: Waiting) -> Self {
        Self {
            extension: extension(&job.service, &job.params),
            candidate: Candidate {
                job: JobId(job.id),
                org: OrgId(job.org_id),
                lane: job.lane,
                barred: job.barred.into_iter().map(DeviceId).collect(),
                shunned: job.shunned.into_iter().map(DeviceId).collect(),
            },
        }
    }
}

impl LeaseRound {
    /// Slots offered = the smaller of what was pulled for and what is free by the attempt rows.
    pub(super) fn rooms(&self, locked: &Locked, picked: &Picked) -> Vec<DeviceRoom> {
        let room = |device: &LockedDevice| {
            let live = picked.live_of_device.get(&device.id).copied().unwrap_or(0);
            let pulled = self
                .pulls
                .iter()
                .filter(|pull| pull.device.0 == device.id)
                .map(|pull| i64::from(pull.slots_free))
                .max()
                .unwrap_or(0);
            let closed = picked.is_closed(device.id);
            let free = if closed {
                0
            } else {
                pulled.min(device.slots - live)
            };
            let free = usize::try_from(free).unwrap_or(0);
            DeviceRoom {
                device: DeviceId(device.id),
                free,
                words: device.words.clone(),
            }
        };
        locked.devices.iter().map(room).collect()
    }
}

pub(super) fn org_rooms(locked: &Locked, picked: &Picked) -> Vec<OrgRoom> {
    let room = |org: &LockedOrg| OrgRoom {
        org: OrgId(org.id),
        live: picked.live_of_org.get(&org.id).copied().unwrap_or(0),
        limit: org.max_live_attempts,
    };
    locked.orgs.iter().map(room).collect()
}

/// Counts what is live, takes the heads of every (lane, org) fairly, and locks them.
#[expect(clippy::too_many_lines, reason = "one statement")]
pub(super) async fn pick(
    tx: &mut Tx,
    locked: &Locked,
    wanted: usize,
) -> Result<Picked, StoreError> {
    let devices: Vec<Uuid> = locked.devices.iter().map(|device| device.id).collect();
    let lanes: Vec<String> = locked.pairs.iter().map(|pair| pair.lane.clone()).collect();
    let pair_orgs: Vec<Uuid> = locked.pairs.iter().map(|pair| pair.org_id).collect();
    let orgs: Vec<Uuid> = locked.orgs.iter().map(|org| org.id).collect();
    // Twice what can be leased, because some of it may be barred or locked by others.
    let most = i64::try_from(wanted * 2).unwrap_or(i64::MAX);
    let heads = most / i64::try_from(lanes.len().max(1)).unwrap_or(1) + 2;
    let row = sqlx::query!(
        r#"-- lease_round: count and pick
        with clock as materialized (
            select $8::timestamptz as now
        ), live_of_device as materialized (
            select device_id as id, count(*) as live from attempts
            where device_id = any($1) and ended_at is null group by device_id
        ), past as materialized (
            -- how the last attempts of each device ended, newest first
            select d.id as device_id, a.id, a.ended_at, a.blame
            from devices d cross join lateral (
                select id, ended_at, blame_of(attempts, exists (
                    select from jobs j where j.id = job_id and j.inputs @? '$[*].host')) as blame
                from attempts
                where device_id = d.id and (d.forgiven_at is null or leased_at > d.forgiven_at)
                order by id desc limit $7
            ) a
            where d.id = any($1)
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
        ), waiting as materialized (
            select j.id, j.org_id, j.lane, j.service, j.params, j.queue_key,
                -- devices that gave this job's offer back within five minutes
                array(select device_id from attempts a
                    where a.job_id = j.id and a.returned
                        and a.ended_at > clock.now - interval '5 minutes'
                        and a.ended_at <= clock.now) as barred,
                -- devices that failed or lost it
                array(select device_id from attempts a
                    where a.job_id = j.id and a.charged) as shunned
            from j, clock
        )
        -- one row: what is counted once is also sent once
        select
            coalesce((select jsonb_agg(p order by p.id desc) from past p
                      where p.device_id in (select device_id from past where blame <> 'none')),
                '[]') as "past!",
            coalesce((select jsonb_object_agg(id, live) from live_of_device), '{}')
                as "live_of_device!",
            coalesce((select jsonb_object_agg(id, live) from live_of_org), '{}') as "live_of_org!",
            coalesce((select jsonb_agg(w order by w.queue_key, w.id) from waiting w), '[]')
                as "jobs!""#,
        &devices,
        &orgs,
        &lanes,
        &pair_orgs,
        heads,
        most,
        i64::try_from(LOOK_BACK).unwrap_or(i64::MAX),
        locked.now
    )
    .fetch_one(&mut **tx)
    .await?;
    let jobs: Vec<Waiting> = read_json(row.jobs)?;
    Ok(Picked {
        now: Some(locked.now),
        past: read_json(row.past)?,
        live_of_device: read_json(row.live_of_device)?,
        live_of_org: read_json(row.live_of_org)?,
        jobs: jobs.into_iter().map(PickedJob::from).collect(),
    })
}

/// File extension of the service's output; a service that this build does not know gets a plain one.
fn extension(service: &str, params: &Value) -> &'static str {
    let service = ServiceName::parse(service);
    match service.map(|service| ServiceParams::parse(service, params)) {
        Some(Ok(params)) => params.output_extension(),
        Some(Err(_)) | None => "bin",
    }
}
