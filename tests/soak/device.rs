//! A device at protocol level: it works, fails, gives back, sleeps too long, forgets, and comes back
//! with whatever it still holds, as an agent with an outbox does.

use std::sync::Arc;
use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::service::Capability;
use fencepost_protocol::{
    AgentFrame, Directive, Disposition, GatewayFrame, HeldLease, Hello, LeaseOffer, PROTOCOL,
};
use fencepost_tests::agent_client::Device;
use fencepost_tests::agent_frames::{
    accept, commit, declared, decline, fail, progress, release, stopped,
};
use reqwest::Client;

use crate::connection::{Connection, Gone};
use crate::tally::{Tally, one};
use fencepost_tests::chance::Chance;

const OUTPUT: &[u8] = b"the output";
/// Longer than a lease.
const TOO_LONG: Duration = Duration::from_secs(14);

/// What is still held, and what was last said about it.
struct Held {
    lease: LeaseOffer,
    /// A last word that was sent and not answered: it is repeated as it was.
    last_word: Option<AgentFrame>,
    /// Pairs that a resume replaced; nothing may be accepted under them.
    replaced: Vec<LeaseOffer>,
}

struct Worker {
    device: Device,
    ports: Vec<u16>,
    chance: Chance,
    tally: Arc<Tally>,
    client: Client,
    held: Option<Held>,
}

/// Works for ever.
pub(crate) async fn work(device: Device, ports: Vec<u16>, chance: Chance, tally: Arc<Tally>) {
    let mut device = device.with_slots(1);
    device.words = vec!["noop.v1".to_owned()];
    let client = Client::builder().timeout(Duration::from_secs(5)).build();
    let mut worker = Worker {
        device,
        ports,
        chance,
        tally,
        client: client.expect("a client"),
        held: None,
    };
    loop {
        let port = worker.ports[worker.chance.below(worker.ports.len())];
        if let Some(mut connection) = Connection::dial(&worker.device, port).await {
            // However it ends, it is dialled again.
            let _ = worker.session(&mut connection).await;
        }
        if worker.held.is_some() && worker.chance.percent(10) {
            // A process that was killed without an outbox.
            worker.held = None;
            one(&worker.tally.forgotten);
        }
        let pause = worker.chance.millis(50, 500);
        tokio::time::sleep(pause).await;
    }
}

impl Worker {
    async fn session(&mut self, connection: &mut Connection) -> Result<(), Gone> {
        self.hello(connection).await?;
        loop {
            if self.held.is_none() {
                let Some(lease) = connection.pull().await? else {
                    continue;
                };
                if self.chance.percent(4) {
                    connection.ask(decline(&lease)).await?;
                    continue;
                }
                self.held = Some(Held {
                    lease,
                    last_word: None,
                    replaced: Vec::new(),
                });
            }
            self.go_on(connection).await?;
            if self.chance.percent(3) {
                return Err(Gone);
            }
        }
    }

    async fn hello(&mut self, connection: &mut Connection) -> Result<(), Gone> {
        let held = self.held.iter().map(|held| HeldLease {
            lease: held.lease.lease(),
            commit_token: held.lease.commit_token.clone(),
        });
        let hello = AgentFrame::Hello(Hello {
            protocol: PROTOCOL,
            agent_version: "1.0.0".to_owned(),
            instance_id: self.device.instance,
            slots: 1,
            capabilities: self.device.words.iter().map(Capability::new).collect(),
            held: held.collect(),
        });
        let GatewayFrame::Welcome { resumed, lost, .. } = connection.ask(hello).await? else {
            // Busy, most likely.
            return Err(Gone);
        };
        if !lost.is_empty() {
            self.held = None;
        }
        if let (Some(held), Some(resumed)) = (&mut self.held, resumed.into_iter().next()) {
            held.replaced.push(held.lease.clone());
            held.lease.lease_epoch = resumed.lease_epoch;
            held.lease.commit_token = resumed.commit_token;
            // The authority has not recorded it: it is said anew.
            held.last_word = None;
        }
        Ok(())
    }

    /// From wherever it is to its end.
    async fn go_on(&mut self, connection: &mut Connection) -> Result<(), Gone> {
        let Some(held) = &self.held else {
            return Ok(());
        };
        let lease = held.lease.clone();
        if held.last_word.is_none() {
            self.commit_what_is_stale(connection).await?;
            if !self.renewed(connection, accept(&lease)).await? {
                return Ok(());
            }
            for phase in [Phase::Downloading, Phase::Running, Phase::Uploading] {
                let pause = self.chance.millis(50, 700);
                tokio::time::sleep(pause).await;
                if !self.renewed(connection, progress(&lease, phase)).await? {
                    return Ok(());
                }
            }
            if self.chance.percent(3) {
                one(&self.tally.slept);
                tokio::time::sleep(TOO_LONG).await;
            }
            let last_word = self.last_word(connection.port, &lease).await;
            if let Some(held) = &mut self.held {
                held.last_word = Some(last_word);
            }
        }
        self.say_last_word(connection).await
    }

    /// A pair that was replaced is presented again: it must win nothing.
    async fn commit_what_is_stale(&mut self, connection: &mut Connection) -> Result<(), Gone> {
        let Some(stale) = self.held.as_ref().and_then(|held| held.replaced.last()) else {
            return Ok(());
        };
        let answer = connection
            .ask(commit(stale, &declared(stale, OUTPUT)))
            .await?;
        if matches!(answer, GatewayFrame::CommitOk { .. }) {
            self.tally.accepted_stale();
        }
        Ok(())
    }

    /// Says a frame that renews, until it is answered; whether the lease goes on.
    async fn renewed(
        &mut self,
        connection: &mut Connection,
        frame: AgentFrame,
    ) -> Result<bool, Gone> {
        loop {
            match connection.ask(frame.clone()).await? {
                GatewayFrame::Done { .. }
                | GatewayFrame::ProgressOk {
                    directive: Directive::Continue,
                    ..
                } => return Ok(true),
                GatewayFrame::Rejected {
                    disposition: Disposition::Retry,
                    ..
                }
                | GatewayFrame::Busy { .. } => pause().await,
                GatewayFrame::ProgressOk { .. } => {
                    if let Some(held) = self.held.take() {
                        connection.ask(stopped(&held.lease)).await?;
                    }
                    return Ok(false);
                }
                _ => {
                    self.held = None;
                    return Ok(false);
                }
            }
        }
    }

    async fn last_word(&mut self, port: u16, lease: &LeaseOffer) -> AgentFrame {
        match self.chance.below(100) {
            0..4 => fail(lease, "runner_failed"),
            4..10 => fail(lease, "upload_failed"),
            10..14 => release(lease),
            _ if self.upload(port, lease).await => commit(lease, &declared(lease, OUTPUT)),
            _ => fail(lease, "upload_failed"),
        }
    }

    /// Sends the output to any of the gateways.
    async fn upload(&self, port: u16, lease: &LeaseOffer) -> bool {
        for port in [port, self.ports[0], self.ports[1]] {
            let address = format!("http://127.0.0.1:{port}{}", lease.output.url);
            let sending = self.client.put(address).body(OUTPUT).send().await;
            if sending.is_ok_and(|response| response.status().is_success()) {
                return true;
            }
        }
        false
    }

    async fn say_last_word(&mut self, connection: &mut Connection) -> Result<(), Gone> {
        while let Some(word) = self.held.as_ref().and_then(|held| held.last_word.clone()) {
            match connection.ask(word).await? {
                GatewayFrame::Rejected {
                    disposition: Disposition::Retry,
                    ..
                }
                | GatewayFrame::Busy { .. } => pause().await,
                // Accepted, rejected or fenced: it is over.
                _ => self.held = None,
            }
        }
        Ok(())
    }
}

async fn pause() {
    tokio::time::sleep(Duration::from_millis(150)).await;
}
