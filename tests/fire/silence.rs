//! Peers that fall silent, many at once and over and over: each is closed in time, and nothing of
//! them stays.

use std::process::Command;
use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::ids::InstanceId;
use fencepost_store::secrets::Credential;
use fencepost_tests::agent_client::{Device, Session};
use fencepost_tests::agent_frames::accept;
use fencepost_tests::wait::until;
use fencepost_tests::{Line, Site, TestGateway};
use tokio::time::Instant;

/// A silent session is dead after 5 s in the site's configuration; five times that.
const CLOSED: Duration = Duration::from_secs(25);

/// A device that was paired without HTTP, where there is a brake on it.
async fn device(site: &Site, name: &str) -> Device {
    let code = Credential::presented(&site.enrollment(None).await);
    let paired = site.store.pair_device(&code, name).await.expect("it runs");
    let paired = paired.expect("the code is good");
    Device {
        id: paired.device,
        token: paired.token.expose().to_owned(),
        slots: 2,
        words: vec!["noop.v1".to_owned()],
        instance: InstanceId::new(),
    }
}

/// The gateway's memory in KiB.
fn memory(gateway: &TestGateway) -> u64 {
    let pid = gateway.process.pid().to_string();
    let output = Command::new("ps").args(["-o", "rss=", "-p", &pid]).output();
    let text = String::from_utf8(output.expect("ps runs").stdout).expect("a number");
    text.trim().parse().expect("a number")
}

/// A fifth more at most, and some for the allocator.
fn assert_flat(before: u64, after: u64) {
    assert!(
        after <= before + before / 5 + 8 * 1024,
        "{before} KiB became {after} KiB"
    );
}

async fn nobody_is_left(gateway: &TestGateway) {
    let began = Instant::now();
    until("the last session to be gone", || async {
        gateway.sessions().await == 0
    })
    .await;
    assert!(began.elapsed() < CLOSED, "after {:?}", began.elapsed());
}

#[tokio::test]
async fn fifty_sessions_in_a_black_hole_are_closed_while_they_are_being_talked_to() {
    let site = Site::new().await;
    site.clock.run().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let line = Line::to(gateway.port()).await;
    let mut jobs = Vec::new();
    let mut sessions: Vec<Session> = Vec::new();
    for number in 0..50 {
        let device = device(&site, &format!("mac-{number}")).await;
        let mut session = device.dial_port(line.port()).await;
        session.hello(&[]).await;
        jobs.push(buyer.submit_noop().await);
        let offer = session.pull_offer().await;
        session.ask(accept(&offer)).await;
        sessions.push(session);
    }
    assert_eq!(gateway.sessions().await, 50);
    for session in &sessions {
        session.pull(1).await;
    }
    let before = memory(&gateway);
    line.black_hole(true);
    let offers_and_cancels = async {
        for job in &jobs {
            buyer.cancel(job).await;
            buyer.submit_noop().await;
        }
    };
    tokio::join!(offers_and_cancels, nobody_is_left(&gateway));
    assert_flat(before, memory(&gateway));
    assert!(gateway.readiness().await.0);

    // Cancels end by their grace; offers come back. A device that is there gets them all.
    for job in &jobs {
        buyer.until(job, "cancelled").await;
    }
    let free = "select count(*) from attempts where ended_at is null";
    until("no slot in use", || async {
        site.db.text(free).await == "0"
    })
    .await;
    drop(sessions);
    let mut session = device(&site, "mac").await.connect(&gateway).await;
    session.lease_in(Phase::Running).await;
}

const AT_ONCE: usize = 75;
const ROUNDS: usize = 4;

#[tokio::test]
async fn three_hundred_sessions_that_connect_and_fall_silent_leave_nothing_behind() {
    let site = Site::new().await;
    site.clock.run().await;
    let gateway = site.gateway().await;
    let mut devices = Vec::new();
    for number in 0..AT_ONCE {
        devices.push(device(&site, &format!("mac-{number}")).await);
    }
    let mut memories = Vec::new();
    for _ in 0..ROUNDS {
        let mut silent = Vec::new();
        for device in &devices {
            let mut session = device.connect(&gateway).await;
            session.pull(1).await;
            session.fall_silent();
            silent.push(session);
        }
        assert!(gateway.sessions().await > 0);
        nobody_is_left(&gateway).await;
        memories.push(memory(&gateway));
    }
    // The first round is what it takes to have had so many at once.
    assert_flat(memories[0], memories[ROUNDS - 1]);
    assert!(gateway.readiness().await.0);
}
