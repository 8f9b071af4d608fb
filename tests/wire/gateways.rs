//! Several gateways on one database, and gateways that go away.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_protocol::{Code, GatewayFrame, close};
use fencepost_tests::Site;
use fencepost_tests::agent_frames::{accept, assert_won, commit, declared, progress, resumed};
use fencepost_tests::buyer::clip;
use fencepost_tests::gateway::{ACCEPT, TTL};
use fencepost_tests::processes::Process;
use fencepost_tests::stand_ins::HeldFfmpeg;

use fencepost_tests::wait::until;
use rustix::process::Signal;

use crate::refused;

#[tokio::test]
async fn a_cancel_at_another_gateway_reaches_the_agent() {
    let site = Site::new().await;
    let (here, there) = (site.gateway().await, site.gateway().await);
    let job = site.buyer(&here).submit_noop().await;
    let mut session = site.device(&here, "mac").await.connect(&here).await;
    let offer = session.lease_in(Phase::Running).await;
    site.buyer(&there).cancel(&job).await;
    let pushed = session
        .until(|heard| matches!(heard.frame, GatewayFrame::Cancel { .. }))
        .await;
    assert_eq!(pushed.lease, Some(offer.lease()));
}

#[tokio::test]
async fn an_end_that_another_gateway_settles_frees_the_slot() {
    let site = Site::new().await;
    // Here nobody looks for ended leases but for what its own sessions hold.
    let here = site.gateway_with(&[("leases.pull", "1m")]).await;
    let there = site.gateway_with(&[("leases.sweep", "50ms")]).await;
    let buyer = site.buyer(&there);
    let device = site.device(&here, "mac").await.with_slots(1);
    let mut session = device.connect(&here).await;
    for by in ["cancel", "accept deadline", "expiry"] {
        let job = buyer.submit_noop().await;
        let offer = session.pull_offer().await;
        assert_eq!(offer.job_id.to_string(), job);
        match by {
            "cancel" => {
                buyer.cancel(&job).await;
            }
            "accept deadline" => site.clock.advance(ACCEPT).await,
            _ => {
                session.ask(accept(&offer)).await;
                site.clock.advance(TTL).await;
            }
        }
        if by != "cancel" {
            site.becomes(&job, "queued: lost").await;
            buyer.cancel(&job).await;
        }
        let next = buyer.submit_noop().await;
        let offer = session.lease_in(Phase::Uploading).await;
        assert_eq!(offer.job_id.to_string(), next, "{by}");
        here.put(&offer.output.url, b"bytes").await;
        let answer = session
            .ask(commit(&offer, &declared(&offer, b"bytes")))
            .await;
        assert_won(&answer);
    }
}

#[tokio::test]
async fn a_session_at_another_gateway_supersedes_and_resumes() {
    let site = Site::new().await;
    let (here, there) = (site.gateway().await, site.gateway().await);
    let job = site.buyer(&here).submit_noop().await;
    let device = site.device(&here, "mac").await;
    let mut old = device.connect(&here).await;
    let (offer, output) = old.lease_and_upload(&here, b"bytes").await;
    let mut new = device.dial(&there).await;
    let lease = resumed(&offer, &new.hello(&[&offer]).await);
    assert_eq!(old.close_code().await, Some(close::SUPERSEDED));
    let answer = new.ask(commit(&offer, &output)).await;
    assert_eq!(refused(&answer), Code::CommitConflict);
    let answer = new.ask(commit(&lease, &output)).await;
    assert_won(&answer);
    assert_eq!(site.statuses(&job).await, "succeeded: succeeded");
    // Links that one signed are good at the other.
    assert_eq!(site.buyer(&there).download(&job).await, b"bytes");
}

#[tokio::test]
async fn a_gateway_that_is_told_to_stop_loses_no_attempt() {
    let site = Site::new().await;
    let (mut here, there) = (site.gateway().await, site.gateway().await);
    let buyer = site.buyer(&there);
    let mut working = Vec::new();
    for number in 0..6 {
        let device = site.device(&here, &format!("mac-{number}")).await;
        let mut session = device.connect(&here).await;
        let job = buyer.submit_noop().await;
        let offer = session.lease_in(Phase::Running).await;
        working.push((device, session, job, offer));
    }
    site.clock.advance(TTL / 2).await;
    here.stop().await;
    let rest =
        "select extract(epoch from min(lease_expires_at) - authority_now())::int from attempts";
    assert_eq!(site.db.text(rest).await, TTL.as_secs().to_string());
    for (device, mut session, job, offer) in working {
        assert_eq!(session.close_code().await, Some(close::RESTART));
        let mut session = device.dial(&there).await;
        let lease = resumed(&offer, &session.hello(&[&offer]).await);
        session.ask(progress(&lease, Phase::Uploading)).await;
        there.put(&lease.output.url, b"bytes").await;
        let answer = session
            .ask(commit(&lease, &declared(&lease, b"bytes")))
            .await;
        assert_won(&answer);
        assert_eq!(site.statuses(&job).await, "succeeded: succeeded");
    }
}

#[tokio::test]
async fn the_devices_of_a_killed_gateway_are_not_connected_and_those_of_others_are() {
    let site = Site::new().await;
    let (mut killed, alive) = (site.gateway().await, site.gateway().await);
    let gone = site.device(&killed, "gone").await;
    gone.connect(&killed).await;
    let there = site.device(&alive, "there").await;
    let _session = there.connect(&alive).await;
    let connected = || async {
        let devices = site.store.devices().await.expect("it runs");
        let connected = devices.into_iter().filter(|device| device.connected);
        connected.map(|device| device.name).collect::<Vec<_>>()
    };
    killed.kill();
    // As long as it could be busy, nobody says that it is gone.
    site.clock.advance(Duration::from_secs(16)).await;
    until("its devices to be away", || async {
        connected().await == ["there"]
    })
    .await;
    let metrics = alive.metrics().await;
    assert!(
        metrics.contains("fencepost_devices_connected 1"),
        "{metrics}"
    );
}

#[tokio::test]
async fn a_verification_of_a_killed_gateway_is_taken_over() {
    let site = Site::new().await;
    let ffmpeg = HeldFfmpeg::in_folder(site.folder.path()).await;
    let mut killed = site
        .gateway_with(&[("verifier.ffmpeg", ffmpeg.path())])
        .await;
    let job = site.buyer(&killed).submit_transcode().await;
    let device = site.device(&killed, "mac").await;
    let mut session = device.connect(&killed).await;
    let (offer, output) = session.lease_and_upload(&killed, clip().await).await;
    session.say(commit(&offer, &output)).await;
    site.buyer(&killed).until(&job, "verifying").await;
    killed.kill();
    session.close_code().await;

    let gateway = site.gateway().await;
    let mut session = device.dial(&gateway).await;
    let welcome = session.hello(&[&offer]).await;
    let recorded = (offer.attempt_id.to_string(), "committing".to_owned());
    assert_eq!(welcome.recorded, [recorded]);
    // Its time runs by itself; the lease's does not matter any more.
    site.clock.advance(TTL).await;
    let buyer = site.buyer(&gateway);
    buyer.until(&job, "succeeded").await;
    let answer = session.ask(commit(&offer, &output)).await;
    assert!(
        matches!(answer, GatewayFrame::CommitOk { replayed: true }),
        "{answer:?}"
    );
    assert_eq!(site.statuses(&job).await, "succeeded: succeeded");
    assert_eq!(buyer.download(&job).await, clip().await);
    let epoch = format!("select verification_epoch > 1 from attempts where job_id = '{job}'");
    assert_eq!(site.db.text(&epoch).await, "t");
}

#[tokio::test]
async fn a_killed_gateway_leaves_leases_that_go_on_elsewhere() {
    let site = Site::new().await;
    let mut killed = site.gateway().await;
    let job = site.buyer(&killed).submit_noop().await;
    let device = site.device(&killed, "mac").await;
    let mut session = device.connect(&killed).await;
    let (offer, output) = session.lease_and_upload(&killed, b"bytes").await;
    killed.kill();
    session.close_code().await;
    let gateway = site.gateway().await;
    let mut session = device.dial(&gateway).await;
    let lease = resumed(&offer, &session.hello(&[&offer]).await);
    let answer = session.ask(commit(&lease, &output)).await;
    assert_won(&answer);
    assert_eq!(site.statuses(&job).await, "succeeded: succeeded");
}

/// Starts a gateway that must not begin beside the others, and gives what it says.
async fn refused_beside_others(site: &Site, setting: (&str, &str)) -> String {
    let log_file = site.folder.path().join("refused.log");
    std::fs::remove_file(&log_file).ok();
    let mut process = Process::start(&mut site.command(&[setting]), &log_file);
    let status = process.wait().await;
    assert_eq!(status.code(), Some(78), "{}", process.log());
    process.log()
}

#[tokio::test]
async fn a_gateway_with_another_key_or_folder_is_refused_while_others_run() {
    let site = Site::new().await;
    let path = |name: &str| site.folder.path().join(name).display().to_string();
    let mut running = site.gateway().await;
    std::fs::write(path("other.key"), "o".repeat(40)).expect("a file");
    for (key, other, named) in [
        (
            "artifacts.signing_key_file",
            "other.key",
            "artifacts.signing_key",
        ),
        (
            "webhooks.secret_key_file",
            "other.key",
            "webhooks.secret_key",
        ),
        ("artifacts.dir", "elsewhere", "artifacts.dir"),
    ] {
        let said = refused_beside_others(&site, (key, &path(other))).await;
        assert!(
            said.contains(named) && said.contains("stop all gateways"),
            "{said}"
        );
        assert!(!said.contains("oooo") && !said.contains("kkkk"), "{said}");
        assert!(running.readiness().await.0, "the one that runs goes on");
    }
    // The same folder at another path is the same folder.
    std::os::unix::fs::symlink(path("artifacts"), path("mounted")).expect("a link");
    let moved = site
        .gateway_with(&[("artifacts.dir", &path("mounted"))])
        .await;
    assert!(moved.readiness().await.0);
    // All are restarted one by one with the same key …
    running.stop().await;
    let mut next = site.gateway().await;
    drop(moved);
    next.stop().await;
    // … and one was killed, which counts until it has long been silent; then a new key is fine.
    let other = ("artifacts.signing_key_file", path("other.key"));
    refused_beside_others(&site, (other.0, &other.1)).await;
    site.clock.advance(Duration::from_secs(16)).await;
    let changed = site.gateway_with(&[(other.0, &other.1)]).await;
    assert!(changed.readiness().await.0);
}

#[tokio::test]
async fn a_gateway_that_wakes_up_among_others_with_another_key_is_not_ready() {
    let site = Site::new().await;
    let other = site.folder.path().join("other.key");
    std::fs::write(&other, "o".repeat(40)).expect("a file");
    let asleep = site.gateway().await;
    asleep.process.signal(Signal::STOP);
    site.clock.advance(Duration::from_secs(16)).await;
    let key = ("artifacts.signing_key_file", other.to_str().expect("plain"));
    let changed = site.gateway_with(&[key]).await;
    asleep.process.signal(Signal::CONT);
    let (ready, said) = asleep.readiness().await;
    assert!(
        !ready && said.contains("another link-signing key"),
        "{said}"
    );
    let (_, said) = changed.readiness().await;
    assert!(!said.contains("another"), "{said}");
}
