//! Attempts name artifacts: files besides the output.
//!
//! Locks: jobs, then attempts, by id. Checks: a stored row first (its writer's repeat is answered
//! from it, for ever), then the fence with token, that the job is active, and that the object was
//! granted to this attempt. Writes: the artifact with its writer, and the job's counter.

use fencepost_domain::commit_token::CommitTokenDigest;
use fencepost_domain::fencing::{LeaseClaim, Operation};
use fencepost_domain::field::FieldError;
use fencepost_domain::journal;
use serde::Serialize;
use serde_json::Value;
use time::OffsetDateTime;

use super::in_turns;
use super::replay::{
    Found, FoundRow, Judged, Presented, answer_written, judge_item, write_journal,
};
pub use super::replay::{JournalAnswer, JournalRefusal};
use crate::error::StoreError;
use crate::fence::{WhereFacts, hex_digest};
use crate::rows::lock_pairs;
use crate::run::{Store, Transaction, Tx};

/// A named artifact of an attempt.
#[derive(Debug, Clone)]
pub struct NewArtifact {
    /// Whose lease.
    pub claim: LeaseClaim,
    /// SHA-256 of the token that came with it.
    pub token: CommitTokenDigest,
    /// Its name.
    pub name: String,
    /// Where it was uploaded: an object that was granted to this attempt.
    pub object_key: String,
    /// Its digest.
    pub sha256: [u8; 32],
    /// Its size.
    pub size_bytes: i64,
}

impl Store {
    /// Names artifacts; one answer for each, in order.
    pub async fn write_artifacts(
        &self,
        artifacts: Vec<NewArtifact>,
    ) -> Result<Vec<JournalAnswer>, StoreError> {
        in_turns(
            self,
            artifacts,
            |one| one.claim.attempt,
            |artifacts| WriteArtifacts { artifacts },
        )
        .await
    }
}

struct WriteArtifacts {
    artifacts: Vec<NewArtifact>,
}

/// An artifact as it is looked up and written.
#[derive(Serialize)]
struct Row<'a> {
    position: usize,
    #[serde(flatten)]
    facts: Option<WhereFacts>,
    presented_attempt: uuid::Uuid,
    presented_epoch: i64,
    name: &'a str,
    object_key: &'a str,
    sha256: String,
    size_bytes: i64,
    writer: String,
}

impl<'a> Row<'a> {
    fn new(position: usize, artifact: &'a NewArtifact, facts: Option<WhereFacts>) -> Self {
        Self {
            position,
            facts,
            presented_attempt: artifact.claim.attempt.0,
            presented_epoch: artifact.claim.epoch,
            name: &artifact.name,
            object_key: &artifact.object_key,
            sha256: hex::encode(artifact.sha256),
            size_bytes: artifact.size_bytes,
            writer: hex_digest(&artifact.token),
        }
    }
}

impl Row<'_> {
    /// Which item of the batch, about which attempt.
    fn at(&self) -> (usize, uuid::Uuid) {
        (self.position, self.presented_attempt)
    }
}

impl Transaction for WriteArtifacts {
    const NAME: &'static str = "write_artifacts";
    type Output = Vec<JournalAnswer>;

    async fn run(&self, tx: &mut Tx) -> Result<Self::Output, StoreError> {
        let ids: Vec<_> = self.artifacts.iter().map(|one| one.claim.attempt).collect();
        let locked = lock_pairs(tx, &ids).await?;
        let found = find(tx, &self.artifacts).await?;
        let mut answers: Vec<Option<JournalAnswer>> = Vec::with_capacity(found.len());
        let mut writes = Vec::new();
        for (position, (one, (found, granted))) in self.artifacts.iter().zip(&found).enumerate() {
            let presented = Presented {
                claim: &one.claim,
                token: &one.token,
                operation: Operation::Artifact,
            };
            let pair = locked.find(one.claim.attempt);
            let judged = judge_item(tx, pair, &presented, found, locked.clock());
            answers.push(match (check(one, found, *granted), judged) {
                (Ok(()), Judged::Write(facts)) => {
                    writes.push(Row::new(position, one, Some(facts)));
                    None
                }
                (_, Judged::Answer(answer)) => Some(answer),
                (Err(problem), Judged::Write(_)) => {
                    Some(JournalAnswer::Refused(JournalRefusal::Invalid(problem)))
                }
            });
        }
        write(tx, locked.now, &writes, &mut answers).await?;
        Ok(answers.into_iter().flatten().collect())
    }
}

/// What keeps an artifact of the lease's holder from being written.
fn check(one: &NewArtifact, found: &Found, granted: bool) -> Result<(), FieldError> {
    journal::check_artifact_name(&one.name)?;
    journal::check_artifact_size(one.size_bytes)?;
    if !granted {
        let problem = "was not granted to this attempt under this name: ask for a grant first";
        return Err(FieldError::new("object_key", problem));
    }
    if found.count >= journal::MAX_ARTIFACTS {
        return Err(journal::is_full("artifacts", journal::MAX_ARTIFACTS));
    }
    Ok(())
}

/// What is stored under each artifact's attempt, epoch and name, and whether its object was granted,
/// in order. Read after the locks.
async fn find(tx: &mut Tx, artifacts: &[NewArtifact]) -> Result<Vec<(Found, bool)>, StoreError> {
    let rows = artifacts.iter().enumerate();
    let rows: Vec<_> = rows
        .map(|(position, one)| Row::new(position, one, None))
        .collect();
    let rows = sqlx::query!(
        r#"-- write_artifacts: find
        select e.writer_digest as "writer_digest?", e.job_seq as "job_seq?",
            e.recorded_at as "recorded_at?",
            (e.sha256 = decode(i.sha256, 'hex') and e.size_bytes = i.size_bytes
                and e.object_key = i.object_key) as identical,
            exists (select from attempt_grants g
                where g.attempt_id = i.presented_attempt and g.object_key = i.object_key
                    and g.name = i.name) as "granted!",
            (select count(*) from attempt_artifacts o
                where o.attempt_id = i.presented_attempt) as "count!"
        from jsonb_to_recordset($1) as i(position bigint, presented_attempt uuid,
            presented_epoch bigint, name text, object_key text, sha256 text, size_bytes bigint)
        left join attempt_artifacts e on e.attempt_id = i.presented_attempt
            and e.lease_epoch = i.presented_epoch and e.name = i.name
        order by i.position"#,
        to_json(&rows)?
    )
    .fetch_all(&mut **tx)
    .await?;
    let found = rows.into_iter().map(|row| {
        let found = Found {
            row: FoundRow::new(
                row.writer_digest.as_deref(),
                row.identical,
                row.job_seq,
                row.recorded_at,
            ),
            place_taken: false,
            count: row.count,
        };
        (found, row.granted)
    });
    Ok(found.collect())
}

async fn write(
    tx: &mut Tx,
    now: OffsetDateTime,
    writes: &[Row<'_>],
    answers: &mut [Option<JournalAnswer>],
) -> Result<(), StoreError> {
    if writes.is_empty() {
        return Ok(());
    }
    let written = write_journal!(
        "-- write_artifacts: write",
        "name text, object_key text, sha256 text, size_bytes bigint",
        r#"insert into attempt_artifacts (attempt_id, lease_epoch, name, job_id, job_seq, object_key,
            sha256, size_bytes, recorded_at, writer_digest)
        select h.attempt_id, h.epoch, h.name, h.job_id, p.event_counter, h.object_key,
            decode(h.sha256, 'hex'), h.size_bytes, $2, decode(h.writer, 'hex')"#,
        to_json(writes)?,
        now
    )
    .fetch_all(&mut **tx)
    .await?;
    let judged: Vec<_> = writes.iter().map(Row::at).collect();
    answer_written("attempt_artifacts", &judged, &written, now, answers)
}

fn to_json(rows: &[Row<'_>]) -> Result<Value, StoreError> {
    serde_json::to_value(rows)
        .map_err(|error| StoreError::inconsistent("attempt_artifacts", error.to_string()))
}
