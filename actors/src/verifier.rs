//! Checks a committed output: copy, size, digest, media. No lock is held, no transaction is open.
//!
//! The object is first copied to a key that no grant ever covered, and the copy is checked: what is
//! published is what was checked, whatever its agent writes afterwards.

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Context, Handler, Message, MessageResult, ResponseFuture};
use fencepost_domain::artifact_key;
use fencepost_domain::service::{ServiceName, ServiceParams};
use fencepost_domain::verification::Verdict;
use fencepost_media::{
    CheckFailure, Expectation, Limits, Sources, StopSignal, Tools, Workbench, check_output,
};
use fencepost_store::artifacts::{ArtifactError, ArtifactStore, LocalCopy};
use fencepost_store::tx::begin_verification::VerificationTicket;
use fencepost_store::tx::settle_commit::Settle;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::messages::Snapshot;

/// The verifier: bounded in how much it checks at once.
pub struct Verifier {
    inner: Arc<Inner>,
}

struct Inner {
    artifacts: ArtifactStore,
    /// `None` where no FFmpeg was found: then nothing can be checked, which is trouble of ours.
    tools: Option<Tools>,
    permits: Semaphore,
    most: usize,
    /// The most bytes of an output.
    max_bytes: u64,
}

/// Finalizer → verifier: check this. Answered with the verdict to settle.
#[derive(Message)]
#[rtype(result = "Settle")]
pub struct VerifyOutput(pub Box<VerificationTicket>);

impl Verifier {
    /// A verifier of at most `most` outputs at once, each of at most `max_bytes`.
    pub fn new(
        artifacts: ArtifactStore,
        tools: Option<Tools>,
        (most, max_bytes): (usize, u64),
    ) -> Self {
        let permits = Semaphore::new(most);
        Self {
            inner: Arc::new(Inner {
                artifacts,
                tools,
                permits,
                most,
                max_bytes,
            }),
        }
    }
}

impl Actor for Verifier {
    type Context = Context<Self>;
    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(1024);
    }
}

impl Handler<VerifyOutput> for Verifier {
    type Result = ResponseFuture<Settle>;
    fn handle(&mut self, message: VerifyOutput, _: &mut Self::Context) -> Self::Result {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            let ticket = message.0;
            let mut copy_key =
                artifact_key::verified_copy(ticket.job, ticket.attempt, ticket.verification_epoch);
            let verdict = inner.verify(&ticket, &mut copy_key).await;
            let verdict = verdict.unwrap_or_else(|trouble| {
                tracing::warn!(attempt.id = %ticket.attempt, trouble, "an output was not checked");
                Verdict::Trouble { reason: trouble }
            });
            Settle {
                attempt: ticket.attempt,
                verification_epoch: ticket.verification_epoch,
                copy_key,
                verdict,
            }
        })
    }
}

impl Handler<Snapshot> for Verifier {
    type Result = MessageResult<Snapshot>;
    fn handle(&mut self, _: Snapshot, _: &mut Self::Context) -> Self::Result {
        let free = self.inner.permits.available_permits();
        MessageResult(json!({ "checking": self.inner.most - free, "most": self.inner.most }))
    }
}

impl Inner {
    /// The verdict, or the trouble that kept us from one. Says which copy it is about.
    async fn verify(
        &self,
        ticket: &VerificationTicket,
        copy_key: &mut String,
    ) -> Result<Verdict, String> {
        let _permit = self
            .permits
            .acquire()
            .await
            .map_err(|error| error.to_string())?;
        let declared = &ticket.declared;
        if declared.size_bytes.unsigned_abs() > self.max_bytes {
            let (is, most) = (declared.size_bytes, self.max_bytes);
            return Ok(differ(format!(
                "{is} bytes are more than the {most} that are taken"
            )));
        }
        match self.copy(ticket, copy_key).await {
            Ok(key) => *copy_key = key,
            Err(ArtifactError::NotFound(_)) => {
                return Ok(differ(
                    "nothing was uploaded under the declared key".to_owned(),
                ));
            }
            Err(error) => return Err(error.to_string()),
        }
        // What is longer than it may be is not read.
        let size = self
            .artifacts
            .size(copy_key)
            .await
            .map_err(|error| error.to_string())?;
        if i64::try_from(size) != Ok(declared.size_bytes) {
            let said = declared.size_bytes;
            return Ok(differ(format!(
                "{size} bytes were uploaded, {said} were declared"
            )));
        }
        let read = self.artifacts.read_copy(copy_key).await;
        let (file, stored) = read.map_err(|error| error.to_string())?;
        if stored.sha256 != declared.sha256 {
            return Ok(differ(
                "the uploaded bytes are not the declared ones (SHA-256)".to_owned(),
            ));
        }
        let service = ServiceName::parse(&ticket.service)
            .ok_or_else(|| format!("this build does not know {}", ticket.service))?;
        let params = ServiceParams::parse(service, &ticket.params);
        let params = params.map_err(|error| error.to_string())?;
        match Expectation::of(&params, &Sources::new(), ticket.max_output_seconds) {
            Some(expectation) => self.check_media(&file, &expectation).await,
            // Nothing is promised but the bytes.
            None => Ok(Verdict::Good {
                duration_seconds: 0.0,
            }),
        }
    }

    /// Copies what was uploaded to where no link leads, after making one object of its parts.
    async fn copy(&self, ticket: &VerificationTicket, to: &str) -> Result<String, ArtifactError> {
        let declared = &ticket.declared;
        if let (Some(bucket), Some(parts)) = (self.artifacts.bucket(), &ticket.parts) {
            let size = declared.size_bytes.unsigned_abs();
            bucket
                .complete_parts(&declared.object_key, parts, size)
                .await?;
        }
        self.artifacts.seal(&declared.object_key, to).await
    }

    async fn check_media(
        &self,
        copy: &LocalCopy,
        expectation: &Expectation,
    ) -> Result<Verdict, String> {
        let tools = self
            .tools
            .clone()
            .ok_or("no FFmpeg was found on this machine")?;
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let limits = Limits {
            run_time: Duration::from_mins(30),
            ..Limits::default()
        };
        let bench = Workbench {
            tools,
            folder: folder.path().to_owned(),
            limits,
            stop: StopSignal::new(),
        };
        match check_output(&bench, copy.path(), expectation, &|_| ()).await {
            Ok(checked) => Ok(Verdict::Good {
                duration_seconds: checked.duration_seconds,
            }),
            Err(CheckFailure::Rejected(reason)) => Ok(Verdict::MediaRejected {
                reason: reason.to_string(),
            }),
            Err(CheckFailure::Trouble(reason)) => Err(reason),
            Err(CheckFailure::Stopped) => Err("the check was stopped".to_owned()),
        }
    }
}

fn differ(reason: String) -> Verdict {
    Verdict::BytesDiffer { reason }
}
