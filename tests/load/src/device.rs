//! A device as the protocol knows it: it takes offers, says how far it is, uploads, commits.
//!
//! It waits for each answer before it says the next thing about an attempt, as an agent that has
//! nothing to do would.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost_domain::attempt::Phase;
use fencepost_domain::commit_token::CommitToken;
use fencepost_domain::ids::{AttemptId, RequestId};
use fencepost_protocol::{
    AgentFrame, Directive, Disposition, GatewayEnvelope, GatewayFrame, LeaseOffer, LeaseRef,
    OutputDeclaration, OutputGrant,
};
use sha2::{Digest as _, Sha256};
use tokio::task::JoinSet;

use crate::error::LoadError;
use crate::lifecycle::{Board, Life};
use crate::sockets::{Socket, unexpected};

const OUTPUT_BYTES: usize = 1024;
/// Before something is said again that was refused for now.
const AGAIN: Duration = Duration::from_millis(250);

/// A device at work.
pub(crate) struct Device {
    socket: Socket,
    gateway: SocketAddr,
    http: reqwest::Client,
    slots: u32,
    board: Arc<Board>,
    work: HashMap<AttemptId, Work>,
    /// Uploads, and things to be said again.
    later: JoinSet<Result<AttemptId, LoadError>>,
}

/// An attempt in its hands.
struct Work {
    lease: LeaseRef,
    token: CommitToken,
    output: OutputGrant,
    step: Step,
    offered: Instant,
    committed: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Accept,
    Progress(Phase),
    Commit,
}

impl Step {
    /// What follows when this one was answered well.
    fn next(self) -> Self {
        match self {
            Self::Accept => Self::Progress(Phase::Downloading),
            Self::Progress(Phase::Downloading) => Self::Progress(Phase::Running),
            Self::Progress(Phase::Running) => Self::Progress(Phase::Uploading),
            Self::Progress(_) | Self::Commit => Self::Commit,
        }
    }
}

impl Device {
    /// A device on a socket that was welcomed.
    pub(crate) fn new(
        socket: Socket,
        gateway: SocketAddr,
        http: reqwest::Client,
        slots: u32,
        board: Arc<Board>,
    ) -> Self {
        Self {
            socket,
            gateway,
            http,
            slots,
            board,
            work: HashMap::new(),
            later: JoinSet::new(),
        }
    }

    /// Works until something goes wrong.
    pub(crate) async fn run(mut self) -> Result<(), LoadError> {
        let beat = Duration::from_millis(self.socket.intervals.heartbeat_ms.max(1));
        let mut beat = tokio::time::interval(beat);
        self.pull().await?;
        loop {
            tokio::select! {
                heard = self.socket.hear() => self.on_frame(heard?).await?,
                Some(done) = self.later.join_next(), if !self.later.is_empty() => {
                    let attempt = done.map_err(|error| LoadError::Unexpected(error.to_string()))??;
                    self.say(attempt).await?;
                }
                _ = beat.tick() => {
                    self.socket.say(RequestId::new(), AgentFrame::Heartbeat).await?;
                }
            }
        }
    }

    async fn pull(&mut self) -> Result<(), LoadError> {
        let held = u32::try_from(self.work.len()).unwrap_or(u32::MAX);
        let slots_free = self.slots.saturating_sub(held);
        self.socket
            .say(RequestId::new(), AgentFrame::Pull { slots_free })
            .await
    }

    async fn on_frame(&mut self, envelope: GatewayEnvelope) -> Result<(), LoadError> {
        let attempt = envelope.lease.map(|lease| lease.attempt_id);
        let step = attempt.and_then(|attempt| Some(self.work.get(&attempt)?.step));
        match (envelope.frame, attempt, step) {
            (GatewayFrame::LeaseOffer(offer), _, _) => self.take(*offer).await,
            (GatewayFrame::NoWork, _, _) | (GatewayFrame::Busy { .. }, None, _) => {
                self.pull().await
            }
            (GatewayFrame::Done { .. }, Some(attempt), Some(Step::Accept))
            | (
                GatewayFrame::ProgressOk {
                    directive: Directive::Continue,
                    ..
                },
                Some(attempt),
                Some(Step::Progress(_)),
            ) => self.go_on(attempt).await,
            (GatewayFrame::CommitOk { .. }, Some(attempt), Some(Step::Commit)) => {
                self.settled(attempt).await
            }
            (GatewayFrame::Busy { retry_after_ms }, Some(attempt), Some(_)) => {
                self.again(attempt, Duration::from_millis(retry_after_ms));
                Ok(())
            }
            (
                GatewayFrame::Rejected {
                    disposition: Disposition::Retry,
                    retry_after_ms,
                    ..
                },
                Some(attempt),
                Some(_),
            ) => {
                self.again(attempt, retry_after_ms.map_or(AGAIN, Duration::from_millis));
                Ok(())
            }
            (frame, _, step) => Err(unexpected(&format!("{step:?}"), &frame)),
        }
    }

    async fn take(&mut self, offer: LeaseOffer) -> Result<(), LoadError> {
        let now = Instant::now();
        let lease = offer.lease();
        let work = Work {
            lease,
            token: offer.commit_token,
            output: offer.output,
            step: Step::Accept,
            offered: now,
            committed: now,
        };
        self.work.insert(lease.attempt_id, work);
        self.say(lease.attempt_id).await
    }

    async fn go_on(&mut self, attempt: AttemptId) -> Result<(), LoadError> {
        let Some(work) = self.work.get_mut(&attempt) else {
            return Ok(());
        };
        work.step = work.step.next();
        if work.step == Step::Commit {
            let url = format!("http://{}{}", self.gateway, work.output.url);
            let (http, body) = (self.http.clone(), output_of(attempt));
            self.later.spawn(upload(http, url, body, attempt));
            return Ok(());
        }
        self.say(attempt).await
    }

    /// Says what the step of an attempt says.
    async fn say(&mut self, attempt: AttemptId) -> Result<(), LoadError> {
        let Some(work) = self.work.get_mut(&attempt) else {
            return Ok(());
        };
        let lease = work.lease;
        let frame = match work.step {
            Step::Accept => AgentFrame::OfferAccept { lease },
            Step::Progress(phase) => AgentFrame::Progress {
                lease,
                phase,
                percent: Some(50.0),
                detail: None,
            },
            Step::Commit => {
                work.committed = Instant::now();
                AgentFrame::Commit {
                    lease,
                    commit_token: work.token.clone(),
                    output: OutputDeclaration {
                        sha256: sha256_hex(&output_of(attempt)),
                        size_bytes: OUTPUT_BYTES as u64,
                        object_key: work.output.object_key.clone(),
                    },
                }
            }
        };
        self.socket.say(RequestId::new(), frame).await
    }

    fn again(&mut self, attempt: AttemptId, after: Duration) {
        self.board.said_again();
        self.later.spawn(async move {
            tokio::time::sleep(after).await;
            Ok(attempt)
        });
    }

    async fn settled(&mut self, attempt: AttemptId) -> Result<(), LoadError> {
        if let Some(work) = self.work.remove(&attempt) {
            self.board.settled(Life {
                job: work.lease.job_id,
                offered: work.offered,
                committed: work.committed,
                settled: Instant::now(),
            });
        }
        self.pull().await
    }
}

async fn upload(
    http: reqwest::Client,
    url: String,
    body: Vec<u8>,
    attempt: AttemptId,
) -> Result<AttemptId, LoadError> {
    let response = http.put(url).body(body).send().await?;
    let status = response.status();
    let said = response.text().await?;
    if status.is_success() {
        Ok(attempt)
    } else {
        Err(LoadError::Unexpected(format!(
            "the answer to an upload was {status}: {said}"
        )))
    }
}

/// The bytes that an attempt makes: its id, over and over.
fn output_of(attempt: AttemptId) -> Vec<u8> {
    attempt
        .0
        .as_bytes()
        .iter()
        .copied()
        .cycle()
        .take(OUTPUT_BYTES)
        .collect()
}

fn sha256_hex(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_is_an_accept_three_progresses_and_a_commit() {
        let mut steps = vec![Step::Accept];
        while steps.last() != Some(&Step::Commit) {
            steps.push(steps.last().unwrap().next());
        }
        let phases = [Phase::Downloading, Phase::Running, Phase::Uploading];
        let expected: Vec<_> = std::iter::once(Step::Accept)
            .chain(phases.map(Step::Progress))
            .chain([Step::Commit])
            .collect();
        assert_eq!(steps, expected);
    }

    #[test]
    fn the_digest_is_written_as_the_gateway_reads_it() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256_hex(b""), empty);
        assert_eq!(output_of(AttemptId::new()).len(), OUTPUT_BYTES);
    }
}
