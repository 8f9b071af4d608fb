//! The same requests outside a socket: over HTTP, by a worker that may span processes.
//!
//! What is asked and what is answered are the frames of a session; each request has an id, under
//! which a repeat gets the stored answer. Commits and ends go through the finalizer as a session's
//! do, so a caller that goes away cuts nothing in two, and the device's session, if it has one,
//! learns of ends.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fencepost_domain::commit_token::CommitTokenDigest;
use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::fencing::Operation;
use fencepost_domain::ids::{AttemptId, DeviceId, OrgId, RequestId};
use fencepost_protocol::{AgentFrame, Code, GatewayFrame, LeaseOffer, LeaseRef};
use fencepost_store::tx::claim_lease::{ClaimAnswer, Claimed, LeaseRequest};
use fencepost_store::tx::end_by_agent::{AgentEnd, AgentEndKind};
use fencepost_store::tx::lease_round::Cursor;
use fencepost_store::tx::{Asked, RequestKey};
use fencepost_store::{FinalizedAttempt, StoreError};

use super::actor::Neighbours;
use super::answers::{
    millis_behind, refused, rejected, to_artifact, to_commit, to_end, to_event, to_hand_off,
    to_progress, trouble,
};
use super::asking::operation;
use super::lanes::OperationKind;
use super::offers::OfferLinks;
use crate::messages::{CommitOutside, CommitProgress, EndOutside};
use crate::supervision::{Handle, refused as not_taken};
use crate::sweeper::{SweepNow, Sweeper};

/// How long a commit's caller waits for the verdict before it is told to ask again.
const VERDICT_WAIT: Duration = Duration::from_secs(20);
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LONGEST_LOOK: Duration = Duration::from_millis(500);

/// Leases outside sockets.
#[derive(Clone)]
pub struct Outside {
    near: Neighbours,
    sweeper: Handle<Sweeper>,
    /// Where the next claim begins to look.
    cursor: Arc<Mutex<Cursor>>,
}

/// An answer, and whether it is a stored one.
#[derive(Debug)]
pub struct Told {
    /// What a session would be told.
    pub frame: GatewayFrame,
    /// Whether it was worked out before, for the same request.
    pub replayed: bool,
}

/// The answer to a claim.
#[derive(Debug)]
pub enum ClaimTold {
    /// A lease, with its secret: this once.
    Leased {
        /// Whose job it is: the lease's scope.
        scope: OrgId,
        /// The lease.
        offer: Box<LeaseOffer>,
    },
    /// It was granted before; its secret is not handed out again.
    Before(Claimed),
    /// Nothing for this device now.
    Nothing,
    /// The clock is behind its mark: nothing is leased for so long.
    ClockRegressed {
        /// When to ask again.
        retry_after_ms: u64,
    },
    /// The token is not the device's any more, or the device disabled.
    Unauthorized,
    /// Something else was asked under the same id before.
    OtherContent,
}

impl Told {
    fn first(frame: GatewayFrame) -> Self {
        Self {
            frame,
            replayed: false,
        }
    }

    fn of<T>(asked: Asked<T>, frame: impl FnOnce(T) -> GatewayFrame) -> Self {
        match asked {
            Asked::First(answer) => Self::first(frame(answer)),
            Asked::Again(answer) => Self {
                frame: frame(answer),
                replayed: true,
            },
            Asked::OtherContent => {
                let what = "request_id: another request had this id; use a new one for each";
                Self::first(rejected(Code::RequestConflict, Some(what)))
            }
        }
    }

    fn of_store<T>(
        asked: Result<Asked<T>, StoreError>,
        frame: impl FnOnce(T) -> GatewayFrame,
    ) -> Self {
        match asked {
            Ok(asked) => Self::of(asked, frame),
            Err(error) => {
                tracing::warn!(%error, "a request outside a session was not answered");
                Self::first(trouble())
            }
        }
    }
}

impl Outside {
    pub(crate) fn new(near: Neighbours, sweeper: Handle<Sweeper>) -> Self {
        Self {
            near,
            sweeper,
            cursor: Arc::default(),
        }
    }

    /// Leases one job to a device that asks for itself.
    pub async fn claim(&self, request: LeaseRequest) -> Result<ClaimTold, StoreError> {
        let device = request.device;
        let (asked, next) = self.near.store.claim_lease(request, self.cursor()).await?;
        self.set_cursor(next);
        Ok(match asked {
            Asked::OtherContent => ClaimTold::OtherContent,
            Asked::First(answer) | Asked::Again(answer) => match answer {
                ClaimAnswer::Leased(lease) => {
                    tracing::info!(
                        job.id = %lease.job, attempt.id = %lease.attempt, device.id = %device,
                        lease.epoch = lease.epoch, "claimed"
                    );
                    ClaimTold::Leased {
                        scope: lease.org,
                        offer: Box::new(self.near.links.offer(&lease)),
                    }
                }
                ClaimAnswer::Before(claimed) => ClaimTold::Before(claimed),
                ClaimAnswer::Nothing { due } => {
                    if due && self.sweeper.try_send(SweepNow).is_err() {
                        not_taken("sweeper");
                    }
                    ClaimTold::Nothing
                }
                ClaimAnswer::ClockRegressed { by } => ClaimTold::ClockRegressed {
                    retry_after_ms: millis_behind(by),
                },
                ClaimAnswer::Unauthorized => ClaimTold::Unauthorized,
            },
        })
    }

    /// Does what a frame about an attempt asks for, under a request's id.
    pub async fn ask(&self, device: DeviceId, id: RequestId, frame: AgentFrame) -> Told {
        let (Some(lease), Some((name, token))) = (frame.lease(), keyed(&frame)) else {
            let what = "this is not asked outside a session";
            return Told::first(rejected(Code::InvalidRequest, Some(what)));
        };
        let key = key_of(device, name, id, &frame, token);
        let claim = lease.claimed_by(device);
        match operation(frame, claim) {
            Ok(OperationKind::Progress(progress)) => {
                let asked = self.near.store.record_progress_once(key, progress).await;
                Told::of_store(asked, |answer| to_progress(Some(answer), false))
            }
            Ok(OperationKind::Grant {
                name,
                direction,
                first_part,
            }) => {
                let artifact = match OfferLinks::artifact_asked(&name, &direction) {
                    Ok(artifact) => artifact,
                    Err(frame) => return Told::first(*frame),
                };
                let asked = self
                    .near
                    .store
                    .grant_objects_once(key, claim, artifact)
                    .await;
                let links = &self.near.links;
                let told = Told::of_store(asked, |granted| {
                    links.granted(claim, &name, &direction, granted)
                });
                let store = &self.near.store;
                let frame = links.with_parts(store, claim, first_part, told.frame).await;
                Told { frame, ..told }
            }
            Ok(OperationKind::Commit(request)) => self.commit(request, key).await,
            Ok(OperationKind::End(end)) => self.end(end, key).await,
            Ok(_) => Told::first(rejected(Code::InvalidRequest, None)),
            Err(problem) => Told::first(rejected(Code::InvalidRequest, Some(problem))),
        }
    }

    /// Writes an event or an artifact, or takes a workspace over: what is known by what it says.
    pub async fn record(&self, device: DeviceId, frame: AgentFrame) -> Told {
        let claim = frame.lease().map(|lease| lease.claimed_by(device));
        let kind = claim.map(|claim| operation(frame, claim));
        let records = &self.near.records;
        let frame = match kind {
            Some(Ok(OperationKind::Event(event))) => {
                to_event(records.events.call(event).await.ok())
            }
            Some(Ok(OperationKind::Artifact(artifact))) => {
                to_artifact(records.artifacts.call(artifact).await.ok())
            }
            Some(Ok(OperationKind::HandOff(hand_off))) => {
                to_hand_off(records.hand_offs.call(hand_off).await.ok())
            }
            Some(Err(problem)) => rejected(Code::InvalidRequest, Some(problem)),
            Some(Ok(_)) | None => rejected(Code::InvalidRequest, None),
        };
        let replayed = matches!(
            frame,
            GatewayFrame::EventOk { replayed: true, .. }
                | GatewayFrame::ArtifactOk { replayed: true, .. }
                | GatewayFrame::Done { replayed: true, .. }
        );
        Told { frame, replayed }
    }

    /// Renews a lease explicitly; it must extend.
    pub async fn renew(
        &self,
        device: DeviceId,
        id: RequestId,
        lease: LeaseRef,
        length: Option<LeaseDuration>,
    ) -> Told {
        let claim = lease.claimed_by(device);
        let wanted = length.map_or(0, LeaseDuration::micros).to_be_bytes();
        let key = RequestKey::new(device, "renew", id, &[&named(lease), &wanted]);
        let asked = self.near.store.renew_lease(key, claim, length).await;
        Told::of_store(asked, |answer| to_progress(Some(answer), false))
    }

    /// Gives back a claim whose secret never arrived.
    pub async fn give_back(
        &self,
        device: DeviceId,
        id: RequestId,
        lease: LeaseRef,
        (claim_request, reason): (RequestId, String),
    ) -> Told {
        let parts = [
            named(lease),
            claim_request.to_string().into_bytes(),
            reason.clone().into_bytes(),
        ];
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let key = RequestKey::new(device, "release", id, &parts);
        let kind = AgentEndKind::GiveBack {
            claim_request,
            reason,
        };
        let claim = lease.claimed_by(device);
        self.end(AgentEnd { claim, kind }, key).await
    }

    async fn end(&self, end: AgentEnd, key: RequestKey) -> Told {
        let sent = self
            .near
            .finalizer
            .addr()
            .send(EndOutside { end, key })
            .await;
        match sent {
            Ok(Some(asked)) => Told::of(asked, |answer| to_end(Some(&answer))),
            Ok(None) | Err(_) => Told::first(trouble()),
        }
    }

    async fn commit(
        &self,
        request: fencepost_store::tx::begin_verification::CommitRequest,
        key: RequestKey,
    ) -> Told {
        let attempt = request.claim.attempt;
        let message = CommitOutside { request, key };
        let sent = self.near.finalizer.addr().send(message).await;
        let Ok(Some(asked)) = sent else {
            return Told::first(trouble());
        };
        let waits = |progress: &CommitProgress| {
            matches!(
                progress,
                CommitProgress::Verifying | CommitProgress::StillVerifying
            )
        };
        let verdict = match &asked {
            Asked::First(progress) | Asked::Again(progress) if waits(progress) => {
                self.end_of(attempt).await
            }
            _ => None,
        };
        Told::of(asked, |progress| match progress {
            CommitProgress::Verifying | CommitProgress::StillVerifying => verdict.map_or_else(
                || rejected(Code::Verifying, None),
                |end| to_commit(&end, false),
            ),
            CommitProgress::Final { end, replayed } => to_commit(&end, replayed),
            CommitProgress::Refused(refusal) => refused(Operation::Commit, refusal),
            CommitProgress::Trouble => trouble(),
        })
    }

    /// The end of an attempt that is being verified, here or elsewhere, if it comes soon.
    async fn end_of(&self, attempt: AttemptId) -> Option<FinalizedAttempt> {
        let began = Instant::now();
        let mut pause = FIRST_LOOK;
        while began.elapsed() < VERDICT_WAIT {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_LOOK);
            // A failed look is repeated like one in vain.
            let ended = self.near.store.finalized(vec![attempt]).await;
            if let Some(end) = ended.ok().and_then(|mut ended| ended.pop()) {
                return Some(end);
            }
        }
        None
    }

    fn cursor(&self) -> Cursor {
        let cursor = self.cursor.lock().unwrap_or_else(PoisonError::into_inner);
        cursor.clone()
    }

    fn set_cursor(&self, next: Cursor) {
        let mut cursor = self.cursor.lock().unwrap_or_else(PoisonError::into_inner);
        *cursor = next;
    }
}

/// A lease as a part of what a request means.
fn named(lease: LeaseRef) -> Vec<u8> {
    let LeaseRef {
        job_id,
        attempt_id,
        lease_epoch,
    } = lease;
    format!("{job_id} {attempt_id} {lease_epoch}").into_bytes()
}

/// The operation of a frame that goes by a request's id, and the secret in it.
fn keyed(frame: &AgentFrame) -> Option<(&'static str, Option<CommitTokenDigest>)> {
    match frame {
        AgentFrame::Progress { .. } => Some(("progress", None)),
        AgentFrame::Grant { .. } => Some(("grant", None)),
        AgentFrame::Commit { commit_token, .. } => Some(("commit", Some(commit_token.digest()))),
        AgentFrame::Fail { commit_token, .. } => Some(("fail", Some(commit_token.digest()))),
        AgentFrame::Release { commit_token, .. } => Some(("release", Some(commit_token.digest()))),
        _ => None,
    }
}

/// What the frame means, with the digest of its secret in the place of the secret.
fn key_of(
    device: DeviceId,
    name: &'static str,
    id: RequestId,
    frame: &AgentFrame,
    token: Option<CommitTokenDigest>,
) -> RequestKey {
    // Frames are made of what JSON can hold, so this cannot fail.
    let mut said = serde_json::to_value(frame).unwrap_or_default();
    if let Some(said) = said.as_object_mut() {
        said.remove("commit_token");
    }
    let said = said.to_string();
    let token = token.map(|token| *token.as_bytes()).unwrap_or_default();
    RequestKey::new(device, name, id, &[said.as_bytes(), &token])
}
