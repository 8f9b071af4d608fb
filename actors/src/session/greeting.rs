//! Hello and welcome.

use actix::Context;
use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::ids::{AttemptId, DeviceId, RequestId, SessionNumber};
use fencepost_domain::service::Capability;
use fencepost_protocol::{GatewayFrame, Hello, Lost, PROTOCOL, Recorded, Resumed, close};
use fencepost_store::StoreError;
use fencepost_store::tx::begin_session::{Held, HelloFacts, ResumedLease, SessionAnswer};

use super::actor::DeviceSession;
use super::answers::{millis, millis_behind};
use super::core::{Effect, send};

/// An agent proves a few dozen.
const MAX_CAPABILITIES: usize = 500;

/// What the store needs of a hello.
pub(super) fn facts(device: DeviceId, session: SessionNumber, hello: Hello) -> HelloFacts {
    let held = hello.held.iter().map(|held| Held {
        claim: held.lease.claimed_by(device),
        token: held.commit_token.digest(),
    });
    HelloFacts {
        device,
        session,
        instance: hello.instance_id,
        agent_version: hello.agent_version,
        slots: hello.slots,
        held: held.collect(),
        // A word that no job can ask for is left out, so that an odd one does not cost the hello.
        capabilities: hello
            .capabilities
            .into_iter()
            .filter(Capability::is_readable)
            .take(MAX_CAPABILITIES)
            .collect(),
    }
}

impl DeviceSession {
    pub(super) fn greeted(
        &mut self,
        request: RequestId,
        answer: Result<SessionAnswer, StoreError>,
        ctx: &mut Context<Self>,
    ) {
        let effects = match answer {
            Ok(SessionAnswer::Current {
                resumed,
                recorded,
                lost,
                ended,
            }) => {
                self.become_current(ctx);
                let welcome = self.welcome(resumed, recorded, lost);
                tracing::info!(
                    device.id = %self.device, session = %self.session, ended = ended.len(),
                    "a device is connected"
                );
                let requeued = (!ended.is_empty()).then_some(Effect::Nudge);
                let welcome = send(Some(request), None, welcome);
                std::iter::once(welcome).chain(requeued).collect()
            }
            Ok(SessionAnswer::Superseded) => {
                vec![Effect::Close(
                    close::SUPERSEDED,
                    "a newer session of this device is current",
                )]
            }
            Ok(SessionAnswer::Refused) => vec![
                send(Some(request), None, GatewayFrame::Disabled),
                Effect::Close(close::REVOKED, "the device is disabled or was paired again"),
            ],
            Ok(SessionAnswer::InTwoPlaces { ended }) => {
                tracing::warn!(
                    device.id = %self.device, ended = ended.len(),
                    "two agents use one device's token: it is disabled"
                );
                let why = "two agents use this device's token: it is disabled";
                vec![
                    send(Some(request), None, GatewayFrame::Disabled),
                    Effect::Close(close::REVOKED, why),
                ]
            }
            Ok(SessionAnswer::ClockRegressed(by)) => {
                self.core.not_welcomed();
                let retry_after_ms = millis_behind(by);
                vec![send(
                    Some(request),
                    None,
                    GatewayFrame::Busy { retry_after_ms },
                )]
            }
            Err(error) => {
                tracing::warn!(device.id = %self.device, %error, "hello could not be answered");
                self.core.not_welcomed();
                let busy = GatewayFrame::Busy {
                    retry_after_ms: 1_000,
                };
                vec![send(Some(request), None, busy)]
            }
        };
        self.perform(effects, ctx);
    }

    fn welcome(
        &self,
        resumed: Vec<ResumedLease>,
        recorded: Vec<(AttemptId, AttemptStatus)>,
        lost: Vec<AttemptId>,
    ) -> GatewayFrame {
        GatewayFrame::Welcome {
            session_id: self.session,
            protocol: PROTOCOL,
            intervals: self.near.settings.intervals,
            resumed: resumed.into_iter().map(to_resumed).collect(),
            recorded: recorded
                .into_iter()
                .map(|(attempt_id, status)| Recorded {
                    attempt_id,
                    status: status.as_str().to_owned(),
                })
                .collect(),
            lost: lost
                .into_iter()
                .map(|attempt_id| Lost {
                    attempt_id,
                    reason: "the lease is not held any more".to_owned(),
                })
                .collect(),
        }
    }
}

fn to_resumed(lease: ResumedLease) -> Resumed {
    Resumed {
        job_id: lease.job,
        attempt_id: lease.attempt,
        lease_epoch: lease.epoch,
        commit_token: lease.token,
        lease_remaining_ms: millis(lease.remaining),
    }
}
