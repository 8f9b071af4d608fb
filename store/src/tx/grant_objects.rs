//! A holder asks for fresh links to its attempt's objects.
//!
//! Locks: the job, then the attempt. Checks: the fence without token, and that the job is active; for
//! an artifact also how many there are. Writes: until when transfers can start, which only ever moves
//! forward (objects of a losing attempt are kept at least that long), and which objects there are
//! besides the output.

use fencepost_domain::fencing::{LeaseClaim, Operation};
use fencepost_domain::job::JobStatus;
use fencepost_domain::{artifact_key, journal};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;

use super::Refusal;
use super::once::{Asked, Once, Outcome, Repeatable, RequestKey};
use crate::error::StoreError;
use crate::fence::{FenceMode, WhereFacts, judge};
use crate::rows::{Pair, lock_pairs};
use crate::run::{Store, Transaction, Tx};

/// What an attempt may read and write, and until when a transfer can start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Granted {
    /// The one object that it may write.
    pub output_key: String,
    /// Its inputs, as the comment on their column has them, but without addresses: there are no links
    /// of ours to what is elsewhere, and this is kept for a while as the answer to a request.
    pub inputs: Value,
    /// The object of the artifact that was asked for.
    pub artifact_key: Option<String>,
    /// By Postgres's clock.
    #[serde(with = "time::serde::rfc3339")]
    pub expires_at: OffsetDateTime,
}

impl Store {
    /// Grants the holder of a lease its objects once more.
    pub async fn grant_objects(
        &self,
        claim: LeaseClaim,
    ) -> Result<Result<Granted, Refusal>, StoreError> {
        let artifact = None;
        self.execute(GrantObjects { claim, artifact }).await
    }

    /// The same, and an object for an artifact of this (checked) name.
    pub async fn grant_artifact(
        &self,
        claim: LeaseClaim,
        name: &str,
    ) -> Result<Result<Granted, Refusal>, StoreError> {
        let artifact = Some(name.to_owned());
        self.execute(GrantObjects { claim, artifact }).await
    }

    /// Either of them under a request's id.
    pub async fn grant_objects_once(
        &self,
        key: RequestKey,
        claim: LeaseClaim,
        artifact: Option<String>,
    ) -> Result<Asked<Result<Granted, Refusal>>, StoreError> {
        let inner = GrantObjects { claim, artifact };
        self.execute(Once { key, inner }).await
    }
}

struct GrantObjects {
    claim: LeaseClaim,
    artifact: Option<String>,
}

impl Transaction for GrantObjects {
    const NAME: &'static str = "grant_objects";
    type Output = Result<Granted, Refusal>;

    async fn run(&self, tx: &mut Tx) -> Result<Self::Output, StoreError> {
        let locked = lock_pairs(tx, &[self.claim.attempt]).await?;
        let Some(pair) = locked.find(self.claim.attempt) else {
            return Ok(Err(Refusal::UnknownAttempt));
        };
        let fence = &pair.attempt.fence;
        match judge(
            tx.fence,
            fence,
            &self.claim,
            None,
            Operation::Grant,
            locked.clock(),
        ) {
            Err(violation) => Ok(Err(Refusal::Fence(violation))),
            Ok(_) if !is_granted_to(tx, pair) => Ok(Err(Refusal::JobNotActive)),
            Ok(facts) => {
                let mut granted = extend(tx, &facts, locked.now).await?;
                if let Some(name) = &self.artifact {
                    if is_input(&granted.inputs, name) {
                        return Ok(Err(Refusal::UngrantedObject));
                    }
                    granted.artifact_key = self.add_artifact(tx, name, locked.now).await?;
                    if granted.artifact_key.is_none() {
                        return Ok(Err(Refusal::TooManyObjects));
                    }
                }
                Ok(Ok(granted))
            }
        }
    }
}

/// Whether there is still something to be done for the job: nothing new begins for one that is being
/// cancelled.
pub(super) fn is_granted_to(tx: &Tx, pair: &Pair) -> bool {
    pair.job.facts.status == JobStatus::Active || tx.fence == FenceMode::OnlyWhere
}

/// An agent that wants to write an input has mistaken one thing for another.
fn is_input(inputs: &Value, name: &str) -> bool {
    let mut inputs = inputs.as_array().into_iter().flatten();
    inputs.any(|input| input.get("name").and_then(Value::as_str) == Some(name))
}

impl GrantObjects {
    /// The artifact's object, remembered as the attempt's; `None` if it has too many.
    async fn add_artifact(
        &self,
        tx: &mut Tx,
        name: &str,
        now: OffsetDateTime,
    ) -> Result<Option<String>, StoreError> {
        let LeaseClaim {
            job,
            attempt,
            epoch,
            ..
        } = self.claim;
        let key = artifact_key::attempt_artifact(job, attempt, epoch, name);
        // The attempt is locked: nobody else counts or adds at the same time.
        let found = sqlx::query!(
            r#"-- grant_objects: add artifact
            with known as (
                select object_key from attempt_grants where object_key = $1
            ), added as (
                insert into attempt_grants (object_key, attempt_id, lease_epoch, name, granted_at)
                select $1, $2, $3, $4, $5
                where not exists (select from known)
                    and (select count(*) from attempt_grants where attempt_id = $2) < $6
                returning object_key
            )
            select object_key from known union all select object_key from added"#,
            key,
            attempt.0,
            epoch,
            name,
            now,
            journal::MAX_ARTIFACTS
        )
        .fetch_optional(&mut **tx)
        .await?;
        Ok(found.and_then(|row| row.object_key))
    }
}

impl Repeatable for GrantObjects {
    fn outcome(answer: &Self::Output) -> Option<Outcome> {
        match answer {
            Ok(granted) => Some(Outcome::Granted(granted.clone())),
            Err(refusal) => Outcome::of_refusal(*refusal),
        }
    }

    async fn again(&self, _: &mut Tx, outcome: Outcome) -> Result<Self::Output, StoreError> {
        Ok(match outcome {
            Outcome::Granted(granted) => Ok(granted),
            refused => Err(refused.refusal()),
        })
    }
}

/// Moves forward until when transfers can start.
pub(super) async fn extend(
    tx: &mut Tx,
    facts: &WhereFacts,
    now: OffsetDateTime,
) -> Result<Granted, StoreError> {
    let from: Vec<String> = facts.from.iter().map(|&status| status.to_owned()).collect();
    let until = now + tx.settings.grant.signed();
    let row = sqlx::query!(
        r#"-- grant_objects: extend
        update attempts a set grant_expires_at = greatest(a.grant_expires_at, $7),
            -- a frame has presented the new epoch: its welcome arrived
            replaced_epoch = null, replaced_digest = null, unpresented_claim = null
        from jobs j
        where a.id = $1 and j.id = a.job_id and a.ended_at is null and j.status = 'active'
            and a.job_id = $2 and a.device_id = $3 and a.lease_epoch = $4
            and a.status::text = any($5) and (not $6 or a.lease_expires_at > $8)
        returning a.output_key, inputs_without_addresses(j.inputs) as "inputs!",
            a.grant_expires_at"#,
        facts.attempt_id,
        facts.job_id,
        facts.device_id,
        facts.epoch,
        &from,
        facts.must_be_live,
        until,
        now
    )
    .fetch_optional(&mut **tx)
    .await?;
    row.map(|row| Granted {
        output_key: row.output_key,
        inputs: row.inputs,
        artifact_key: None,
        expires_at: row.grant_expires_at,
    })
    .ok_or_else(|| StoreError::inconsistent("attempts", "grant: judged one row, wrote none"))
}
