//! A call is made of the real store, and what it answers is said by places.

use std::time::Duration;

use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::ids::{EventId, InstanceId, SessionNumber};
use fencepost_domain::service::Capability;
use fencepost_domain::verification::Verdict;
use fencepost_store::FinalizedAttempt;
use fencepost_store::admin::{Actor, NewEnrollment};
use fencepost_store::tx::begin_session::{Held, HelloFacts, SessionAnswer};
use fencepost_store::tx::begin_verification::{CommitAnswer, CommitRequest, DeclaredOutput};
use fencepost_store::tx::end_by_agent::{AgentEnd, AgentEndAnswer, AgentEndKind};
use fencepost_store::tx::lease_round::{Cursor, Pull};
use fencepost_store::tx::record_progress::{Progress, ProgressAnswer};
use fencepost_store::tx::revoke::Revoked;
use fencepost_store::tx::settle_commit::{Settle, Settled};
use fencepost_store::tx::submit_job::{IdempotencyKey, Submitted};
use fencepost_store::tx::write_events::{JournalAnswer, JournalRefusal, NewEvent};
use fencepost_store::{Store, StoreError};
use fencepost_tests::world::SERVICES;
use serde_json::json;
use uuid::Uuid;

use crate::call::{Answer, Call, Claim, End, Ended, Key, Outcome, Pair, Request};
use crate::names::{Learned, Names};
use crate::reference::SLOTS;
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

    async fn submit(&self, request: &Request) -> Result<Answer, StoreError> {
        let mut job = self.site.new_job(self.names.job(request.slot));
        job.max_attempts = request.budget;
        job.deadline = length(request.deadline);
        job.max_run = length(request.max_run);
        job.idempotency = request.key.map(|(key, means)| IdempotencyKey {
            key: format!("key {key}"),
            fingerprint: [means; 32],
        });
        Ok(match self.store.submit_job(job).await? {
            Submitted::Queued { .. } => Answer::Submitted,
            Submitted::Replayed { job } => {
                Answer::SameJob(self.names.slot_of(job.0).unwrap_or(usize::MAX))
            }
            Submitted::KeyReused => Answer::KeyReused,
            other => panic!("the org has credit and a file: {other:?}"),
        })
    }

    async fn round(
        &self,
        device: usize,
        session: i64,
        slots: u32,
        learned: &mut Learned,
    ) -> Result<Answer, StoreError> {
        let pull = Pull {
            device: self.names.devices[device].0,
            session: SessionNumber(session),
            slots_free: slots,
        };
        let round = self
            .store
            .lease_round(vec![pull], Cursor::default())
            .await?;
        if let Some(by) = round.clock_regressed_by {
            return Ok(Answer::Regressed(by));
        }
        let mut leased = Vec::new();
        for lease in round.leased {
            let slot = self.names.slot_of(lease.job.0).unwrap_or(usize::MAX);
            let at = (slot, lease.attempt_number);
            let place = self.names.device_place(lease.device.0);
            let place = place.unwrap_or(usize::MAX);
            leased.push((at, place));
            learned.tokens.push((at, lease.epoch, lease.token.digest()));
            let known = (at, lease.attempt, place, lease.output_key);
            learned.leased.push(known);
        }
        leased.sort_unstable();
        Ok(Answer::Leased(leased))
    }

    async fn commit(&self, claim: &Claim, content: u8) -> Result<Answer, StoreError> {
        let request = CommitRequest {
            claim: self.names.claim(claim),
            token: self.names.token(claim.at, claim.pair.token),
            output: DeclaredOutput {
                object_key: self.names.output_key(claim.at).to_owned(),
                sha256: [content; 32],
                size_bytes: 1_000,
            },
        };
        let mut answers = self.store.begin_verification(vec![request]).await?;
        Ok(match only(&mut answers) {
            CommitAnswer::Verify(ticket) => Answer::Verify(ticket.verification_epoch),
            CommitAnswer::StillVerifying => Answer::StillVerifying,
            CommitAnswer::Final { end, replayed } => self.as_final(&end, replayed),
            CommitAnswer::Refused(refusal) => Answer::Refused(refusal),
        })
    }

    async fn end(&self, claim: &Claim, end: End) -> Result<Answer, StoreError> {
        let token = self.names.token(claim.at, claim.pair.token);
        let kind = match end {
            End::Fail(code) => AgentEndKind::Fail {
                token,
                code,
                message: "it did not work".to_owned(),
            },
            End::Release => AgentEndKind::Release {
                token,
                reason: "the owner is back".to_owned(),
            },
            End::Stopped => AgentEndKind::Stopped,
        };
        let claim = self.names.claim(claim);
        let mut answers = self
            .store
            .end_by_agent(vec![AgentEnd { claim, kind }])
            .await?;
        Ok(match only(&mut answers) {
            AgentEndAnswer::Final { end, replayed } => self.as_final(&end, replayed),
            AgentEndAnswer::Nothing => Answer::Done,
            // Somebody else's stored answer is a matter of a lease that is not live.
            AgentEndAnswer::Refused(refusal) => Answer::Refused(refusal),
        })
    }

    async fn settle(&self, at: Key, pickup: i64, outcome: Outcome) -> Result<Answer, StoreError> {
        let reason = || "a test".to_owned();
        let attempt = self.names.attempt(at);
        let copy = fencepost_domain::artifact_key::verified_copy;
        let settle = Settle {
            attempt,
            verification_epoch: pickup,
            copy_key: copy(self.names.job(at.0), attempt, pickup),
            verdict: match outcome {
                Outcome::Good => Verdict::Good {
                    duration_seconds: 30.0,
                },
                Outcome::MediaRejected => Verdict::MediaRejected { reason: reason() },
                Outcome::BytesDiffer => Verdict::BytesDiffer { reason: reason() },
                Outcome::Trouble => Verdict::Trouble { reason: reason() },
            },
        };
        let mut settled = self.store.settle_commit(vec![settle]).await?;
        Ok(match only(&mut settled) {
            Settled::Final(end) => self.as_final(&end, false),
            Settled::Later => Answer::Later,
            Settled::TakenOver => Answer::TakenOver,
        })
    }

    fn hello_facts(
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

    async fn hello(&self, hello: HelloFacts, learned: &mut Learned) -> Result<Answer, StoreError> {
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

    async fn repair(
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

    async fn event(&self, claim: &Claim, id: u8, content: u8) -> Result<Answer, StoreError> {
        let event = NewEvent {
            claim: self.names.claim(claim),
            token: self.names.token(claim.at, claim.pair.token),
            event_id: EventId(Uuid::from_u128(1 + u128::from(id))),
            seq: i64::from(id),
            kind: "encoder.exit".to_owned(),
            payload: json!(content),
        };
        let mut answers = self.store.write_events(vec![event]).await?;
        Ok(match only(&mut answers) {
            JournalAnswer::Stored {
                replayed,
                lease_live,
                ..
            } => Answer::Written {
                replayed,
                lease_live,
            },
            JournalAnswer::Refused(JournalRefusal::Lease(refusal)) => Answer::Refused(refusal),
            JournalAnswer::Refused(JournalRefusal::Content) => Answer::Conflict,
            JournalAnswer::Refused(JournalRefusal::Invalid(problem)) => {
                panic!("the event is well-formed: {problem}")
            }
        })
    }

    async fn sweep(&self) -> Result<Answer, StoreError> {
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
