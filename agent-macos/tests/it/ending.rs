use std::time::Duration;

use fencepost_protocol::GatewayFrame;
use rustix::process::Signal;

use crate::agent::{Agent, REAL, command, eventually};
use crate::gateway::Gateway;
use crate::session::{huge, offer, word};

#[tokio::test(flavor = "multi_thread")]
async fn a_second_agent_with_the_same_folder_is_refused() {
    let mut gateway = Gateway::start().await;
    let agent = Agent::running(&gateway).await;
    gateway.session().await.welcome_empty().await;
    let folder = agent.folder().to_owned();
    let second =
        tokio::task::spawn_blocking(move || command(&["run", "--state-dir", &folder], None))
            .await
            .unwrap();
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(
        !second.status.success() && said.contains("already running"),
        "{said}"
    );
    assert_eq!(agent.status()["running"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn term_hands_back_what_is_not_finished_and_ends_well_within_ten_seconds() {
    let mut gateway = Gateway::start().await;
    let source = gateway.put_clip("/in", 20).await;
    let mut agent = Agent::running(&gateway).await;
    let mut session = gateway.session().await;
    session.welcome_empty().await;
    session.lease(offer(source, huge())).await;
    session.until_encoding().await;
    agent.signal(Signal::TERM);
    session.until("drain").await;
    let release = session.until("release").await;
    assert!(agent.children().is_empty());
    let done = GatewayFrame::Done {
        replayed: false,
        lease_remaining_ms: None,
    };
    session.answer(&release, done).await;
    while let Some(said) = session.hear().await {
        assert_ne!(word(&said), "pull");
    }
    assert!(agent.ended(Duration::from_secs(5)).await);
    assert!(agent.listing("leases").is_empty() && agent.listing("work").is_empty());
    assert_eq!(agent.status()["status"]["state"], "stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_term_ends_the_agent_at_once_and_its_encoder_with_it() {
    let mut gateway = Gateway::start().await;
    let source = gateway.put_clip("/in", 20).await;
    let mut agent = Agent::running(&gateway).await;
    let mut session = gateway.session().await;
    session.welcome_empty().await;
    session.lease(offer(source, huge())).await;
    session.until_encoding().await;
    let encoder = agent.children();
    agent.signal(Signal::TERM);
    // The release is not answered, so that the first TERM alone would still wait.
    session.until("release").await;
    agent.signal(Signal::TERM);
    assert!(!agent.ended(Duration::from_secs(2)).await);
    for child in encoder {
        assert!(
            rustix::process::test_kill_process(child).is_err(),
            "an encoder is left"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_or_superseded_agent_stays_away_and_says_why() {
    for (code, hint) in [(4001, "revoked"), (4009, "another agent")] {
        let mut gateway = Gateway::start().await;
        let mut agent = Agent::running(&gateway).await;
        let mut session = gateway.session().await;
        session.welcome_empty().await;
        session.close(code).await;
        assert!(!agent.ended(Duration::from_secs(5)).await);
        assert!(agent.log().contains(hint), "{}", agent.log());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_copies_of_one_agent_the_superseded_one_stays_away_and_lives() {
    let mut gateway = Gateway::start().await;
    let mut first = Agent::paired(&gateway)
        .await
        .with_stand_in(REAL)
        .with(&["--supervised"]);
    let mut second = first.copied();
    first.start();
    let mut old = gateway.session().await;
    let hello = old.welcome_empty().await;
    second.start();
    let mut new = gateway.session().await;
    assert_ne!(new.welcome_empty().await.instance_id, hello.instance_id);
    new.until("pull").await;
    old.close(4009).await;
    eventually("it says why", || {
        first.log().contains("another agent connected")
    })
    .await;
    // No third session: the first copy does not come back, and its supervisor has nothing to start.
    let third = tokio::time::timeout(Duration::from_secs(3), gateway.session());
    assert!(third.await.is_err(), "it came back");
    assert_eq!(first.status()["running"], true);
    assert_eq!(first.status()["status"]["state"], "told to stay away");
    assert_eq!(second.status()["status"]["state"], "connected");
    first.signal(Signal::TERM);
    assert!(first.ended(Duration::from_secs(3)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_restarts_is_dialled_again() {
    let mut gateway = Gateway::start().await;
    let _agent = Agent::running(&gateway).await;
    let mut session = gateway.session().await;
    session.welcome_empty().await;
    session.until("pull").await;
    session.close(1012).await;
    let mut second = gateway.session().await;
    second.welcome_empty().await;
    second.until("pull").await;
}
