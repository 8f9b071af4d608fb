//! The actor around the core: timers, the socket's recipient, and the other actors.
//!
//! It is an ordinary actor, not a WebSocket one: a WebSocket actor is frozen, timers included,
//! while its peer does not read. What cannot be handed to the socket at once ends the session.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use actix::{Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Recipient, WrapFuture};
use fencepost_domain::fencing::LeaseClaim;
use fencepost_domain::ids::{AttemptId, DeviceId, RequestId, SessionNumber};
use fencepost_protocol::{GatewayFrame, Hello, close};
use fencepost_store::Store;
use fencepost_store::tx::lease_round::Pull;
use fencepost_store::tx::reap_workspaces::Reap;

use super::core::{Effect, SessionCore, send};
use super::lanes::{Operation, OperationKind};
use super::records::Records;
use super::{answers, greeting, offers};
use crate::finalizer::Finalizer;
use crate::matcher::Matcher;
use crate::messages::{
    CommitAttempt, EndAttempt, ForgetPull, Nudge, ProveEnded, PullLease, ReturnOffers, SessionEnded,
};
use crate::registry::{Register, Registry, Unregister};
use crate::settings::ActorSettings;
use crate::supervision::{Handle, refused};
use crate::transport::ToTransport;

/// How many messages may wait for a session: what its socket, its matcher and a sweep may send
/// while it is busy with one turn.
const MAILBOX: usize = 256;
/// An operation that got no answer by then is answered with "say it again".
const OPERATION_LIMIT: Duration = Duration::from_secs(30);

/// Everything that a session talks to.
#[derive(Clone)]
pub struct Neighbours {
    /// The store, for hello and links.
    pub store: Store,
    /// Signs the links in offers.
    pub links: offers::OfferLinks,
    /// Writes what sessions record, many at a time.
    pub records: Records,
    /// Leases.
    pub matcher: Handle<Matcher>,
    /// Commits and ends.
    pub finalizer: Handle<Finalizer>,
    /// Knows the sessions.
    pub registry: Handle<Registry>,
    /// Periods.
    pub settings: ActorSettings,
}

/// One device's session.
pub struct DeviceSession {
    pub(super) device: DeviceId,
    pub(super) session: SessionNumber,
    pub(super) core: SessionCore,
    pub(super) near: Neighbours,
    socket: Recipient<ToTransport>,
    pub(super) running: HashMap<AttemptId, (Operation, Instant)>,
    pub(super) last_heard: Instant,
    /// When the socket was opened.
    opened: Instant,
    pub(super) closing: bool,
}

impl DeviceSession {
    /// A session for an authenticated socket.
    pub fn new(
        device: DeviceId,
        session: SessionNumber,
        socket: Recipient<ToTransport>,
        near: Neighbours,
    ) -> Self {
        Self {
            device,
            session,
            core: SessionCore::new(device, session),
            near,
            socket,
            running: HashMap::new(),
            last_heard: Instant::now(),
            opened: Instant::now(),
            closing: false,
        }
    }

    pub(super) fn perform(&mut self, effects: Vec<Effect>, ctx: &mut Context<Self>) {
        for effect in effects {
            if self.closing {
                return;
            }
            match effect {
                Effect::Send(envelope) => self.write(ToTransport::Send(envelope), ctx),
                Effect::Greet(request, hello) => self.greet(request, *hello, ctx),
                Effect::Pull(slots_free) => self.pull(slots_free, ctx),
                Effect::Reaped(request, handle) => self.reaped(request, handle, ctx),
                Effect::Run(operation) => self.run(*operation, ctx),
                Effect::ProveEnded(attempts) => self.prove(attempts),
                Effect::Nudge => self.nudge(),
                Effect::Close(code, reason) => self.close(code, reason, ctx),
            }
        }
    }

    /// What the socket does not take at once means that the peer has stopped reading.
    pub(super) fn write(&mut self, message: ToTransport, ctx: &mut Context<Self>) {
        if self.socket.try_send(message).is_err() {
            refused("transport");
            tracing::info!(device.id = %self.device, "the peer does not read; closing");
            self.closing = true;
            ctx.stop();
        }
    }

    pub(super) fn close(&mut self, code: u16, reason: &str, ctx: &mut Context<Self>) {
        tracing::info!(device.id = %self.device, session = %self.session, code, reason, "closing");
        let reason = reason.to_owned();
        self.write(ToTransport::Close { code, reason }, ctx);
        self.closing = true;
        ctx.stop();
    }

    fn greet(&mut self, request: RequestId, hello: Hello, ctx: &mut Context<Self>) {
        let store = self.near.store.clone();
        let facts = greeting::facts(self.device, self.session, hello);
        let greeting = async move { store.begin_session(facts).await }
            .into_actor(self)
            .map(move |answer, session, ctx| session.greeted(request, answer, ctx));
        ctx.spawn(greeting);
    }

    /// Registers first and then has the rows read, so that nothing that ends in between is missed.
    pub(super) fn become_current(&mut self, ctx: &mut Context<Self>) {
        let register = Register {
            device: self.device,
            session: self.session,
            addr: ctx.address(),
        };
        if self.near.registry.try_send(register).is_err() {
            self.close(close::TRY_LATER, "the gateway is overloaded", ctx);
            return;
        }
        self.core.welcomed();
        let store = self.near.store.clone();
        let asked = vec![(self.device, self.session)];
        let read = async move { store.sessions(asked).await }
            .into_actor(self)
            .map(|views, session, ctx| {
                // A failed read is repeated by the next sweep.
                for view in views.unwrap_or_default() {
                    let effects = session.core.on_refresh(&view);
                    session.perform(effects, ctx);
                }
            });
        ctx.spawn(read);
    }

    fn pull(&mut self, slots_free: u32, ctx: &mut Context<Self>) {
        let pull = Pull {
            device: self.device,
            session: self.session,
            slots_free,
        };
        let message = PullLease {
            pull,
            session: ctx.address().recipient(),
        };
        if self.near.matcher.try_send(message).is_err() {
            let busy = GatewayFrame::Busy {
                retry_after_ms: 1_000,
            };
            self.perform(vec![send(None, None, busy)], ctx);
        }
    }

    fn reaped(&mut self, request: RequestId, handle: String, ctx: &mut Context<Self>) {
        let device = self.device;
        let gone = self.near.records.reaped.call(Reap { device, handle });
        let answer = gone.into_actor(self).map(move |known, session, ctx| {
            let frame = known.map_or_else(|_| answers::trouble(), answers::done_again);
            session.perform(vec![send(Some(request), None, frame)], ctx);
        });
        ctx.spawn(answer);
    }

    fn run(&mut self, operation: Operation, ctx: &mut Context<Self>) {
        let attempt = operation.lease.attempt_id;
        let claim = operation.lease.claimed_by(self.device);
        self.running
            .insert(attempt, (operation.clone(), Instant::now()));
        let reply = ctx.address().recipient();
        let finalizer = &self.near.finalizer;
        let sent = match operation.kind {
            OperationKind::Commit(request) => {
                finalizer.try_send(CommitAttempt { request, reply }).is_ok()
            }
            OperationKind::End(end) => finalizer.try_send(EndAttempt { end, reply }).is_ok(),
            OperationKind::Decline => finalizer
                .try_send(ReturnOffers {
                    offers: vec![claim],
                    decline: Some(reply),
                    delivered: true,
                })
                .is_ok(),
            record => {
                let answer = self.record(record, claim).into_actor(self);
                ctx.spawn(answer.map(move |frame, session, ctx| {
                    session.answered(attempt, &frame, ctx);
                }));
                true
            }
        };
        if !sent {
            self.answered(
                attempt,
                &GatewayFrame::Busy {
                    retry_after_ms: 1_000,
                },
                ctx,
            );
        }
    }

    /// What ends nothing. It is queued before this returns, and answered by the future.
    fn record(
        &self,
        kind: OperationKind,
        claim: LeaseClaim,
    ) -> Pin<Box<dyn Future<Output = GatewayFrame>>> {
        let records = &self.near.records;
        match kind {
            OperationKind::Progress(progress) => {
                let is_accept = progress.phase.is_none();
                let answer = records.progress.call(progress);
                Box::pin(async move { answers::to_progress(answer.await.ok(), is_accept) })
            }
            OperationKind::Event(event) => {
                let answer = records.events.call(event);
                Box::pin(async move { answers::to_event(answer.await.ok()) })
            }
            OperationKind::Artifact(artifact) => {
                let answer = records.artifacts.call(artifact);
                Box::pin(async move { answers::to_artifact(answer.await.ok()) })
            }
            OperationKind::HandOff(hand_off) => {
                let answer = records.hand_offs.call(hand_off);
                Box::pin(async move { answers::to_hand_off(answer.await.ok()) })
            }
            OperationKind::Grant {
                name,
                direction,
                first_part,
            } => {
                let (store, links) = (self.near.store.clone(), self.near.links.clone());
                Box::pin(async move {
                    let frame = links.regrant(&store, claim, &name, &direction).await;
                    links.with_parts(&store, claim, first_part, frame).await
                })
            }
            // These go to the finalizer.
            OperationKind::Commit(_) | OperationKind::End(_) | OperationKind::Decline => {
                Box::pin(std::future::ready(answers::trouble()))
            }
        }
    }

    pub(super) fn answered(
        &mut self,
        attempt: AttemptId,
        frame: &GatewayFrame,
        ctx: &mut Context<Self>,
    ) {
        let Some((operation, _)) = self.running.remove(&attempt) else {
            return;
        };
        let effects = self.core.on_answered(&operation, frame);
        self.perform(effects, ctx);
    }

    fn return_offers(&mut self, offers: Vec<LeaseClaim>) {
        if !offers.is_empty()
            && self
                .near
                .finalizer
                .try_send(ReturnOffers {
                    offers,
                    decline: None,
                    delivered: true,
                })
                .is_err()
        {
            // Nobody accepted them, so the accept deadline returns them.
            tracing::warn!(device.id = %self.device, "offers are left to their accept deadline");
        }
    }

    fn prove(&mut self, attempts: Vec<AttemptId>) {
        if self.near.finalizer.try_send(ProveEnded(attempts)).is_err() {
            tracing::debug!(device.id = %self.device, "the next sweep asks again");
        }
    }

    fn nudge(&mut self) {
        if self.near.matcher.try_send(Nudge).is_err() {
            tracing::debug!("the matcher is busy; its timer does the same");
        }
    }

    fn tick(&mut self, ctx: &mut Context<Self>) {
        let dead = Duration::from_millis(self.near.settings.intervals.dead_ms);
        if !self.core.is_current() && self.opened.elapsed() > dead {
            self.close(close::SILENT, "no hello was said in time", ctx);
            return;
        }
        if self.last_heard.elapsed() > dead {
            self.close(close::SILENT, "nothing was heard for too long", ctx);
            return;
        }
        let overdue: Vec<_> = self
            .running
            .iter()
            .filter(|(_, (_, since))| since.elapsed() > OPERATION_LIMIT)
            .map(|(attempt, _)| *attempt)
            .collect();
        for attempt in overdue {
            self.answered(attempt, &answers::trouble(), ctx);
        }
    }
}

impl Actor for DeviceSession {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX);
        let beat = Duration::from_millis(self.near.settings.intervals.heartbeat_ms);
        ctx.run_interval(beat, |session, ctx| {
            session.perform(vec![send(None, None, GatewayFrame::Heartbeat)], ctx);
        });
        ctx.run_interval(beat.min(Duration::from_secs(1)), Self::tick);
    }

    fn stopped(&mut self, _: &mut Self::Context) {
        self.return_offers(self.core.unaccepted());
        let (device, session) = (self.device, self.session);
        let ended = SessionEnded { device, session };
        if self.near.finalizer.try_send(ended).is_err()
            || self
                .near
                .matcher
                .try_send(ForgetPull { device, session })
                .is_err()
            || self
                .near
                .registry
                .try_send(Unregister { device, session })
                .is_err()
        {
            // The registry drops closed addresses when it meets them; a lease for a closed session
            // is returned when its offer cannot be delivered.
            tracing::debug!(device.id = %device, "a closed session is found out later");
        }
    }
}
