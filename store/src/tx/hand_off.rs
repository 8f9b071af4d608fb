//! An ended attempt's agent hands its workspace over.
//!
//! Locks: jobs, then attempts, by id. Checks: a stored hand-off first (its writer's repeat is
//! answered from it), then device, token, epoch, and that the attempt has ended. Writes: the
//! workspace and when it is reaped, and the hand-off with its writer in place of the token's digest.
//! A refused hand-off writes a row of its own where the workspace would otherwise stay for ever.

use fencepost_domain::commit_token::CommitTokenDigest;
use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::fencing::LeaseClaim;
use fencepost_domain::field::FieldError;
use fencepost_domain::retention::{Kept, StoredHandOff, Verdict, check_handle, decide};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

use super::{Refusal, in_turns};
use crate::error::StoreError;
use crate::fence::{FenceMode, hex_digest};
use crate::rows::{Pair, lock_pairs};
use crate::run::{Store, Transaction, Tx};

/// A workspace to hand over.
#[derive(Debug, Clone)]
pub struct HandOff {
    /// Whose lease.
    pub claim: LeaseClaim,
    /// SHA-256 of the token that came with it.
    pub token: CommitTokenDigest,
    /// What the device calls it.
    pub handle: String,
    /// How long it is kept.
    pub retain_for: LeaseDuration,
}

/// The answer to a hand-off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandOffAnswer {
    /// It is recorded.
    Done {
        /// Whether it was before.
        replayed: bool,
    },
    /// Refused; the attempt is as it was.
    Refused(Refusal),
    /// Refused, because of what it says.
    Invalid(FieldError),
}

impl Store {
    /// Hands workspaces over; one answer for each, in order.
    pub async fn hand_off(&self, offs: Vec<HandOff>) -> Result<Vec<HandOffAnswer>, StoreError> {
        in_turns(
            self,
            offs,
            |one| one.claim.attempt,
            |offs| HandOffs { offs },
        )
        .await
    }
}

struct HandOffs {
    offs: Vec<HandOff>,
}

#[derive(Serialize)]
struct Row<'a> {
    position: usize,
    attempt_id: uuid::Uuid,
    job_id: uuid::Uuid,
    device_id: uuid::Uuid,
    epoch: i64,
    digest: String,
    content: String,
    handle: &'a str,
    retain_micros: i64,
    leaked: bool,
}

impl<'a> Row<'a> {
    fn new(position: usize, one: &'a HandOff, leaked: bool) -> Self {
        Self {
            position,
            attempt_id: one.claim.attempt.0,
            job_id: one.claim.job.0,
            device_id: one.claim.device.0,
            epoch: one.claim.epoch,
            digest: hex_digest(&one.token),
            content: hex::encode(content(one)),
            handle: &one.handle,
            retain_micros: if leaked { 0 } else { one.retain_for.micros() },
            leaked,
        }
    }
}

impl Transaction for HandOffs {
    const NAME: &'static str = "hand_off";
    type Output = Vec<HandOffAnswer>;

    async fn run(&self, tx: &mut Tx) -> Result<Self::Output, StoreError> {
        let ids: Vec<_> = self.offs.iter().map(|one| one.claim.attempt).collect();
        let locked = lock_pairs(tx, &ids).await?;
        let kept = find(tx, &self.offs).await?;
        let (mut answers, mut writes) = (Vec::with_capacity(kept.len()), Vec::new());
        for (position, (one, kept)) in self.offs.iter().zip(kept).enumerate() {
            if let Err(problem) = check_handle(one.claim.attempt, &one.handle) {
                answers.push(HandOffAnswer::Invalid(problem));
                continue;
            }
            let Some(pair) = locked.find(one.claim.attempt) else {
                answers.push(HandOffAnswer::Refused(Refusal::UnknownAttempt));
                continue;
            };
            let stored = stored_hand_off(pair, one);
            let verdict = match tx.fence {
                FenceMode::OnlyWhere => Verdict::Record,
                FenceMode::Both | FenceMode::OnlyPure => {
                    decide(&pair.attempt.fence, &one.claim, &one.token, stored, kept)
                }
            };
            match verdict {
                Verdict::Record => writes.push(Row::new(position, one, false)),
                Verdict::RefuseAndReap(_) => writes.push(Row::new(position, one, true)),
                _ => {}
            }
            answers.push(answer(verdict, tx.rerun));
        }
        write(tx, locked.now, &writes).await?;
        Ok(answers)
    }
}

fn answer(verdict: Verdict, rerun: bool) -> HandOffAnswer {
    match verdict {
        Verdict::Record => HandOffAnswer::Done { replayed: false },
        // An earlier run of this very transaction may be who recorded it.
        Verdict::Replay => HandOffAnswer::Done { replayed: !rerun },
        Verdict::OtherContent => HandOffAnswer::Refused(Refusal::OtherContent),
        Verdict::UsedHandle => {
            let problem = "was handed over before: a workspace is handed over once";
            HandOffAnswer::Invalid(FieldError::new("handle", problem))
        }
        Verdict::Refuse(violation) | Verdict::RefuseAndReap(violation) => {
            HandOffAnswer::Refused(Refusal::Fence(violation))
        }
    }
}

fn stored_hand_off(pair: &Pair, one: &HandOff) -> StoredHandOff {
    match &pair.attempt.hand_off {
        Some(stored) if (stored.epoch, stored.digest) == (one.claim.epoch, one.token) => {
            StoredHandOff::ByCaller {
                identical: stored.content == content(one),
            }
        }
        Some(_) | None => StoredHandOff::NotByCaller,
    }
}

/// SHA-256 of what a hand-off means.
fn content(one: &HandOff) -> Vec<u8> {
    let mut hasher = Sha256::new();
    hasher.update(one.retain_for.micros().to_be_bytes());
    hasher.update(one.handle.as_bytes());
    hasher.finalize().to_vec()
}

/// What is stored about each attempt's workspaces, in order. Read after the locks.
async fn find(tx: &mut Tx, offs: &[HandOff]) -> Result<Vec<Kept>, StoreError> {
    let rows = offs.iter().enumerate();
    let rows: Vec<_> = rows
        .map(|(position, one)| Row::new(position, one, false))
        .collect();
    let kept = sqlx::query!(
        r#"-- hand_off: find
        select exists (select from workspaces w
                where w.attempt_id = i.attempt_id and not w.leaked) as "handed_over!",
            exists (select from workspaces w where w.handle = i.handle) as "handle_known!",
            (select count(*) from workspaces w
                where w.attempt_id = i.attempt_id and w.leaked) as "leaks!",
            exists (select from attempt_events e where e.attempt_id = i.attempt_id
                and jsonb_typeof(e.payload) = 'object'
                and jsonb_exists(e.payload, 'handle')) as "event_with_handle!"
        from jsonb_to_recordset($1) as i(position bigint, attempt_id uuid, handle text)
        order by i.position"#,
        to_json(&rows)?
    )
    .fetch_all(&mut **tx)
    .await?;
    let kept = kept.into_iter().map(|row| Kept {
        handed_over: row.handed_over,
        handle_known: row.handle_known,
        leaks: row.leaks,
        event_with_handle: row.event_with_handle,
    });
    Ok(kept.collect())
}

async fn write(tx: &mut Tx, now: OffsetDateTime, writes: &[Row<'_>]) -> Result<(), StoreError> {
    if writes.is_empty() {
        return Ok(());
    }
    let written = sqlx::query!(
        r#"-- hand_off: write
        with input as materialized (
            select * from jsonb_to_recordset($1) as i(attempt_id uuid, job_id uuid,
                device_id uuid, epoch bigint, digest text, content text, handle text,
                retain_micros bigint, leaked boolean)
        ), handed as (
            update attempts a set token_digest = null, replaced_epoch = null,
                replaced_digest = null, retain_epoch = i.epoch,
                retain_digest = decode(i.digest, 'hex'), retain_content = decode(i.content, 'hex')
            from input i
            where not i.leaked and a.id = i.attempt_id and a.ended_at is not null
                and a.job_id = i.job_id and a.device_id = i.device_id and a.lease_epoch = i.epoch
                and a.token_digest = decode(i.digest, 'hex')
            returning a.id
        ), left_behind as materialized (
            select a.id from input i join attempts a on a.id = i.attempt_id
            where i.leaked and a.ended_at is not null and a.job_id = i.job_id
                and a.device_id = i.device_id and a.lease_epoch > i.epoch
        )
        insert into workspaces (handle, attempt_id, device_id, leaked, recorded_at, reap_after)
        select i.handle, i.attempt_id, i.device_id, i.leaked, $2::timestamptz,
            $2::timestamptz + i.retain_micros * interval '1 microsecond'
        from input i
        where i.attempt_id in (select id from handed union all select id from left_behind)"#,
        to_json(writes)?,
        now
    )
    .execute(&mut **tx)
    .await?
    .rows_affected();
    if written == writes.len() as u64 {
        Ok(())
    } else {
        let what = format!("judged {} hand-offs, wrote {written}", writes.len());
        Err(StoreError::inconsistent("workspaces", what))
    }
}

fn to_json(rows: &[Row<'_>]) -> Result<Value, StoreError> {
    serde_json::to_value(rows)
        .map_err(|error| StoreError::inconsistent("workspaces", error.to_string()))
}
