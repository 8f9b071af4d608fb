//! The long tests themselves.

use std::time::Duration;

use fencepost_protocol::GatewayFrame;
use rustix::process::Signal;
use tokio::sync::Mutex;

use crate::agent::{Agent, REAL, is_running};
use crate::gateway::Gateway;
use crate::load::renewals_under_load;
use crate::session::{INTERVALS, huge, offer, small};

/// Held by the test that runs.
static ALONE: Mutex<()> = Mutex::const_new(());

fn length() -> Duration {
    let text = std::env::var("SOAK_SECONDS");
    let seconds = text.map_or(600, |text| text.parse().unwrap());
    Duration::from_secs(seconds)
}

#[tokio::test(flavor = "multi_thread")]
async fn renewals_are_on_time_for_minutes_while_all_cores_are_busy() {
    let _alone = ALONE.lock().await;
    renewals_under_load(length()).await;
}

/// Frozen most of the time, as a Mac that naps: either every renewal is in time, or the loss is
/// clean. Here a frozen span is shorter than what the lease leaves, so no lease may be lost.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_naps_for_less_than_its_lease_keeps_it() {
    let _alone = ALONE.lock().await;
    let mut gateway = Gateway::start().await;
    let source = gateway.put_clip("/in", 20).await;
    let mut agent = Agent::paired(&gateway).await.with_stand_in(REAL);
    agent.start();
    let mut session = gateway.session().await;
    session.welcome_empty().await;
    session.lease(offer(source, huge())).await;
    session.until_encoding().await;
    for _ in 0..20 {
        agent.signal_all(Signal::STOP);
        tokio::time::sleep(Duration::from_millis(INTERVALS.lease_ttl_ms / 4)).await;
        agent.signal_all(Signal::CONT);
        session.until("progress").await;
        session.until("progress").await;
    }
    assert_eq!(agent.listing("leases").len(), 1, "{}", agent.log());
    assert!(!agent.children().is_empty());
}

/// Killed again and again while it encodes: no process and no folder of an earlier run is left.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_killed_again_and_again_leaves_nothing_behind() {
    let _alone = ALONE.lock().await;
    let mut gateway = Gateway::start().await;
    let source = gateway.put_clip("/in", 20).await;
    let mut agent = Agent::paired(&gateway).await.with_stand_in(REAL);
    let mut strays = Vec::new();
    for round in 0..15_u64 {
        agent.start();
        let mut session = gateway.session().await;
        for pid in strays.drain(..) {
            assert!(!is_running(pid), "round {round}: {pid:?}\n{}", agent.log());
        }
        session
            .welcome(|hello| {
                let lost = hello.held.iter().map(|held| fencepost_protocol::Lost {
                    attempt_id: held.lease.attempt_id,
                    reason: "expired".to_owned(),
                });
                (Vec::new(), Vec::new(), lost.collect())
            })
            .await;
        let params = if round % 2 == 0 { huge() } else { small() };
        session.lease(offer(source.clone(), params)).await;
        // At another moment of its work each time.
        tokio::time::sleep(Duration::from_millis(round % 5 * 150)).await;
        strays = agent.children();
        agent.kill_alone();
    }
    agent.start();
    let mut session = gateway.session().await;
    session.until("hello").await;
    for pid in strays {
        assert!(!is_running(pid));
    }
    assert!(agent.listing("work").is_empty() && agent.listing("children").is_empty());
    session.send(None, None, GatewayFrame::Heartbeat).await;
}
