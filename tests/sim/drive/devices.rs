//! What devices say of themselves, and what a sweep finds.

use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::ids::{InstanceId, SessionNumber};
use fencepost_domain::service::Capability;
use fencepost_store::StoreError;
use fencepost_store::admin::NewEnrollment;
use fencepost_store::tx::begin_session::{Held, HelloFacts, SessionAnswer};
use fencepost_tests::world::SERVICES;
use uuid::Uuid;

use crate::call::{Answer, Claim, Key, Pair};
use crate::names::Learned;
use crate::reference::SLOTS;

use super::Driver;

impl Driver<'_> {
    pub(super) fn hello_facts(
        &self,
        device: usize,
        session: i64,
        process: u8,
        held: &[(Key, Pair)],
    ) -> HelloFacts {
        let device = self.names.devices[device].0;
        let held = held.iter().map(|&(at, pair)| {
            let stranger = false;
            let mut claim = self.names.claim(&Claim { at, pair, stranger });
            // Never taken from what is listed.
            claim.device = device;
            Held {
                claim,
                token: self.names.token(at, pair.token),
            }
        });
        HelloFacts {
            device,
            session: SessionNumber(session),
            instance: InstanceId(Uuid::from_u128(1 + u128::from(process))),
            agent_version: "1.0.0".to_owned(),
            slots: SLOTS,
            capabilities: ["transcode.v1", "encode.h264"].map(Capability::new).into(),
            held: held.collect(),
        }
    }

    pub(super) async fn hello(
        &self,
        hello: HelloFacts,
        learned: &mut Learned,
    ) -> Result<Answer, StoreError> {
        Ok(match self.store.begin_session(hello).await? {
            SessionAnswer::Superseded => Answer::Superseded,
            SessionAnswer::Refused => Answer::No,
            SessionAnswer::ClockRegressed(by) => Answer::Regressed(by),
            SessionAnswer::InTwoPlaces { ended } => Answer::InTwoPlaces(self.all_ended(&ended)),
            SessionAnswer::Current {
                resumed,
                recorded,
                lost,
                ended,
            } => Answer::Welcome {
                resumed: (resumed.into_iter())
                    .map(|lease| {
                        let at = self.names.key_of(lease.job, lease.attempt);
                        learned.tokens.push((at, lease.epoch, lease.token.digest()));
                        (at, lease.epoch, lease.remaining)
                    })
                    .collect(),
                recorded: (recorded.into_iter())
                    .map(|(attempt, status)| (self.names.key_of_attempt(attempt), status))
                    .collect(),
                lost: (lost.into_iter())
                    .map(|attempt| self.names.key_of_attempt(attempt))
                    .collect(),
                ended: self.all_ended(&ended),
            },
        })
    }

    pub(super) async fn repair(
        &self,
        device: usize,
        other_owner: bool,
        learned: &mut Learned,
    ) -> Result<Answer, StoreError> {
        let enrollment = NewEnrollment {
            provider: self.site.owners[usize::from(other_owner)],
            device: Some(self.names.devices[device].0),
            own_org: None,
            labels: Vec::new(),
            valid_for: LeaseDuration::seconds(900),
        };
        let code = self.store.create_enrollment(enrollment).await?;
        let code = code.expect("provider and device exist");
        let paired = self.store.pair_device(&code, "a mac").await?;
        Ok(match paired {
            None => Answer::No,
            Some(paired) => {
                learned.credential = Some((device, paired.token));
                Answer::Done
            }
        })
    }

    pub(super) async fn sweep(&self) -> Result<Answer, StoreError> {
        let outage = self.store.begin_sweep().await?.outage;
        let report = self.store.expire_due_after(100, &SERVICES, outage).await?;
        if let Some(by) = report.clock_regressed_by {
            return Ok(Answer::Regressed(by));
        }
        if let Some(looked_at) = report.looked_at {
            self.store.finish_sweep(looked_at).await?;
        }
        let verify = report.verify.iter();
        let mut verify: Vec<_> = verify
            .map(|ticket| {
                let at = self.names.key_of(ticket.job, ticket.attempt);
                (at, ticket.verification_epoch)
            })
            .collect();
        verify.sort_unstable();
        Ok(Answer::Swept {
            ended: self.all_ended(&report.ended),
            verify,
        })
    }
}
