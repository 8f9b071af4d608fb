//! What a session does with each message.

use std::time::Instant;

use actix::{ActorContext, Handler};
use fencepost_protocol::{Code, GatewayFrame, close};
use fencepost_store::tx::end_by_agent::AgentEndAnswer;

use super::actor::DeviceSession;
use super::answers;
use super::core::send;
use crate::messages::{
    AttemptFinalized, FromFinalizer, FromMatcher, ReapWorkspace, SessionRefresh, StopAttempt,
    Superseded,
};
use crate::system::ShutDown;
use crate::transport::FromTransport;

impl Handler<FromTransport> for DeviceSession {
    type Result = ();
    fn handle(&mut self, message: FromTransport, ctx: &mut Self::Context) {
        self.last_heard = Instant::now();
        let effects = match message {
            FromTransport::Frame(envelope) => self.core.on_frame(*envelope),
            FromTransport::Unreadable {
                request_id,
                lease,
                problem,
            } => {
                let code = Code::InvalidRequest;
                vec![send(
                    request_id,
                    lease,
                    answers::rejected(code, Some(&problem)),
                )]
            }
            FromTransport::Closed => {
                self.closing = true;
                ctx.stop();
                return;
            }
        };
        self.perform(effects, ctx);
    }
}

impl Handler<FromMatcher> for DeviceSession {
    type Result = ();
    fn handle(&mut self, message: FromMatcher, ctx: &mut Self::Context) {
        match message {
            FromMatcher::OfferLease(leased) => {
                let offer = self.near.links.offer(&leased);
                self.core.on_offer(offer.lease().claimed_by(self.device));
                let frame = GatewayFrame::LeaseOffer(Box::new(offer));
                self.perform(vec![send(None, None, frame)], ctx);
            }
            FromMatcher::NoWork => {
                self.perform(vec![send(None, None, GatewayFrame::NoWork)], ctx);
            }
        }
    }
}

impl Handler<FromFinalizer> for DeviceSession {
    type Result = ();
    fn handle(&mut self, message: FromFinalizer, ctx: &mut Self::Context) {
        match message {
            FromFinalizer::CommitProgress { attempt, progress } => {
                let Some((operation, _)) = self.running.remove(&attempt) else {
                    return;
                };
                let Some(request) = operation.requests.first() else {
                    return;
                };
                let effects = self
                    .core
                    .on_commit_progress(*request, operation.lease, progress);
                self.perform(effects, ctx);
            }
            FromFinalizer::AgentEnded { attempt, answer } => {
                let end = match &answer {
                    Some(AgentEndAnswer::Final { end, .. }) => Some(end.clone()),
                    _ => None,
                };
                // Reply first, then release.
                self.answered(attempt, &answers::to_end(answer.as_ref()), ctx);
                if let Some(effect) = end.and_then(|end| self.core.release(&end)) {
                    self.perform(vec![effect], ctx);
                }
            }
            FromFinalizer::OfferReturned { attempt, ended } => {
                if ended == Some(true) {
                    self.core.gave_back(attempt);
                }
                let lease = self
                    .running
                    .get(&attempt)
                    .map(|(operation, _)| operation.lease);
                let held = lease.is_some_and(|lease| self.core.holds(lease));
                let frame = match ended {
                    Some(true) => answers::done(),
                    Some(false) if held => answers::accepted_already(),
                    Some(false) => answers::rejected(Code::LeaseConflict, None),
                    None => answers::trouble(),
                };
                self.answered(attempt, &frame, ctx);
            }
        }
    }
}

impl Handler<AttemptFinalized> for DeviceSession {
    type Result = ();
    fn handle(&mut self, message: AttemptFinalized, ctx: &mut Self::Context) {
        let effects = self.core.on_finalized(&message.0);
        self.perform(effects, ctx);
    }
}

impl Handler<StopAttempt> for DeviceSession {
    type Result = ();
    fn handle(&mut self, message: StopAttempt, ctx: &mut Self::Context) {
        let effects = self.core.on_stop(&message.0, "buyer_cancelled");
        self.perform(effects.into_iter().collect(), ctx);
    }
}

impl Handler<ReapWorkspace> for DeviceSession {
    type Result = ();
    fn handle(&mut self, message: ReapWorkspace, ctx: &mut Self::Context) {
        let handle = message.0;
        self.perform(vec![send(None, None, GatewayFrame::Reap { handle })], ctx);
    }
}

impl Handler<SessionRefresh> for DeviceSession {
    type Result = ();
    fn handle(&mut self, message: SessionRefresh, ctx: &mut Self::Context) {
        let effects = self.core.on_refresh(&message.0);
        self.perform(effects, ctx);
    }
}

impl Handler<Superseded> for DeviceSession {
    type Result = ();
    fn handle(&mut self, _: Superseded, ctx: &mut Self::Context) {
        self.close(
            close::SUPERSEDED,
            "a newer session of this device is current",
            ctx,
        );
    }
}

impl Handler<ShutDown> for DeviceSession {
    type Result = ();
    fn handle(&mut self, _: ShutDown, ctx: &mut Self::Context) {
        self.close(close::RESTART, "the gateway is going down", ctx);
    }
}
