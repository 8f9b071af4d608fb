//! What each frame of the gateway does.

use fencepost_domain::service::ServiceName;
use fencepost_protocol::{
    AgentFrame, Directive, GatewayEnvelope, GatewayFrame, Hello, LeaseOffer, LeaseRef, PROTOCOL,
};
use serde_json::json;

use super::effect::FreshLink;
use super::held::{Held, State};
use super::refusals::Refusal;
use super::requests::{Asked, Kind};
use super::{Core, Effect, Link};
use crate::clock::Moment;
use crate::closing::Farewell;

/// After `no_work` that came back at once, so that a broken gateway is not asked in a loop.
const PULL_SPACING_MS: u64 = 1_000;

impl Core {
    pub(super) fn say_hello(&mut self, now: Moment) {
        let hello = Hello {
            protocol: PROTOCOL,
            agent_version: self.identity.agent_version.clone(),
            instance_id: self.identity.instance_id,
            slots: self.identity.slots,
            capabilities: self.identity.capabilities.clone(),
            held: self
                .held
                .values()
                .map(|held| held.lease.presented())
                .collect(),
        };
        self.send(Some(Kind::Hello), AgentFrame::Hello(hello), now);
    }

    /// Something was heard.
    pub fn on_frame(&mut self, envelope: GatewayEnvelope, now: Moment) {
        self.last_heard = now;
        let GatewayEnvelope {
            request_id,
            frame,
            lease,
        } = envelope;
        let asked = self.requests.answered(request_id);
        match frame {
            GatewayFrame::Welcome {
                session_id,
                intervals,
                resumed,
                recorded,
                lost,
                ..
            } => {
                let said_hello = asked.filter(|asked| asked.kind == Kind::Hello);
                let Some(hello) = said_hello.filter(|_| self.link != Link::Up) else {
                    return;
                };
                self.session = Some(session_id);
                self.intervals = intervals;
                self.on_welcome(hello.sent, resumed, recorded, lost, now);
            }
            GatewayFrame::LeaseOffer(offer) => self.on_offer(&offer, now),
            GatewayFrame::NoWork => self.on_no_work(now),
            GatewayFrame::Rejected {
                code,
                disposition,
                retry_after_ms,
                message,
            } => {
                let refusal = Refusal {
                    code,
                    disposition,
                    retry_after_ms,
                    message,
                };
                self.on_rejected(asked, lease, &refusal, now);
            }
            GatewayFrame::Busy { retry_after_ms } => {
                self.on_rejected(asked, lease, &Refusal::busy(retry_after_ms), now);
            }
            GatewayFrame::Reap { handle } => self.on_reap(handle, now),
            GatewayFrame::Disabled => self.effects.push(Effect::Exit(Farewell::Revoked)),
            GatewayFrame::UpgradeRequired => self.on_outdated(),
            about => {
                // Every answer about an attempt names the lease; one that does not is not acted on.
                if let Some(lease) = lease {
                    self.on_answer(about, asked, lease, now);
                }
            }
        }
    }

    fn on_answer(
        &mut self,
        frame: GatewayFrame,
        asked: Option<Asked>,
        lease: LeaseRef,
        now: Moment,
    ) {
        let attempt = lease.attempt_id;
        match frame {
            GatewayFrame::ProgressOk {
                lease_remaining_ms,
                directive,
                ..
            } => {
                self.on_progress_ok(asked, lease, (lease_remaining_ms, directive), now);
            }
            GatewayFrame::Done {
                lease_remaining_ms, ..
            } => {
                self.on_done(asked, lease, lease_remaining_ms, now);
            }
            GatewayFrame::CommitOk { replayed } => {
                tracing::info!(attempt.id = %attempt, replayed, "the commit is published");
                self.on_settled(lease, now);
            }
            GatewayFrame::CommitRejected { code, message } => {
                let code = code.as_str();
                tracing::warn!(attempt.id = %attempt, code, message, "the commit was rejected");
                self.on_settled(lease, now);
            }
            GatewayFrame::EventOk { .. } => {
                if let Some(Kind::Event(event)) = asked.map(|asked| asked.kind) {
                    self.on_event_answered(attempt, event, now);
                }
            }
            GatewayFrame::Cancel { reason } => self.on_cancel(lease, &reason, now),
            GatewayFrame::Granted {
                url,
                object_key,
                parts,
            } => {
                let link = FreshLink {
                    url,
                    object_key,
                    parts,
                };
                self.on_granted(lease, link);
            }
            // Nothing of ours waits for these.
            GatewayFrame::ArtifactOk { .. }
            | GatewayFrame::Reap { .. }
            | GatewayFrame::DrainAck
            | GatewayFrame::Heartbeat
            | GatewayFrame::Unknown
            | GatewayFrame::Welcome { .. }
            | GatewayFrame::LeaseOffer(_)
            | GatewayFrame::NoWork
            | GatewayFrame::Rejected { .. }
            | GatewayFrame::Busy { .. }
            | GatewayFrame::Disabled
            | GatewayFrame::UpgradeRequired => {}
        }
    }

    /// The agent is too old for new work; it may finish what it holds.
    pub fn on_outdated(&mut self) {
        self.outdated = true;
        let notice = "this agent is too old for new work: install a newer one".to_owned();
        self.effects.push(Effect::Notice(notice));
    }

    fn on_offer(&mut self, offer: &LeaseOffer, now: Moment) {
        let lease = offer.lease();
        let taken =
            self.held.contains_key(&lease.attempt_id) || self.running.contains(&lease.attempt_id);
        self.pull.standing = None;
        let reason = if self.link != Link::Up {
            return;
        } else if self.draining {
            "the agent is shutting down"
        } else if taken {
            "the attempt is still being worked on"
        } else if self.slots_free() == 0 {
            "no slot is free"
        } else if ServiceName::parse(&offer.service).is_none() {
            "the service is not known to this agent"
        } else if let Some(reason) = self.no_room_for(offer, now) {
            reason
        } else {
            self.accept(offer, now);
            return;
        };
        let frame = AgentFrame::OfferDecline {
            lease,
            reason: reason.to_owned(),
        };
        self.send(None, frame, now);
        self.maybe_pull(now);
    }

    fn accept(&mut self, offer: &LeaseOffer, now: Moment) {
        let lease = offer.lease();
        tracing::info!(
            job.id = %lease.job_id,
            attempt.id = %lease.attempt_id,
            lease.epoch = lease.lease_epoch,
            service = offer.service,
            "accepting an offer"
        );
        self.held
            .insert(lease.attempt_id, Held::offered(offer, now));
        let what = json!({ "service": offer.service, "agent": self.identity.agent_version });
        self.note(lease.attempt_id, "run.started", what);
        self.persist(lease.attempt_id);
        self.send(Some(Kind::Accept), AgentFrame::OfferAccept { lease }, now);
        self.maybe_pull(now);
    }

    fn on_no_work(&mut self, now: Moment) {
        if let Some((_, asked_at)) = self.pull.standing.take() {
            let earliest = asked_at.after_millis(PULL_SPACING_MS);
            self.pull.not_before = self.pull.not_before.max(earliest);
        }
        self.maybe_pull(now);
    }

    fn on_progress_ok(
        &mut self,
        asked: Option<Asked>,
        lease: LeaseRef,
        (remaining_ms, directive): (u64, Directive),
        now: Moment,
    ) {
        let Some(held) = self.holding(lease) else {
            return;
        };
        match (directive, asked) {
            (Directive::Stop, _) => {
                tracing::info!(attempt.id = %lease.attempt_id, "told to stop");
                self.let_go(lease.attempt_id, Some(lease), now);
            }
            (Directive::Continue, Some(asked)) if held.is_bound_by_deadline() => {
                held.lease.confirm(asked.sent, remaining_ms);
                self.move_deadline(lease.attempt_id);
            }
            (Directive::Continue, _) => {}
        }
    }

    fn on_done(
        &mut self,
        asked: Option<Asked>,
        lease: LeaseRef,
        remaining_ms: Option<u64>,
        now: Moment,
    ) {
        let Some(held) = self.holding(lease) else {
            return;
        };
        match (&held.state, asked) {
            (State::Offered { .. }, Some(asked)) if asked.kind == Kind::Accept => {
                if let Some(remaining_ms) = remaining_ms {
                    held.lease.confirm(asked.sent, remaining_ms);
                }
                self.start(lease.attempt_id, now);
            }
            (State::Settling(_), Some(asked)) if asked.kind == Kind::HandBack => {
                self.on_settled(lease, now);
            }
            (State::Offered { .. } | State::Working { .. } | State::Settling(_), _) => {}
        }
    }

    fn on_cancel(&mut self, lease: LeaseRef, reason: &str, now: Moment) {
        let attempt = lease.attempt_id;
        if self.holding(lease).is_some() {
            tracing::info!(attempt.id = %attempt, reason, "cancelled");
            self.let_go(attempt, Some(lease), now);
        } else if self.held.contains_key(&attempt) {
            tracing::info!(attempt.id = %attempt, reason, "a cancel for another epoch is ignored");
        } else if self.running.contains(&attempt) {
            self.confirm.insert(attempt, lease);
        } else {
            // Unknown to us, which is as good as stopped.
            self.say_stopped(lease, now);
        }
    }
}
