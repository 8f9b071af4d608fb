use std::time::Duration;

use fencepost_protocol::{AgentEnvelope, GatewayFrame, Hello, Lost, Recorded, Resumed};
use rustix::process::Signal;

use crate::agent::{Agent, eventually};
use crate::gateway::Gateway;
use crate::load::renewals_under_load;
use crate::session::{INTERVALS, Session, content, huge, offer, small, token, word};

const STOPPED_WITHIN: Duration = Duration::from_secs(2);

fn recorded(hello: &Hello) -> (Vec<Resumed>, Vec<Recorded>, Vec<Lost>) {
    let attempt_id = hello.held[0].lease.attempt_id;
    let recorded = Recorded {
        attempt_id,
        status: "committing".to_owned(),
    };
    (Vec::new(), vec![recorded], Vec::new())
}

fn resumed(hello: &Hello) -> (Vec<Resumed>, Vec<Recorded>, Vec<Lost>) {
    let lease = hello.held[0].lease;
    let resumed = Resumed {
        job_id: lease.job_id,
        attempt_id: lease.attempt_id,
        lease_epoch: lease.lease_epoch + 1,
        commit_token: token(8),
        lease_remaining_ms: INTERVALS.lease_ttl_ms,
    };
    (vec![resumed], Vec::new(), Vec::new())
}

/// Brings an attempt to the point where its commit is said and not answered.
async fn committed(gateway: &mut Gateway) -> (Agent, Session, AgentEnvelope) {
    let source = gateway.put_clip("/in", 2).await;
    let agent = Agent::running(gateway).await;
    let mut session = gateway.session().await;
    session.welcome_empty().await;
    session.lease(offer(source, small())).await;
    let commit = session.until("commit").await;
    (agent, session, commit)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_agent_whose_lease_ran_out_ends_its_encoder_and_uploads_nothing() {
    let mut gateway = Gateway::start().await;
    let source = gateway.put_clip("/in", 20).await;
    let agent = Agent::running(&gateway).await;
    let mut session = gateway.session().await;
    session.welcome_empty().await;
    session.lease(offer(source, huge())).await;
    session.until_encoding().await;
    assert!(!agent.children().is_empty());
    agent.signal_all(Signal::STOP);
    // Its own file gives the lease away, as it would to a Mac that does not behave.
    assert_eq!(agent.lease_file()["lease_epoch"], 1);
    tokio::time::sleep(Duration::from_millis(INTERVALS.lease_ttl_ms + 500)).await;
    agent.signal_all(Signal::CONT);
    agent.is_idle(STOPPED_WITHIN).await;
    eventually("the lease is forgotten", || {
        agent.listing("leases").is_empty()
    })
    .await;
    // It may use the old socket or a new one; on neither does it speak of the attempt any more.
    let mut second = gateway.session().await;
    let hello = second.welcome_empty().await;
    assert!(hello.held.is_empty());
    second.until("pull").await;
    assert!(gateway.objects.get("/out").is_none());
    while let Some(said) = session.hear().await {
        assert!(
            !["commit", "fail", "release"].contains(&word(&said).as_str()),
            "{said:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_a_freeze_kept_from_its_end_is_not_uploaded_after_the_lease() {
    let mut gateway = Gateway::start().await;
    let source = gateway.put_clip("/in", 3).await;
    let agent = Agent::running(&gateway).await;
    let mut session = gateway.session().await;
    session.welcome_empty().await;
    session.lease(offer(source, small())).await;
    // Frozen as soon as it is heard to encode: the little that is left is done after the thaw.
    session
        .until_true(|said| content(said)["phase"] == "running")
        .await;
    agent.signal_all(Signal::STOP);
    tokio::time::sleep(Duration::from_millis(INTERVALS.lease_ttl_ms + 500)).await;
    agent.signal_all(Signal::CONT);
    agent.is_idle(STOPPED_WITHIN).await;
    let hello = gateway.session().await.welcome_empty().await;
    assert!(hello.held.is_empty() && gateway.objects.get("/out").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_was_recorded_is_repeated_identically_after_the_socket_was_cut() {
    let mut gateway = Gateway::start().await;
    let (agent, session, commit) = committed(&mut gateway).await;
    drop(session);
    let mut session = gateway.session().await;
    session.welcome(recorded).await;
    let repeated = session.until("commit").await;
    assert_eq!(content(&repeated), content(&commit));
    session
        .answer(&repeated, GatewayFrame::CommitOk { replayed: true })
        .await;
    session.until("pull").await;
    eventually("the outbox is empty", || agent.listing("leases").is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_was_not_recorded_is_said_again_under_the_resumed_pair() {
    let mut gateway = Gateway::start().await;
    let (agent, session, commit) = committed(&mut gateway).await;
    drop(session);
    let mut session = gateway.session().await;
    session.welcome(resumed).await;
    let again = session.until("commit").await;
    assert_eq!(content(&again)["lease_epoch"], 2);
    assert_eq!(content(&again)["commit_token"], token(8).expose());
    assert_eq!(content(&again)["output"], content(&commit)["output"]);
    assert_eq!(agent.lease_file()["commit_token"], token(8).expose());
    session
        .answer(&again, GatewayFrame::CommitOk { replayed: false })
        .await;
    session.until("pull").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pending_commit_survives_the_agents_death_and_is_repeated_identically() {
    let mut gateway = Gateway::start().await;
    let (mut agent, session, commit) = committed(&mut gateway).await;
    agent.kill();
    drop(session);
    agent.start();
    let mut session = gateway.session().await;
    let hello = session.welcome(recorded).await;
    assert_eq!(hello.held[0].commit_token, token(7));
    let repeated = session.until("commit").await;
    assert_eq!(content(&repeated), content(&commit));
    session
        .answer(&repeated, GatewayFrame::CommitOk { replayed: true })
        .await;
    eventually("the outbox is empty", || agent.listing("leases").is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_died_with_the_agent_is_handed_back() {
    let mut gateway = Gateway::start().await;
    let source = gateway.put_clip("/in", 20).await;
    let mut agent = Agent::running(&gateway).await;
    let mut session = gateway.session().await;
    session.welcome_empty().await;
    session.lease(offer(source, huge())).await;
    session.until_encoding().await;
    agent.kill();
    agent.start();
    let mut session = gateway.session().await;
    session.welcome(resumed).await;
    let release = session.until("release").await;
    assert_eq!(content(&release)["lease_epoch"], 2);
    agent.is_idle(STOPPED_WITHIN).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unanswered_renewal_brings_a_new_socket_and_the_encoder_goes_on() {
    let mut gateway = Gateway::start().await;
    let source = gateway.put_clip("/in", 20).await;
    let agent = Agent::running(&gateway).await;
    let mut session = gateway.session().await;
    session.welcome_empty().await;
    session.lease(offer(source, huge())).await;
    session.until_encoding().await;
    let encoder = agent.children();
    // The first session is kept open but answers nothing any more.
    let mut second = gateway.session().await;
    second.welcome(resumed).await;
    let progress = second.until("progress").await;
    assert_eq!(content(&progress)["lease_epoch"], 2);
    second.until_encoding().await;
    assert_eq!(agent.children(), encoder);
}

#[tokio::test(flavor = "multi_thread")]
async fn renewals_are_on_time_while_all_cores_are_busy() {
    renewals_under_load(Duration::from_secs(15)).await;
}
