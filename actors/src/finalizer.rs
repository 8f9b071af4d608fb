//! Everything that ends an attempt at its agent's word.
//!
//! ```text
//! CommitAttempt ─> tx begin_verification ─> CommitProgress to the session
//!                        │ accepted
//!                  Verifier (no lock held)
//!                        │ verdict
//!                  tx settle_commit ── COMMIT returned ─> AttemptFinalized, through the registry
//! ```
//!
//! It owns the futures, so a commit outlives the socket that brought it. If this actor or the
//! process dies in between, the rows say so and a sweep picks the verification up again.

use std::collections::HashMap;

use actix::{
    Actor, ActorFutureExt, AsyncContext, Context, Handler, MessageResult, Recipient,
    ResponseActFuture, WrapFuture,
};
use fencepost_domain::ids::{AttemptId, DeviceId, SessionNumber};
use fencepost_store::tx::Asked;
use fencepost_store::tx::begin_verification::{CommitAnswer, CommitRequest, VerificationTicket};
use fencepost_store::tx::end_by_agent::{AgentEnd, AgentEndAnswer};
use fencepost_store::tx::settle_commit::{Settle, Settled};
use fencepost_store::{FinalizedAttempt, Store};
use serde_json::json;

use crate::batch::{Batcher, batch_call};
use crate::matcher::Matcher;
use crate::messages::{
    CommitAttempt, CommitOutside, CommitProgress, EndAttempt, EndOutside, FromFinalizer, Nudge,
    ProveEnded, ReturnOffers, SessionEnded, Snapshot, TakeOver,
};
use crate::registry::{Registry, RouteEnds};
use crate::settings::ActorSettings;
use crate::supervision::{Handle, refused};
use crate::verifier::{Verifier, VerifyOutput};

const MAILBOX: usize = 4096;

/// The finalizer.
pub struct Finalizer {
    near: FinalizerLinks,
    /// Verifications that this gateway has in hand, to be kept from being taken over.
    verifying: HashMap<AttemptId, i64>,
}

/// What the finalizer talks to.
#[derive(Clone)]
pub struct FinalizerLinks {
    /// For what is not batched.
    pub store: Store,
    /// Accepts commits, many at a time.
    pub begin: Batcher<BeginCall>,
    /// Settles verdicts, many at a time.
    pub settle: Batcher<SettleCall>,
    /// Ends attempts, many at a time.
    pub end: Batcher<EndCall>,
    /// Notes closed sockets, many at a time.
    pub end_session: Batcher<EndSessionCall>,
    /// Checks outputs.
    pub verifier: Handle<Verifier>,
    /// Routes ends to sessions.
    pub registry: Handle<Registry>,
    /// Told when something may have been requeued; set once it exists.
    pub matcher: std::sync::Arc<std::sync::OnceLock<Handle<Matcher>>>,
    /// Periods.
    pub settings: ActorSettings,
}

batch_call! {
    /// `begin_verification` as a batch.
    BeginCall = begin_verification(CommitRequest) -> CommitAnswer, about |one| one.claim.attempt
}
batch_call! {
    /// `settle_commit` as a batch.
    SettleCall = settle_commit(Settle) -> Settled, about |one| one.attempt
}
batch_call! {
    /// `end_by_agent` as a batch.
    EndCall = end_by_agent(AgentEnd) -> AgentEndAnswer, about |one| one.claim.attempt
}
batch_call! {
    /// `end_sessions` as a batch.
    EndSessionCall = end_sessions((DeviceId, SessionNumber)) -> bool
}

impl Finalizer {
    /// A finalizer with nothing in hand.
    pub fn new(near: FinalizerLinks) -> Self {
        Self {
            near,
            verifying: HashMap::new(),
        }
    }

    fn verify(&mut self, ticket: VerificationTicket, ctx: &mut Context<Self>) {
        let attempt = ticket.attempt;
        self.verifying.insert(attempt, ticket.verification_epoch);
        let work = verify_and_settle(self.near.clone(), ticket)
            .into_actor(self)
            .map(move |(), finalizer, _| {
                finalizer.verifying.remove(&attempt);
            });
        ctx.spawn(work);
    }

    /// What a commit's answer means for whoever asked; verifies it if it was accepted.
    fn go_on(
        &mut self,
        attempt: AttemptId,
        answer: CommitAnswer,
        ctx: &mut Context<Self>,
    ) -> CommitProgress {
        match answer {
            CommitAnswer::Verify(ticket) => {
                self.verify(*ticket, ctx);
                CommitProgress::Verifying
            }
            CommitAnswer::StillVerifying => CommitProgress::StillVerifying,
            CommitAnswer::Final { end, replayed } => CommitProgress::Final { end, replayed },
            CommitAnswer::Refused(refusal) => {
                tracing::info!(attempt.id = %attempt, %refusal, "a commit was refused");
                CommitProgress::Refused(refusal)
            }
        }
    }

    fn renew(&mut self, ctx: &mut Context<Self>) {
        let mine = self
            .verifying
            .iter()
            .map(|(attempt, epoch)| (*attempt, *epoch))
            .collect();
        let store = self.near.store.clone();
        let renewal = async move {
            if let Err(error) = store.renew_verifications(mine).await {
                tracing::warn!(%error, "verifications were not renewed; another gateway may help");
            }
        };
        ctx.spawn(renewal.into_actor(self));
    }
}

impl FinalizerLinks {
    /// Tells the sessions of attempts that have ended, and the matcher that there may be work.
    fn tell(&self, ends: Vec<FinalizedAttempt>) {
        if ends.is_empty() {
            return;
        }
        if self.registry.try_send(RouteEnds(ends)).is_err() {
            tracing::warn!("sessions learn of ended attempts from the next sweep");
        }
        if self
            .matcher
            .get()
            .is_some_and(|matcher| matcher.try_send(Nudge).is_err())
        {
            tracing::debug!("the matcher's timer does the same");
        }
    }
}

/// Verifies with no lock held, then settles.
async fn verify_and_settle(near: FinalizerLinks, ticket: VerificationTicket) {
    let (attempt, job) = (ticket.attempt, ticket.job);
    let Ok(settle) = near
        .verifier
        .addr()
        .send(VerifyOutput(Box::new(ticket)))
        .await
    else {
        tracing::warn!(attempt.id = %attempt, "the verifier is gone; a sweep takes over");
        return;
    };
    match near.settle.call(settle).await {
        Ok(Settled::Final(end)) => {
            let outcome = end.status().as_str();
            metrics::counter!("fencepost_commits_total", "outcome" => outcome).increment(1);
            tracing::info!(job.id = %job, attempt.id = %attempt, outcome, "settled");
            near.tell(vec![end]);
        }
        Ok(Settled::Later) => tracing::warn!(attempt.id = %attempt, "checked again later"),
        Ok(Settled::TakenOver) => {
            tracing::info!(attempt.id = %attempt, "another gateway settles it");
        }
        Err(error) => {
            tracing::warn!(attempt.id = %attempt, %error, "not settled; a sweep takes over");
        }
    }
}

/// Answers a session that may be gone: then its device asks again and is answered from the rows.
fn reply(to: &Recipient<FromFinalizer>, message: FromFinalizer) {
    if to.try_send(message).is_err() {
        refused("session");
    }
}

impl Actor for Finalizer {
    type Context = Context<Self>;
    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX);
        ctx.run_interval(self.near.settings.verification_renewal, Self::renew);
    }
}

impl Handler<CommitAttempt> for Finalizer {
    type Result = ();
    fn handle(&mut self, message: CommitAttempt, ctx: &mut Self::Context) {
        let CommitAttempt {
            request,
            reply: session,
        } = message;
        let attempt = request.claim.attempt;
        let begun = self.near.begin.call(request).into_actor(self);
        ctx.spawn(begun.map(move |answer, finalizer, ctx| {
            let progress = match answer {
                Ok(answer) => finalizer.go_on(attempt, answer, ctx),
                Err(error) => {
                    tracing::warn!(attempt.id = %attempt, %error, "a commit was not taken");
                    CommitProgress::Trouble
                }
            };
            reply(
                &session,
                FromFinalizer::CommitProgress { attempt, progress },
            );
        }));
    }
}

impl Handler<EndAttempt> for Finalizer {
    type Result = ();
    fn handle(&mut self, message: EndAttempt, ctx: &mut Self::Context) {
        let EndAttempt {
            end,
            reply: session,
        } = message;
        let attempt = end.claim.attempt;
        let ended = self.near.end.call(end).into_actor(self);
        ctx.spawn(ended.map(move |answer, finalizer, _| {
            let answer = answer
                .inspect_err(|error| tracing::warn!(attempt.id = %attempt, %error, "not ended"))
                .ok();
            let end = match &answer {
                Some(AgentEndAnswer::Final {
                    end,
                    replayed: false,
                }) => vec![end.clone()],
                _ => Vec::new(),
            };
            // The session that asked is answered before the news is spread.
            reply(&session, FromFinalizer::AgentEnded { attempt, answer });
            finalizer.near.tell(end);
        }));
    }
}

impl Handler<CommitOutside> for Finalizer {
    type Result = ResponseActFuture<Self, Option<Asked<CommitProgress>>>;
    fn handle(&mut self, message: CommitOutside, _: &mut Self::Context) -> Self::Result {
        let CommitOutside { request, key } = message;
        let attempt = request.claim.attempt;
        let store = self.near.store.clone();
        let begun = async move { store.begin_verification_once(key, request).await };
        Box::pin(begun.into_actor(self).map(move |asked, finalizer, ctx| {
            let asked = asked
                .inspect_err(|error| tracing::warn!(attempt.id = %attempt, %error, "not taken"))
                .ok()?;
            Some(match asked {
                Asked::First(answer) => Asked::First(finalizer.go_on(attempt, answer, ctx)),
                Asked::Again(answer) => Asked::Again(finalizer.go_on(attempt, answer, ctx)),
                Asked::OtherContent => Asked::OtherContent,
            })
        }))
    }
}

impl Handler<EndOutside> for Finalizer {
    type Result = ResponseActFuture<Self, Option<Asked<AgentEndAnswer>>>;
    fn handle(&mut self, message: EndOutside, _: &mut Self::Context) -> Self::Result {
        let EndOutside { end, key } = message;
        let attempt = end.claim.attempt;
        let store = self.near.store.clone();
        let ended = async move { store.end_by_agent_once(key, end).await };
        Box::pin(ended.into_actor(self).map(move |asked, finalizer, _| {
            let asked = asked
                .inspect_err(|error| tracing::warn!(attempt.id = %attempt, %error, "not ended"))
                .ok()?;
            if let Asked::First(AgentEndAnswer::Final { end, .. }) = &asked {
                finalizer.near.tell(vec![end.clone()]);
            }
            Some(asked)
        }))
    }
}

impl Handler<ReturnOffers> for Finalizer {
    type Result = ();
    fn handle(&mut self, message: ReturnOffers, ctx: &mut Self::Context) {
        let ReturnOffers {
            offers,
            decline,
            delivered,
        } = message;
        let attempts: Vec<_> = offers.iter().map(|offer| offer.attempt).collect();
        let store = self.near.store.clone();
        let returned = async move {
            if delivered {
                store.return_offers(offers).await
            } else {
                store.return_undelivered(offers).await
            }
        }
        .into_actor(self);
        ctx.spawn(returned.map(move |ended, finalizer, _| {
            if let (Some(session), Some(attempt)) = (decline, attempts.first()) {
                let attempt = *attempt;
                let ended = ended
                    .as_ref()
                    .ok()
                    .map(|ended| ended.iter().any(|end| end.attempt() == attempt));
                reply(&session, FromFinalizer::OfferReturned { attempt, ended });
            }
            match ended {
                Ok(ended) => finalizer.near.tell(ended),
                Err(error) => {
                    tracing::warn!(%error, "offers are left to their accept deadline");
                }
            }
        }));
    }
}

impl Handler<SessionEnded> for Finalizer {
    type Result = ();
    fn handle(&mut self, message: SessionEnded, ctx: &mut Self::Context) {
        let SessionEnded { device, session } = message;
        let noted = self.near.end_session.call((device, session));
        ctx.spawn(noted.into_actor(self).map(|noted, _, _| {
            if let Err(error) = noted {
                tracing::debug!(%error, "a device seems connected until its next hello");
            }
        }));
    }
}

impl Handler<ProveEnded> for Finalizer {
    type Result = ();
    fn handle(&mut self, message: ProveEnded, ctx: &mut Self::Context) {
        let store = self.near.store.clone();
        let proof = async move { store.finalized(message.0).await }.into_actor(self);
        ctx.spawn(proof.map(|ended, finalizer, _| match ended {
            Ok(ended) => finalizer.near.tell(ended),
            Err(error) => tracing::warn!(%error, "the next sweep asks again"),
        }));
    }
}

impl Handler<TakeOver> for Finalizer {
    type Result = ();
    fn handle(&mut self, message: TakeOver, ctx: &mut Self::Context) {
        for ticket in message.0 {
            tracing::info!(attempt.id = %ticket.attempt, "a verification is taken over");
            self.verify(ticket, ctx);
        }
    }
}

impl Handler<Snapshot> for Finalizer {
    type Result = MessageResult<Snapshot>;
    fn handle(&mut self, _: Snapshot, _: &mut Self::Context) -> Self::Result {
        MessageResult(json!({ "verifying": self.verifying.len() }))
    }
}
