//! What is stored, read in one statement, with everything named by its place.

use std::collections::{BTreeMap, BTreeSet};

use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::failure::FailureCode;
use fencepost_domain::job::JobStatus;
use serde::Deserialize;
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::call::{Key, Pair, UNTOLD};
use crate::names::Names;
use crate::reference::{AttemptRow, DeviceRow, EventRow, JobRow, View};

const READ: &str = "
    select jsonb_build_object(
        'mark', test_micros(s.marked_at), 'swept_at', test_micros(s.swept_at),
        'devices', (select coalesce(jsonb_agg(jsonb_build_object('id', id,
            'enabled', enabled, 'current', current_session, 'void_through', void_through,
            'sessions', session_counter,
            'connected', current_session is not null and disconnected_at is null,
            'supersedes', array(select test_micros(t) from unnest(supersedes) t),
            'forgiven_at', test_micros(forgiven_at),
            'provider', provider_id)), '[]') from devices),
        'jobs', (select coalesce(jsonb_agg(jsonb_build_object('id', id,
            'status', status, 'epochs', epoch_counter, 'attempts', attempt_counter,
            'charged', charged_attempts, 'returned', returned_offers,
            'in_queue', queue_key is not null, 'wake_at', test_micros(wake_at),
            'failure', failure_code, 'winner', (select attempt_number from attempts a
                where a.id = jobs.winning_attempt_id),
            'cancelled_at', test_micros(cancel_requested_at),
            'deadline', test_micros(admission_deadline),
            'order', test_micros(order_key + interval '10 minutes'),
            'ended_at', test_micros(ended_at))), '[]') from jobs),
        'attempts', (select coalesce(jsonb_agg(jsonb_build_object('id', id, 'job', job_id,
            'number', attempt_number, 'device', device_id, 'session', session_number,
            'status', status, 'accepted', accepted_at is not null, 'resumes', resumes,
            'percent', percent, 'epoch', lease_epoch, 'token', encode(token_digest, 'hex'),
            'replaced_epoch', replaced_epoch, 'replaced_token', encode(replaced_digest, 'hex'),
            'operation', final_operation, 'writer_epoch', final_epoch,
            'writer_token', encode(final_digest, 'hex'), 'leased_at', test_micros(leased_at),
            'run_deadline', test_micros(run_deadline),
            'expires_at', test_micros(lease_expires_at), 'pickup', verification_epoch,
            'verify_since', test_micros(verification_started_at),
            'verify_until', test_micros(verify_until), 'stop', stop_reason is not null,
            'charged', charged, 'returned', returned, 'failure', failure_code,
            'ended_at', test_micros(ended_at))), '[]') from attempts),
        'events', (select coalesce(jsonb_agg(jsonb_build_object('attempt', attempt_id,
            'epoch', lease_epoch, 'token', encode(writer_digest, 'hex'), 'id', seq,
            'content', payload)), '[]') from attempt_events)
    ) from authority_state s";

/// Needed by [`READ`]; installed once.
pub(crate) const HELPERS: &str = "
    create or replace function test_micros(at timestamptz) returns bigint language sql immutable
        return (extract(epoch from at) * 1000000)::bigint";

#[derive(Deserialize)]
struct Read {
    mark: i64,
    swept_at: i64,
    devices: Vec<ReadDevice>,
    jobs: Vec<ReadJob>,
    attempts: Vec<ReadAttempt>,
    events: Vec<ReadEvent>,
}

#[derive(Deserialize)]
struct ReadDevice {
    id: Uuid,
    enabled: bool,
    current: Option<i64>,
    void_through: i64,
    sessions: i64,
    connected: bool,
    supersedes: Vec<i64>,
    forgiven_at: Option<i64>,
    provider: Uuid,
}

#[derive(Deserialize)]
struct ReadJob {
    id: Uuid,
    status: JobStatus,
    epochs: i64,
    attempts: i32,
    charged: i32,
    returned: i32,
    in_queue: bool,
    wake_at: Option<i64>,
    failure: Option<FailureCode>,
    winner: Option<i32>,
    cancelled_at: Option<i64>,
    deadline: i64,
    order: i64,
    ended_at: Option<i64>,
}

#[derive(Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "as many as the row has")]
struct ReadAttempt {
    id: Uuid,
    job: Uuid,
    number: i32,
    device: Uuid,
    session: i64,
    status: AttemptStatus,
    accepted: bool,
    resumes: i32,
    percent: Option<f32>,
    epoch: i64,
    token: Option<String>,
    replaced_epoch: Option<i64>,
    replaced_token: Option<String>,
    operation: Option<String>,
    writer_epoch: Option<i64>,
    writer_token: Option<String>,
    leased_at: i64,
    run_deadline: i64,
    expires_at: Option<i64>,
    pickup: i64,
    verify_since: Option<i64>,
    verify_until: Option<i64>,
    stop: bool,
    charged: bool,
    returned: bool,
    failure: Option<FailureCode>,
    ended_at: Option<i64>,
}

#[derive(Deserialize)]
struct ReadEvent {
    attempt: Uuid,
    epoch: i64,
    token: Option<String>,
    id: u8,
    content: u8,
}

/// All that is stored and compared.
pub(crate) async fn read(conn: &mut PgConnection, names: &Names) -> Result<View, String> {
    let read: serde_json::Value = sqlx::query_scalar(READ)
        .fetch_one(conn)
        .await
        .map_err(|error| format!("reading the rows: {error}"))?;
    let read: Read =
        serde_json::from_value(read).map_err(|error| format!("reading the rows: {error}"))?;
    Ok(view(read, names))
}

fn view(read: Read, names: &Names) -> View {
    let keys: BTreeMap<Uuid, Key> = (read.attempts.iter())
        .filter_map(|row| Some((row.id, (names.slot_of(row.job)?, row.number))))
        .collect();
    let attempts = read.attempts.into_iter().filter_map(|row| {
        let at = *keys.get(&row.id)?;
        Some((at, attempt(&row, at, names)))
    });
    let events = read.events.into_iter().filter_map(|row| {
        let at = *keys.get(&row.attempt)?;
        Some(EventRow {
            at,
            writer: pair(names, at, row.epoch, row.token.as_deref()),
            id: row.id,
            content: row.content,
        })
    });
    let jobs = read.jobs.into_iter();
    let mut devices = vec![None; names.devices.len()];
    for row in read.devices {
        if let Some(place) = names.device_place(row.id) {
            devices[place] = Some(device(row, names));
        }
    }
    View {
        mark: instant(read.mark),
        swept_at: instant(read.swept_at),
        devices: devices.into_iter().flatten().collect(),
        jobs: jobs
            .filter_map(|row| Some((names.slot_of(row.id)?, job(&row))))
            .collect(),
        events: events.collect::<BTreeSet<_>>(),
        attempts: attempts.collect(),
    }
}

fn device(row: ReadDevice, names: &Names) -> DeviceRow {
    DeviceRow {
        is_enabled: row.enabled,
        current: row.current,
        void_through: row.void_through,
        sessions: row.sessions,
        is_connected: row.connected,
        supersedes: row.supersedes.into_iter().map(instant).collect(),
        forgiven_at: row.forgiven_at.map(instant),
        has_other_owner: row.provider != names.provider.0,
    }
}

fn job(row: &ReadJob) -> JobRow {
    JobRow {
        status: row.status,
        epochs: row.epochs,
        attempts: row.attempts,
        charged: row.charged,
        returned: row.returned,
        is_in_queue: row.in_queue,
        wake_at: row.wake_at.map(instant),
        failure: row.failure,
        winner: row.winner,
        cancelled_at: row.cancelled_at.map(instant),
        ended_at: row.ended_at.map(instant),
        deadline: instant(row.deadline),
        order: instant(row.order),
    }
}

fn attempt(row: &ReadAttempt, at: Key, names: &Names) -> AttemptRow {
    let known = |epoch: i64, token: Option<&str>| pair(names, at, epoch, token);
    let operation = match row.operation.as_deref() {
        Some("commit") => Some("commit"),
        Some("fail") => Some("fail"),
        Some("release") => Some("release"),
        _ => None,
    };
    let percent = row.percent.map(|percent| format!("{percent:.0}"));
    AttemptRow {
        device: names.device_place(row.device).unwrap_or(usize::MAX),
        session: row.session,
        status: row.status,
        is_accepted: row.accepted,
        resumes: row.resumes,
        percent: percent.and_then(|percent| percent.parse().ok()),
        lease: known(row.epoch, row.token.as_deref()),
        replaced: (row.replaced_epoch)
            .filter(|_| row.status.is_live())
            .map(|epoch| known(epoch, row.replaced_token.as_deref())),
        writer: operation
            .zip(row.writer_epoch)
            .map(|(said, epoch)| (said, known(epoch, row.writer_token.as_deref()))),
        leased_at: instant(row.leased_at),
        run_deadline: instant(row.run_deadline),
        expires_at: row.expires_at.map(instant),
        pickup: row.pickup,
        verify_since: row.verify_since.map(instant),
        verify_until: row.verify_until.map(instant),
        must_stop: row.stop,
        is_charged: row.charged,
        came_back: row.returned,
        failure: row.failure,
        ended_at: row.ended_at.map(instant),
    }
}

fn pair(names: &Names, at: Key, epoch: i64, token: Option<&str>) -> Pair {
    let token = token.and_then(|token| names.token_of(at, token));
    Pair {
        epoch,
        token: token.unwrap_or(UNTOLD),
    }
}

fn instant(micros: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1_000)
        .expect("a time that Postgres gave")
}
