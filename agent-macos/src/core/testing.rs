//! Plays the gateway and the clock to a core.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::commit_token::{CommitToken, TOKEN_BYTES};
use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::ids::{AttemptId, InstanceId, JobId, RequestId, SessionNumber};
use fencepost_protocol::{
    AgentEnvelope, AgentFrame, Code, Directive, Disposition, GatewayEnvelope, GatewayFrame,
    LeaseOffer, LeaseRef, Limits, Lost, OutputDeclaration, OutputGrant, PROTOCOL, Recorded,
    Resumed,
};
use serde_json::json;

use super::{Core, DEFAULT_INTERVALS, Effect, Identity, JobOutcome};
use crate::clock::Moment;
use crate::outbox::LeaseRecord;

/// A core with a clock that we move, and everything it wanted done since we last looked.
pub(super) struct Bench {
    pub(super) core: Core,
    pub(super) now: Moment,
    pub(super) effects: Vec<Effect>,
    /// Whether journal entries are answered without a word of the test.
    pub(super) answers_events: bool,
}

pub(super) fn token(fill: u8) -> CommitToken {
    CommitToken::from_entropy([fill; TOKEN_BYTES])
}

pub(super) fn offer() -> LeaseOffer {
    LeaseOffer {
        job_id: JobId::new(),
        attempt_id: AttemptId::new(),
        attempt_number: 1,
        lease_epoch: 1,
        commit_token: token(1),
        lease_expires_at: time::OffsetDateTime::UNIX_EPOCH,
        lease_remaining_ms: 10_000,
        service: "transcode.v1".to_owned(),
        params: json!({"codec": "h264"}),
        inputs: Vec::new(),
        output: OutputGrant {
            parts_above: None,
            url: "/o".to_owned(),
            object_key: "key".to_owned(),
            max_bytes: 9,
        },
        limits: Limits {
            max_output_seconds: 600,
            max_run_seconds: 60,
        },
        traceparent: None,
    }
}

pub(super) fn output() -> OutputDeclaration {
    let sha256 = "ab".repeat(32);
    OutputDeclaration {
        sha256,
        size_bytes: 7,
        object_key: "key".to_owned(),
    }
}

impl Bench {
    pub(super) fn new(slots: u32) -> Self {
        Self::with_left(slots, Vec::new())
    }

    pub(super) fn with_left(slots: u32, left: Vec<LeaseRecord>) -> Self {
        let now = Moment::from_millis(1_000_000);
        let identity = Identity {
            agent_version: "0.0.0".to_owned(),
            instance_id: InstanceId::new(),
            slots,
            capabilities: Vec::new(),
        };
        let mut bench = Self {
            core: Core::new(identity, left, now),
            now,
            effects: Vec::new(),
            answers_events: true,
        };
        bench.collect();
        bench
    }

    /// A connected one, welcomed with nothing held.
    pub(super) fn connected(slots: u32) -> Self {
        let mut bench = Self::new(slots);
        bench.connect();
        bench.welcome(Vec::new(), Vec::new(), Vec::new());
        bench
    }

    /// A connected one with one slot that works on the offer that it returns.
    pub(super) fn working() -> (Self, LeaseRef) {
        let mut bench = Self::connected(1);
        let offer = offer();
        let lease = offer.lease();
        bench.offer(offer);
        bench.answer_last(GatewayFrame::Done {
            replayed: false,
            lease_remaining_ms: Some(60_000),
        });
        bench
            .core
            .on_job_progress(lease.attempt_id, Phase::Running, Some(1.0), bench.now);
        bench.collect();
        bench.confirm_progress();
        bench.effects.clear();
        (bench, lease)
    }

    pub(super) fn connect(&mut self) {
        self.core.on_connected(self.now);
        self.collect();
    }

    pub(super) fn disconnect(&mut self) {
        self.core.on_disconnected();
        self.collect();
    }

    /// Time passes, with the ticks that belong to it.
    pub(super) fn pass(&mut self, millis: u64) {
        for _ in 0..millis / 200 {
            self.now = self.now.after_millis(200);
            self.core.on_tick(self.now);
        }
        self.collect();
    }

    /// Time passes without us, as in sleep.
    pub(super) fn freeze(&mut self, millis: u64) {
        self.now = self.now.after_millis(millis);
        self.core.on_tick(self.now);
        self.collect();
    }

    pub(super) fn hear(
        &mut self,
        request: Option<RequestId>,
        lease: Option<LeaseRef>,
        frame: GatewayFrame,
    ) {
        self.core.on_frame(
            GatewayEnvelope {
                request_id: request,
                frame,
                lease,
            },
            self.now,
        );
        self.collect();
    }

    /// Answers the last frame that was said, echoing what answers echo.
    pub(super) fn answer_last(&mut self, frame: GatewayFrame) {
        let last = self.said().pop().expect("nothing was said");
        self.answer(&last, frame);
    }

    pub(super) fn answer(&mut self, said: &AgentEnvelope, frame: GatewayFrame) {
        self.hear(Some(said.request_id), said.frame.lease(), frame);
    }

    pub(super) fn welcome(
        &mut self,
        resumed: Vec<Resumed>,
        recorded: Vec<Recorded>,
        lost: Vec<Lost>,
    ) {
        let hello = self
            .said()
            .into_iter()
            .rfind(|said| matches!(said.frame, AgentFrame::Hello(_)))
            .expect("no hello was said");
        let frame = GatewayFrame::Welcome {
            session_id: SessionNumber(1),
            protocol: PROTOCOL,
            intervals: DEFAULT_INTERVALS,
            resumed,
            recorded,
            lost,
        };
        self.answer(&hello, frame);
    }

    pub(super) fn offer(&mut self, offer: LeaseOffer) {
        self.hear(None, None, GatewayFrame::LeaseOffer(Box::new(offer)));
    }

    /// Confirms every progress with a full lease.
    pub(super) fn confirm_progress(&mut self) {
        self.answer_progress(Directive::Continue);
    }

    /// Answers every progress that was said.
    pub(super) fn answer_progress(&mut self, directive: Directive) {
        for said in self.said() {
            if matches!(said.frame, AgentFrame::Progress { .. }) {
                self.confirm_with(&said, directive);
            }
        }
    }

    /// Confirms one progress with a full lease.
    pub(super) fn confirm(&mut self, said: &AgentEnvelope) {
        self.confirm_with(said, Directive::Continue);
    }

    fn confirm_with(&mut self, said: &AgentEnvelope, directive: Directive) {
        let frame = GatewayFrame::ProgressOk {
            lease_expires_at: time::OffsetDateTime::UNIX_EPOCH,
            lease_remaining_ms: 60_000,
            directive,
            reason: None,
        };
        self.answer(said, frame);
    }

    pub(super) fn refuse(&mut self, said: &AgentEnvelope, code: Code, retry_after_ms: Option<u64>) {
        let disposition: Disposition = code.disposition();
        let message = None;
        self.answer(
            said,
            GatewayFrame::Rejected {
                code,
                disposition,
                retry_after_ms,
                message,
            },
        );
    }

    pub(super) fn end_job(&mut self, attempt: AttemptId, outcome: JobOutcome) {
        self.core.on_job_ended(attempt, outcome, self.now);
        self.collect();
    }

    pub(super) fn drain(&mut self) {
        self.core.drain(self.now);
        self.collect();
    }

    /// What failed runs leave is kept for so long.
    pub(super) fn keep(
        &mut self,
        retain_for: Option<LeaseDuration>,
        left: Vec<(AttemptId, Duration)>,
    ) {
        self.core.keep_for(retain_for, left, self.now);
        self.collect();
    }

    /// What was kept of an attempt is deleted.
    pub(super) fn reaped(&mut self, attempt: AttemptId) {
        self.core.on_reaped(attempt, self.now);
        self.collect();
    }

    /// The last frame of a type that was said.
    pub(super) fn said_of_type(&self, wanted: &str) -> AgentEnvelope {
        let is_wanted = |said: &AgentEnvelope| {
            serde_json::to_value(&said.frame).expect("frames are JSON")["type"] == wanted
        };
        self.said()
            .into_iter()
            .rfind(is_wanted)
            .expect("it was said")
    }

    /// Everything said since the effects were cleared, but for journal entries.
    pub(super) fn said(&self) -> Vec<AgentEnvelope> {
        let said = self.effects.iter().filter_map(|effect| match effect {
            Effect::Send(envelope) if is_event(envelope) => None,
            Effect::Send(envelope) => Some((**envelope).clone()),
            _ => None,
        });
        said.collect()
    }

    pub(super) fn last_said(&self) -> AgentFrame {
        self.said().pop().expect("nothing was said").frame
    }

    /// The word of each effect, frames by their type: what happened, in order.
    pub(super) fn story(&self) -> Vec<String> {
        let effects = self.effects.iter().filter(|effect| match effect {
            Effect::Send(envelope) => !is_event(envelope),
            _ => true,
        });
        effects.map(word).collect()
    }

    pub(super) fn take_story(&mut self) -> Vec<String> {
        let story = self.story();
        self.effects.clear();
        story
    }

    /// Takes the effects, and answers journal entries unless the test does.
    fn collect(&mut self) {
        loop {
            let effects = self.core.take_effects();
            if effects.is_empty() {
                return;
            }
            for effect in &effects {
                if let Effect::Send(said) = effect
                    && self.answers_events
                    && is_event(said)
                {
                    let frame = GatewayFrame::EventOk {
                        replayed: false,
                        lease_live: true,
                    };
                    let answer = GatewayEnvelope {
                        request_id: Some(said.request_id),
                        frame,
                        lease: said.frame.lease(),
                    };
                    self.core.on_frame(answer, self.now);
                }
            }
            self.effects.extend(effects);
        }
    }

    /// The journal entries that were said since the effects were cleared.
    pub(super) fn events(&self) -> Vec<AgentEnvelope> {
        let said = self.effects.iter().filter_map(|effect| match effect {
            Effect::Send(envelope) if is_event(envelope) => Some((**envelope).clone()),
            _ => None,
        });
        said.collect()
    }
}

fn is_event(envelope: &AgentEnvelope) -> bool {
    matches!(envelope.frame, AgentFrame::Event { .. })
}

fn word(effect: &Effect) -> String {
    let word = match effect {
        Effect::Persist(_) => "persist",
        Effect::Forget(_) => "forget",
        Effect::Keep(..) => "keep",
        Effect::Reap(_) => "reap",
        Effect::StartJob { .. } => "start",
        Effect::MoveDeadline(..) => "move",
        Effect::StopJob(_) => "stop",
        Effect::GiveLink(..) => "link",
        Effect::Reconnect(_) => "reconnect",
        Effect::Notice(_) => "notice",
        Effect::Exit(_) => "exit",
        Effect::Send(envelope) => {
            let frame = serde_json::to_value(&envelope.frame).expect("frames are JSON");
            return format!("say {}", frame["type"].as_str().unwrap_or_default());
        }
    };
    word.to_owned()
}
