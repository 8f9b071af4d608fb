//! A call is made of the real store, and what it answers is said by places.

mod devices;
mod leases;

use std::time::Duration;

use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::ids::SessionNumber;
use fencepost_store::FinalizedAttempt;
use fencepost_store::admin::Actor;
use fencepost_store::tx::record_progress::{Progress, ProgressAnswer};
use fencepost_store::tx::revoke::Revoked;
use fencepost_store::{Store, StoreError};

use crate::call::{Answer, Call, Ended};
use crate::names::{Learned, Names};
use crate::site::Site;

/// The store's answer, and what it told.
pub(crate) type Driven = Result<(Answer, Learned), StoreError>;

/// The transaction whose COMMIT may lose its answer.
pub(crate) fn transaction_of(call: &Call) -> Option<&'static str> {
    Some(match call {
        Call::Submit(_) => "submit_job",
        Call::Round { .. } => "lease_round",
        Call::Progress { .. } => "record_progress",
        Call::Commit { .. } => "begin_verification",
        Call::End { .. } => "end_by_agent",
        Call::TakeBack { .. } => "return_offers",
        Call::Settle { .. } => "settle_commit",
        Call::RenewVerification { .. } => "renew_verifications",
        Call::Cancel(_) => "cancel_job",
        Call::Hello { .. } => "begin_session",
        Call::Close { .. } => "end_sessions",
        Call::Sweep => "expire_due",
        Call::Tend => "tend_queue",
        Call::Mark => "advance_mark",
        Call::AcceptClock => "accept_clock",
        Call::PullBack => "pull_back",
        Call::Disable(_) => "disable_device",
        Call::Enable(_) => "enable_device",
        Call::Repair { .. } => "pair_device",
        Call::Revoke(_) => "revoke_attempt",
        Call::Event { .. } => "write_events",
        Call::Grant(_) => "grant_objects",
        Call::Advance(_) | Call::GoBack(_) => return None,
    })
}

/// One call at one gateway's store.
pub(crate) struct Driver<'a> {
    pub(crate) site: &'a Site,
    pub(crate) store: &'a Store,
    pub(crate) names: &'a Names,
}

impl Driver<'_> {
    pub(crate) async fn drive(&self, call: &Call) -> Driven {
        let mut learned = Learned::default();
        let answer = match call {
            Call::Submit(request) => self.submit(request).await?,
            Call::Round {
                device,
                session,
                slots,
            } => self.round(*device, *session, *slots, &mut learned).await?,
            Call::Progress {
                claim,
                phase,
                percent,
            } => {
                let progress = Progress {
                    claim: self.names.claim(claim),
                    phase: *phase,
                    percent: percent.map(f32::from),
                    detail: None,
                };
                let mut answers = self.store.record_progress(vec![progress]).await?;
                match only(&mut answers) {
                    ProgressAnswer::Renewed(lease) => Answer::Renewed(lease.expires_at),
                    ProgressAnswer::Verifying(_) => Answer::Verifying,
                    ProgressAnswer::Stop { .. } => Answer::Stop,
                    ProgressAnswer::Refused(refusal) => Answer::Refused(refusal),
                }
            }
            Call::Commit { claim, content } => self.commit(claim, *content).await?,
            Call::End { claim, end } => self.end(claim, *end).await?,
            Call::Hello {
                device,
                session,
                process,
                held,
            } => {
                let hello = self.hello_facts(*device, *session, *process, held);
                self.hello(hello, &mut learned).await?
            }
            Call::Repair {
                device,
                other_owner,
            } => self.repair(*device, *other_owner, &mut learned).await?,
            Call::Event { claim, id, content } => self.event(claim, *id, *content).await?,
            Call::Sweep => self.sweep().await?,
            Call::Advance(by) => {
                self.site.clock().advance(*by).await;
                Answer::Done
            }
            Call::GoBack(by) => {
                self.site.clock().go_back(*by).await;
                Answer::Done
            }
            _ => self.others(call).await?,
        };
        Ok((answer, learned))
    }

    async fn others(&self, call: &Call) -> Result<Answer, StoreError> {
        let store = self.store;
        Ok(match call {
            Call::TakeBack { claim, delivered } => {
                let offers = vec![self.names.claim(claim)];
                let ended = if *delivered {
                    store.return_offers(offers).await?
                } else {
                    store.return_undelivered(offers).await?
                };
                Answer::Ended(self.all_ended(&ended))
            }
            Call::Settle {
                at,
                pickup,
                outcome,
            } => self.settle(*at, *pickup, *outcome).await?,
            Call::RenewVerification { at, pickup } => {
                let one = vec![(self.names.attempt(*at), *pickup)];
                store.renew_verifications(one).await?;
                Answer::Done
            }
            Call::Cancel(slot) => {
                let job = self.names.job(*slot);
                match store.cancel_job(self.site.org(), job).await? {
                    None => Answer::No,
                    Some(cancelled) => Answer::Cancelled {
                        status: cancelled.status,
                        changed: cancelled.changed,
                        ended: cancelled.ended.is_some(),
                        stopping: cancelled.stopping.is_some(),
                    },
                }
            }
            Call::Close { device, session } => {
                let one = (self.names.devices[*device].0, SessionNumber(*session));
                yes(store.end_sessions(vec![one]).await? == [true])
            }
            Call::Tend => {
                let report = store.tend_queue(100).await?;
                Answer::Tended {
                    woken: report.woken,
                    overdue: report.overdue,
                }
            }
            Call::Mark => {
                let reading = store.read_clock().await?;
                // A gateway that sees the clock behind its mark leaves it alone.
                if reading.regressed_by().is_none() {
                    store.advance_mark(reading).await?;
                }
                Answer::Done
            }
            Call::AcceptClock => {
                store.accept_clock(&operator()).await?;
                Answer::Done
            }
            Call::PullBack => {
                store.pull_back().await?;
                Answer::Done
            }
            _ => self.by_operator(call).await?,
        })
    }

    async fn by_operator(&self, call: &Call) -> Result<Answer, StoreError> {
        let store = self.store;
        Ok(match call {
            Call::Disable(device) => {
                let device = self.names.devices[*device].0;
                let ended = store.disable_device(device, Some("a test")).await?;
                Answer::Ended(self.all_ended(&ended.unwrap_or_default()))
            }
            Call::Enable(device) => yes(store.enable_device(self.names.devices[*device].0).await?),
            Call::Revoke(at) => match store.revoke_attempt(self.names.attempt(*at)).await? {
                None => Answer::No,
                Some(Revoked::Ended(end)) => self.as_final(&end, false),
                Some(Revoked::EndedBefore(end)) => self.as_final(&end, true),
            },
            Call::Grant(claim) => match store.grant_objects(self.names.claim(claim)).await? {
                Ok(_) => Answer::Done,
                Err(refusal) => Answer::Refused(refusal),
            },
            other => unreachable!("{other:?} is made elsewhere"),
        })
    }

    fn ended(&self, end: &FinalizedAttempt) -> Ended {
        Ended {
            at: self.names.key_of(end.job(), end.attempt()),
            status: end.status(),
        }
    }

    fn all_ended(&self, ends: &[FinalizedAttempt]) -> Vec<Ended> {
        let mut ended: Vec<_> = ends.iter().map(|end| self.ended(end)).collect();
        ended.sort_unstable();
        ended
    }

    fn as_final(&self, end: &FinalizedAttempt, replayed: bool) -> Answer {
        Answer::Final {
            ended: self.ended(end),
            job: end.job_status(),
            code: end.code(),
            replayed,
        }
    }
}

fn yes(is_so: bool) -> Answer {
    if is_so { Answer::Done } else { Answer::No }
}

fn only<T>(answers: &mut Vec<T>) -> T {
    answers.pop().expect("one question, one answer")
}

fn length(length: Duration) -> LeaseDuration {
    LeaseDuration::try_from(length).expect("a length of time that the store takes")
}

/// Whom the audit log names.
fn operator() -> Actor {
    Actor::new("simulation")
}
