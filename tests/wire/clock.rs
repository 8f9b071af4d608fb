//! The database's clock goes back, or leaps ahead: what travels then, and that all goes on after.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_protocol::{AgentFrame, Code, Directive, Disposition, GatewayFrame};
use fencepost_tests::Site;
use fencepost_tests::agent_frames::{
    accept, assert_won, commit, declared, fail, progress, release, resumed,
};
use fencepost_tests::buyer::{film, transcode};
use fencepost_tests::gateway::{TTL, TestGateway};
use fencepost_tests::stand_ins::real_time_ffmpeg;
use fencepost_tests::wait::until;
use reqwest::StatusCode;
use serde_json::Value;

/// Less than a lease.
const STEP: Duration = Duration::from_secs(5);
const LAG: Duration = Duration::from_secs(70);
const TWO_YEARS: Duration = Duration::from_hours(2 * 365 * 24);

/// After how many milliseconds to come back; for any other answer a panic.
fn waits(frame: &GatewayFrame) -> u64 {
    match frame {
        GatewayFrame::Rejected {
            code: Code::ClockRegressed,
            disposition: Disposition::Retry,
            retry_after_ms: Some(retry_after_ms),
            ..
        } => *retry_after_ms,
        other => panic!("not told to wait for the clock: {other:?}"),
    }
}

/// Waits until the gateway has moved the mark up to the clock, which stands still.
async fn marked(site: &Site) {
    until("the mark to follow", || async {
        let reading = site.store.read_clock().await.expect("the clock is read");
        reading.now - reading.mark <= time::Duration::SECOND
    })
    .await;
}

/// The clock, which stands still, is behind its mark by exactly so much.
async fn regress(site: &Site, by: Duration) {
    site.clock.advance(Duration::from_secs(2)).await;
    marked(site).await;
    let reading = site.store.read_clock().await.expect("the clock is read");
    site.clock.set(reading.mark - by).await;
}

async fn says(gateway: &TestGateway, word: &str) -> bool {
    let (ready, said) = gateway.readiness().await;
    !ready && said.contains(word)
}

#[tokio::test]
async fn while_the_clock_is_behind_every_frame_of_a_holder_is_told_to_wait_and_changes_nothing() {
    let site = Site::new().await;
    let mut gateway = site.gateway_with(&[("leases.pull", "1m")]).await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let device = site.device(&gateway, "mac").await;
    let mut session = device.connect(&gateway).await;
    let offer = session.lease_in(Phase::Uploading).await;
    regress(&site, STEP).await;
    until("a gateway that says so", || says(&gateway, "behind")).await;
    let before = site.rows().await;
    let output = declared(&offer, b"bytes");
    let grant = AgentFrame::Grant {
        lease: offer.lease(),
        name: "output".to_owned(),
        direction: "put".to_owned(),
        first_part: None,
    };
    for frame in [
        accept(&offer),
        progress(&offer, Phase::Uploading),
        grant,
        commit(&offer, &output),
        fail(&offer, "upload_failed"),
        release(&offer),
    ] {
        assert_eq!(waits(&session.ask(frame).await), 5_000);
    }
    let stored = gateway.put(&offer.output.url, b"bytes").await;
    assert_eq!(stored.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(stored.headers()["retry-after"], "5");
    let problem: Value = stored.json().await.unwrap();
    assert_eq!(problem["code"], "clock_regressed");
    assert_eq!(problem["retryable"], true);
    assert_eq!(site.rows().await, before);

    // Also for a gateway that was started later; its hello loses nothing.
    gateway.stop().await;
    let gateway = site.gateway_with(&[("leases.pull", "1m")]).await;
    let mut session = device.dial(&gateway).await;
    let answer = session.ask(session.hello_frame(&[&offer])).await;
    assert!(
        matches!(
            answer,
            GatewayFrame::Busy {
                retry_after_ms: 5_000
            }
        ),
        "{answer:?}"
    );
    assert_eq!(site.rows().await, before);

    site.clock.advance(STEP).await;
    let lease = resumed(&offer, &session.hello(&[&offer]).await);
    until("a gateway that is ready again", || async {
        gateway.readiness().await.0
    })
    .await;
    let stored = gateway.put(&offer.output.url, b"bytes").await;
    assert_eq!(stored.status(), StatusCode::CREATED);
    let answer = session.ask(commit(&lease, &output)).await;
    assert_won(&answer);
    assert_eq!(site.statuses(&job).await, "succeeded: succeeded");
}

#[tokio::test]
async fn a_pull_stands_until_the_clock_has_caught_up() {
    let site = Site::new().await;
    let gateway = site.gateway_with(&[("leases.pull", "1m")]).await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    regress(&site, STEP).await;
    let job = site.buyer(&gateway).submit_noop().await;
    session.pull(1).await;
    until("a gateway that says so", || says(&gateway, "behind")).await;
    assert_eq!(site.statuses(&job).await, "queued: none");
    site.clock.advance(STEP).await;
    assert_eq!(session.offer().await.job_id.to_string(), job);
}

#[tokio::test]
async fn cancels_reads_and_stored_answers_do_not_wait_for_the_clock() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let won = buyer.submit_noop().await;
    let (winner, output) = session.lease_and_upload(&gateway, b"bytes").await;
    session.ask(commit(&winner, &output)).await;
    let job = buyer.submit_noop().await;
    let offer = session.lease_in(Phase::Running).await;
    regress(&site, LAG).await;
    let answer = session.ask(commit(&winner, &output)).await;
    assert!(
        matches!(answer, GatewayFrame::CommitOk { replayed: true }),
        "{answer:?}"
    );
    assert_eq!(buyer.download(&won).await, b"bytes");
    assert_eq!(buyer.job(&job).await["status"], "active");
    assert_eq!(buyer.cancel(&job).await, ("cancelling".to_owned(), true));
    session
        .until(|heard| matches!(heard.frame, GatewayFrame::Cancel { .. }))
        .await;
    let answer = session.ask(progress(&offer, Phase::Running)).await;
    let GatewayFrame::ProgressOk {
        directive: Directive::Stop,
        ..
    } = answer
    else {
        panic!("{answer:?}")
    };
    let stopped = AgentFrame::Stopped {
        lease: offer.lease(),
    };
    session.ask(stopped).await;
    site.becomes(&job, "cancelled: cancelled").await;
}

#[tokio::test]
async fn a_clock_that_leaps_two_years_ahead_and_back_takes_neither_mark_nor_devices_with_it() {
    let site = Site::new().await;
    let gateway = site.gateway_with(&[("leases.pull", "1m")]).await;
    let buyer = site.buyer(&gateway);
    let device = site.device(&gateway, "mac").await;
    let mut session = device.connect(&gateway).await;
    marked(&site).await;
    let mark = site.store.read_clock().await.unwrap().mark;
    site.clock.advance(TWO_YEARS).await;
    until("a gateway that says so", || says(&gateway, "ahead")).await;
    let metrics = gateway.metrics().await;
    assert!(
        metrics.contains("fencepost_clock_ahead_seconds 6"),
        "{metrics}"
    );
    // What is leased meanwhile ends when an ordinary lease would.
    let job = buyer.submit_noop().await;
    session.lease_in(Phase::Running).await;
    assert_eq!(site.store.read_clock().await.unwrap().mark, mark);

    site.clock.go_back(TWO_YEARS).await;
    until("a gateway that is ready again", || async {
        gateway.readiness().await.0
    })
    .await;
    site.clock.advance(TTL).await;
    site.becomes(&job, "queued: lost").await;
    let (offer, output) = session.lease_and_upload(&gateway, b"bytes").await;
    let answer = session.ask(commit(&offer, &output)).await;
    assert_won(&answer);
    // The same credential is good for another session.
    device.connect(&gateway).await;
}

#[tokio::test]
async fn a_lease_that_the_clock_leapt_over_is_charged_to_nobody_and_one_that_ran_out_is() {
    for (leaps, charged) in [(true, 0), (false, 1)] {
        let site = Site::new().await;
        let gateway = site.gateway().await;
        let buyer = site.buyer(&gateway);
        let job = buyer.submit_noop().await;
        let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
        session.lease_in(Phase::Running).await;
        marked(&site).await;
        // Long enough for the lease to end, too short to look like an outage of ours.
        if leaps {
            site.clock.advance(TTL + STEP / 5).await;
        } else {
            site.pass(TTL + STEP / 5).await;
        }
        site.becomes(&job, "queued: lost").await;
        assert_eq!(buyer.job(&job).await["charged_attempts"], charged);
    }
}

#[tokio::test]
async fn an_operator_sees_the_clock_and_accepts_it_and_gateways_believe_that() {
    let site = Site::new().await;
    let gateway = site.gateway_with(&[("leases.pull", "1m")]).await;
    let buyer = site.buyer(&gateway);
    buyer.submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = session.lease_in(Phase::Running).await;
    marked(&site).await;

    // The clock is put right by a leap ahead: no gateway believes that by itself.
    site.clock.advance(TWO_YEARS).await;
    until("a gateway that says so", || says(&gateway, "ahead")).await;
    let shown = site.operate(&["clock", "show"]).await;
    assert_eq!(shown["behind"], false);
    assert!(shown["difference_us"].as_i64().unwrap() > 63_000_000_000_000);
    site.operate(&["clock", "accept"]).await;
    until("a gateway that is ready again", || async {
        gateway.readiness().await.0
    })
    .await;

    // It leaps back: now it is the mark that is wrong.
    site.clock.go_back(TWO_YEARS).await;
    until("a gateway that says so", || says(&gateway, "behind")).await;
    let shown = site.operate(&["clock", "show"]).await;
    assert_eq!(shown["behind"], true);
    let accepted = site.operate(&["clock", "accept"]).await;
    assert_eq!(accepted["mark"], shown["clock"]);
    assert_eq!(accepted["mark_before"], shown["mark"]);
    until("a gateway that is ready again", || async {
        gateway.readiness().await.0
    })
    .await;
    let accepts = "select actor from audit_log where action = 'clock.accept'";
    let actors = site.db.texts(accepts).await;
    assert_eq!(actors, ["cli:olga", "cli:olga"]);
    let answer = session.ask(progress(&offer, Phase::Running)).await;
    assert!(
        matches!(
            answer,
            GatewayFrame::Rejected {
                code: Code::LeaseConflict,
                ..
            }
        ),
        "{answer:?}"
    );
    let next = buyer.submit_noop().await;
    let (offer, output) = session.lease_and_upload(&gateway, b"bytes").await;
    session.ask(commit(&offer, &output)).await;
    assert_eq!(offer.job_id.to_string(), next);
    assert_eq!(buyer.job(&next).await["status"], "succeeded");
}

#[tokio::test]
async fn a_real_agent_works_on_while_the_clock_catches_up_for_longer_than_its_lease() {
    let site = Site::new().await;
    site.clock.run().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let ffmpeg = real_time_ffmpeg(site.folder.path()).await;
    let agent = site.agent(&gateway.url, "slow").await;
    let mut agent = agent.with(&["--ffmpeg", ffmpeg.to_str().expect("a plain path")]);
    agent.start();
    let upload = buyer.upload(&film(14, 96, 64).await).await;
    let job = buyer.submit(&transcode(&upload)).await;
    site.becomes(&job, "active: running").await;
    let lag = TTL + Duration::from_secs(4);
    site.clock.go_back(lag).await;
    until("a gateway that says so", || says(&gateway, "behind")).await;
    until("a gateway that is ready again", || async {
        gateway.readiness().await.0
    })
    .await;
    buyer.until(&job, "succeeded").await;
    assert_eq!(site.statuses(&job).await, "succeeded: succeeded");
    assert_eq!(buyer.attempts(&job).await[0]["lease_epoch"], 1);
    agent.is_idle().await;
}
