//! Renewals while every core is busy.

use std::collections::HashMap;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fencepost_domain::ids::AttemptId;
use fencepost_protocol::{AgentFrame, Directive, GatewayFrame, Intervals};
use serde_json::json;

use crate::agent::{Agent, REAL};
use crate::gateway::Gateway;
use crate::session::{INTERVALS, Session, offer};

const TTL_MS: u64 = 3_000;
const SHORT: Intervals = Intervals {
    lease_ttl_ms: TTL_MS,
    renew_ms: 500,
    answer_ms: 1_200,
    reconnect_max_ms: 200,
    ..INTERVALS
};

/// Keeps a core busy until it is dropped.
struct Busy(Child);

impl Busy {
    fn start() -> Self {
        let spin = Command::new("/bin/sh")
            .args(["-c", "while :; do :; done"])
            .stdin(Stdio::null())
            .spawn();
        Self(spin.unwrap())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// When each attempt was heard of.
type Heard = HashMap<AttemptId, Vec<Instant>>;

/// Lets an agent run two encodes next to twice as many busy loops as there are cores, and judges
/// its renewals.
pub(crate) async fn renewals_under_load(length: Duration) {
    let mut gateway = Gateway::start().await;
    // Frames come now and then, however little of a core is left for them, and do not come to an end.
    let source = gateway.put_clip("/in", 120).await;
    let params = json!({"codec": "h264", "height": 1080, "crf": 18, "hardware": "never"});
    let mut agent = Agent::paired(&gateway)
        .await
        .with_stand_in(REAL)
        .with(&["--slots", "2"]);
    agent.start();
    let mut session = gateway.session().await;
    session.intervals = SHORT;
    session.welcome_empty().await;
    for _ in 0..2 {
        session.lease(offer(source.clone(), params.clone())).await;
    }
    session.until_encoding().await;
    let cores = std::thread::available_parallelism().unwrap().get();
    let busy: Vec<Busy> = (0..cores * 2).map(|_| Busy::start()).collect();
    let mut heard = Heard::new();
    let listening = listen(&mut session, &mut heard);
    let ended = tokio::time::timeout(length, listening).await;
    assert!(ended.is_err(), "the session ended\n{}", agent.log());
    drop(busy);
    assert_eq!(heard.len(), 2, "both attempts are renewed");
    let mut gaps: Vec<Duration> = heard
        .values()
        .flat_map(|times| times.windows(2).map(|pair| pair[1] - pair[0]))
        .collect();
    gaps.sort();
    let p99 = gaps[gaps.len() * 99 / 100];
    let worst = gaps[gaps.len() - 1];
    println!("{} renewals, p99 {p99:?}, worst {worst:?}", gaps.len());
    assert!(p99 < Duration::from_millis(TTL_MS / 3), "p99 {p99:?}");
    assert!(
        worst < Duration::from_millis(TTL_MS),
        "a lease was lost: {worst:?}"
    );
    // Nothing was given up by the agent either.
    assert_eq!(agent.listing("leases").len(), 2);
}

/// Answers every renewal.
async fn listen(session: &mut Session, heard: &mut Heard) {
    session.directive = Directive::Continue;
    while let Some(said) = session.hear().await {
        match &said.frame {
            AgentFrame::Progress { lease, .. } => {
                heard
                    .entry(lease.attempt_id)
                    .or_default()
                    .push(Instant::now());
                session.answer_progress(&said).await;
            }
            AgentFrame::Heartbeat => session.send(None, None, GatewayFrame::Heartbeat).await,
            AgentFrame::Pull { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}
