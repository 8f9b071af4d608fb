//! A lease that was claimed, as one owned thing.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::commit_token::CommitToken;
use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::ids::{OrgId, RequestId};
use fencepost_protocol::{Directive, LeaseRef, OutputDeclaration, PartLinks};
use serde::Deserialize;
use serde_json::{Value, json};

use super::desk::{AskError, Desk};
use crate::core::Wanted;

/// The right to work on one attempt. Not `Clone`: [`Lease::commit`], [`Lease::fail`] and
/// [`Lease::release`] consume it, and an answer that means "ask again" hands it back inside the
/// error. Dropping it tells nobody anything: it runs out.
#[derive(Debug)]
pub struct Lease {
    scope: OrgId,
    reference: LeaseRef,
    token: CommitToken,
}

/// What a worker can do.
#[derive(Debug, Clone, Default)]
pub struct Claim {
    /// What the request is called; the same one is the same claim.
    pub request: RequestId,
    /// What the worker can do; empty is what the device's agent said last.
    pub capabilities: Vec<String>,
    /// How many attempts the device takes at once, if its agent never connected.
    pub slots: Option<u32>,
}

/// The answer to a claim.
#[derive(Debug)]
pub enum Claimed {
    /// A lease, and the work without its secret.
    Leased(Lease, Value),
    /// The same claim was answered before; its secret is not handed out again.
    Before {
        /// The lease that it was.
        reference: LeaseRef,
    },
    /// There is nothing for this device now.
    Nothing,
}

/// A lease after a renewal.
#[derive(Debug, Clone, Deserialize)]
pub struct Progressed {
    /// When it ends, by the authority's clock, for people.
    pub lease_expires_at: String,
    /// What was left of it, counted from when the request was sent.
    pub lease_remaining_ms: u64,
    /// Whether to go on.
    pub directive: Directive,
    /// Why to stop.
    #[serde(default)]
    pub reason: Option<String>,
}

/// A link.
#[derive(Debug, Clone, Deserialize)]
pub struct Linked {
    /// Where to read or write.
    pub url: String,
    /// The object behind it.
    pub object_key: String,
    /// Links to parts, if they were asked for and there are such.
    #[serde(default)]
    pub parts: Option<PartLinks>,
}

/// Why a lease was not ended.
#[derive(Debug, thiserror::Error)]
pub enum EndError {
    /// It may still be: here it is.
    #[error("{why}")]
    Retry {
        /// The lease.
        lease: Lease,
        /// What happened.
        why: AskError,
    },
    /// Not as asked, and by asking again neither.
    #[error(transparent)]
    Final(AskError),
}

impl EndError {
    /// What happened.
    pub fn why(&self) -> &AskError {
        match self {
            Self::Retry { why, .. } | Self::Final(why) => why,
        }
    }
}

impl Lease {
    pub(super) fn new(scope: OrgId, reference: LeaseRef, token: CommitToken) -> Self {
        Self {
            scope,
            reference,
            token,
        }
    }

    /// Whose job it is.
    pub fn scope(&self) -> OrgId {
        self.scope
    }

    /// Job, attempt and epoch.
    pub fn reference(&self) -> LeaseRef {
        self.reference
    }

    /// The secret, for the file that carries it.
    pub(super) fn token(&self) -> &CommitToken {
        &self.token
    }

    /// Claims one job.
    pub async fn claim(desk: &Desk, claim: &Claim) -> Result<Claimed, AskError> {
        let mut body = json!({ "request_id": claim.request });
        if !claim.capabilities.is_empty() {
            body["capabilities"] = json!(claim.capabilities);
        }
        if let Some(slots) = claim.slots {
            body["slots"] = json!(slots);
        }
        let mut answer = desk.post("", &body).await?;
        if answer.is_null() {
            return Ok(Claimed::Nothing);
        }
        let secret = answer
            .as_object_mut()
            .and_then(|fields| fields.remove("commit_token"));
        let reference: LeaseRef = understood(answer.clone())?;
        let Some(secret) = secret else {
            return Ok(Claimed::Before { reference });
        };
        let scope = understood(answer["scope"].clone())?;
        let lease = Self::new(scope, reference, understood(secret)?);
        Ok(Claimed::Leased(lease, answer))
    }

    /// Says how far the work is, which renews the lease.
    pub async fn progress(
        &self,
        desk: &Desk,
        (phase, percent, detail): (Phase, Option<f32>, Option<&str>),
    ) -> Result<Progressed, AskError> {
        let what = json!({ "phase": phase, "percent": percent, "detail": detail });
        understood(self.ask(desk, "progress", RequestId::new(), what).await?)
    }

    /// Renews the lease, which must extend it.
    pub async fn renew(
        &self,
        desk: &Desk,
        length: Option<LeaseDuration>,
    ) -> Result<Progressed, AskError> {
        let lease_ms = length.map(|length| length.std().as_millis());
        let lease_ms = lease_ms.and_then(|ms| u64::try_from(ms).ok());
        let what = json!({ "lease_ms": lease_ms });
        understood(self.ask(desk, "renew", RequestId::new(), what).await?)
    }

    /// A link to an object of the attempt.
    pub async fn link(&self, desk: &Desk, wanted: &Wanted) -> Result<Linked, AskError> {
        let mut what = json!({ "name": wanted.name, "direction": wanted.direction });
        if let Some(first) = wanted.first_part {
            what["first_part"] = first.into();
        }
        understood(self.ask(desk, "grants", RequestId::new(), what).await?)
    }

    /// Publishes a result, once it has been verified. The same request is the same commit.
    pub async fn commit(
        self,
        desk: &Desk,
        request: RequestId,
        output: &OutputDeclaration,
    ) -> Result<(), EndError> {
        let what = json!({ "commit_token": self.token, "output": output });
        self.end(desk, "commit", request, what).await
    }

    /// Reports that the work cannot be done.
    pub async fn fail(
        self,
        desk: &Desk,
        request: RequestId,
        (code, message): (&str, &str),
    ) -> Result<(), EndError> {
        let token = &self.token;
        let what = json!({ "commit_token": token, "failure_code": code, "message": message });
        self.end(desk, "fail", request, what).await
    }

    /// Gives the lease back.
    pub async fn release(
        self,
        desk: &Desk,
        request: RequestId,
        reason: &str,
    ) -> Result<(), EndError> {
        let what = json!({ "commit_token": self.token, "reason": reason });
        self.end(desk, "release", request, what).await
    }

    async fn end(
        self,
        desk: &Desk,
        operation: &str,
        request: RequestId,
        what: Value,
    ) -> Result<(), EndError> {
        match self.ask(desk, operation, request, what).await {
            Ok(_) => Ok(()),
            Err(why @ AskError::Retry { .. }) => Err(EndError::Retry { lease: self, why }),
            Err(why) => Err(EndError::Final(why)),
        }
    }

    async fn ask(
        &self,
        desk: &Desk,
        operation: &str,
        request: RequestId,
        what: Value,
    ) -> Result<Value, AskError> {
        let (path, body) = about(self.reference, operation, request, what);
        desk.post(&path, &body).await
    }
}

/// Gives back a claim whose answer was lost, by the claim's request.
pub async fn give_back(desk: &Desk, reference: LeaseRef, claim: RequestId) -> Result<(), AskError> {
    let what = json!({ "claim_request_id": claim, "reason": "the answer was lost" });
    let (path, body) = about(reference, "release", RequestId::new(), what);
    desk.post(&path, &body).await.map(drop)
}

fn about(lease: LeaseRef, operation: &str, request: RequestId, mut what: Value) -> (String, Value) {
    what["request_id"] = json!(request);
    what["job_id"] = json!(lease.job_id);
    what["lease_epoch"] = json!(lease.lease_epoch);
    (format!("/{}/{operation}", lease.attempt_id), what)
}

/// The parser's own message could quote a secret.
fn understood<T: serde::de::DeserializeOwned>(answer: Value) -> Result<T, AskError> {
    serde_json::from_value(answer).map_err(|_| AskError::Retry {
        code: "strange_answer".to_owned(),
        message: "the gateway's answer is not understood".to_owned(),
        after: Duration::from_secs(1),
    })
}
