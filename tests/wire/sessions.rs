//! Sockets that come and go: who is current, what goes on, what is forgotten.

use fencepost_domain::attempt::Phase;
use fencepost_domain::ids::InstanceId;
use fencepost_protocol::{AgentFrame, Code, GatewayFrame, close};
use fencepost_tests::Site;
use fencepost_tests::agent_client::Device;
use fencepost_tests::agent_frames::{
    accept, assert_won, commit, declared, decline, fail, progress, release, resumed,
};
use fencepost_tests::wait::until;
use reqwest::StatusCode;
use tokio_tungstenite::tungstenite::Error;

use crate::refused;

#[tokio::test]
async fn an_enrollment_code_works_once() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let code = site.enrollment(None).await;
    Device::pair(&gateway, &code, "mac").await;
    for used_or_unknown in [code.as_str(), "fp_pair_unknown", "x"] {
        let (status, problem) = Device::try_pair(&gateway, used_or_unknown, "mac").await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{problem}");
        assert_eq!(problem["field"], "code");
    }
}

#[tokio::test]
async fn pairing_again_closes_the_old_socket_and_voids_its_token() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let old = site.device(&gateway, "mac").await;
    let mut session = old.connect(&gateway).await;
    let code = site.enrollment(Some(old.id)).await;
    let new = Device::pair(&gateway, &code, "mac").await;
    assert_eq!(new.id, old.id);
    assert!(session.close_code().await.is_some());
    let refused = old.try_dial(gateway.port()).await.map(drop);
    let Err(Error::Http(response)) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(response.status(), 401);
    new.connect(&gateway).await;
}

#[tokio::test]
async fn pairing_again_keeps_the_attempts_for_the_next_hello() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let job = site.buyer(&gateway).submit_noop().await;
    let old = site.device(&gateway, "mac").await;
    let mut session = old.connect(&gateway).await;
    let offer = session.lease_in(Phase::Running).await;
    let code = site.enrollment(Some(old.id)).await;
    let new = Device::pair(&gateway, &code, "mac").await;
    session.close_code().await;
    let welcome = new.dial(&gateway).await.hello(&[&offer]).await;
    // One more than a resume alone: pairing again has taken the old epoch from the old socket.
    assert_eq!(resumed(&offer, &welcome).lease_epoch, 3);
    assert_eq!(site.statuses(&job).await, "active: running");
}

#[tokio::test]
async fn a_newer_session_supersedes_the_older_whose_late_close_changes_nothing() {
    let site = Site::new().await;
    let gateway = site.gateway_with(&[("leases.pull", "1m")]).await;
    let device = site.device(&gateway, "mac").await;
    let mut older = device.connect(&gateway).await;
    let mut newer = device.connect(&gateway).await;
    newer.pull(1).await;
    assert_eq!(older.close_code().await, Some(close::SUPERSEDED));
    older.cut().await;
    let job = site.buyer(&gateway).submit_noop().await;
    assert_eq!(newer.offer().await.job_id.to_string(), job);
}

#[tokio::test]
async fn a_socket_that_was_opened_earlier_and_speaks_later_is_not_current() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let device = site.device(&gateway, "mac").await;
    let mut early = device.dial(&gateway).await;
    let mut late = device.connect(&gateway).await;
    early.say(early.hello_frame(&[])).await;
    assert_eq!(early.close_code().await, Some(close::SUPERSEDED));
    site.buyer(&gateway).submit_noop().await;
    late.lease().await;
}

#[tokio::test]
async fn a_lease_goes_on_in_the_next_session_under_a_new_epoch_and_secret() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let job = site.buyer(&gateway).submit_noop().await;
    let device = site.device(&gateway, "mac").await;
    let mut session = device.connect(&gateway).await;
    let (old, output) = session.lease_and_upload(&gateway, b"bytes").await;
    session.cut().await;
    let mut session = device.dial(&gateway).await;
    let welcome = session.hello(&[&old]).await;
    let new = resumed(&old, &welcome);
    assert_eq!(new.lease_epoch, 2);
    assert!(
        new.commit_token != old.commit_token,
        "the secret is the old one"
    );

    let mut old_epoch = new.clone();
    old_epoch.lease_epoch = old.lease_epoch;
    let mut old_secret = new.clone();
    old_secret.commit_token = old.commit_token.clone();
    let before = site.rows().await;
    for stale in [&old, &old_epoch] {
        let answer = session.ask(progress(stale, Phase::Uploading)).await;
        assert_eq!(refused(&answer), Code::LeaseConflict);
    }
    for stale in [&old, &old_epoch, &old_secret] {
        for frame in [commit(stale, &output), fail(stale, "x"), release(stale)] {
            assert_eq!(refused(&session.ask(frame).await), Code::CommitConflict);
        }
    }
    assert_eq!(site.rows().await, before);
    let answer = session.ask(commit(&new, &output)).await;
    assert_won(&answer);
    assert_eq!(site.statuses(&job).await, "succeeded: succeeded");
}

#[tokio::test]
async fn what_a_hello_does_not_list_was_forgotten_and_is_charged() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let device = site.device(&gateway, "mac").await;
    let mut session = device.connect(&gateway).await;
    let job = buyer.submit_noop().await;
    session.lease_in(Phase::Running).await;
    session.cut().await;
    assert_eq!(
        site.statuses(&job).await,
        "active: running",
        "a cut socket ends nothing"
    );
    device.connect(&gateway).await;
    assert_eq!(site.statuses(&job).await, "queued: lost");
    assert_eq!(buyer.job(&job).await["charged_attempts"], 1);
}

#[tokio::test]
async fn a_device_cannot_resume_what_another_holds() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let job = site.buyer(&gateway).submit_noop().await;
    let mut holder = site
        .device(&gateway, "holder")
        .await
        .connect(&gateway)
        .await;
    let offer = holder.lease_in(Phase::Running).await;
    let mut thief = site.device(&gateway, "thief").await.dial(&gateway).await;
    let welcome = thief.hello(&[&offer]).await;
    assert_eq!(welcome.lost, [offer.attempt_id.to_string()]);
    assert!(
        welcome.resumed.is_empty() && welcome.recorded.is_empty(),
        "{welcome:?}"
    );
    let answer = holder.ask(progress(&offer, Phase::Running)).await;
    assert!(
        matches!(answer, GatewayFrame::ProgressOk { .. }),
        "{answer:?}"
    );
    assert_eq!(site.statuses(&job).await, "active: running");
}

#[tokio::test]
async fn nothing_is_done_before_hello_and_hello_is_said_once() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let job = site.buyer(&gateway).submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.dial(&gateway).await;
    let answer = session.ask(AgentFrame::Pull { slots_free: 1 }).await;
    assert!(
        matches!(
            answer,
            GatewayFrame::Rejected {
                code: Code::InvalidRequest,
                ..
            }
        ),
        "{answer:?}"
    );
    session.hello(&[]).await;
    let answer = session.ask(session.hello_frame(&[])).await;
    assert!(
        matches!(
            answer,
            GatewayFrame::Rejected {
                code: Code::InvalidRequest,
                ..
            }
        ),
        "{answer:?}"
    );
    assert_eq!(session.pull_offer().await.job_id.to_string(), job);
}

#[tokio::test]
async fn an_agent_that_is_too_old_is_told_so() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let mut session = site.device(&gateway, "mac").await.dial(&gateway).await;
    let AgentFrame::Hello(mut hello) = session.hello_frame(&[]) else {
        unreachable!()
    };
    hello.protocol = 0;
    let answer = session.ask(AgentFrame::Hello(hello)).await;
    assert!(
        matches!(answer, GatewayFrame::UpgradeRequired),
        "{answer:?}"
    );
    assert_eq!(session.close_code().await, Some(close::UPGRADE));
}

#[tokio::test]
async fn a_disabled_device_loses_its_socket_and_is_let_in_no_more() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let device = site.device(&gateway, "mac").await;
    let mut session = device.connect(&gateway).await;
    site.store.disable_device(device.id, None).await.unwrap();
    assert_eq!(session.close_code().await, Some(close::REVOKED));
    let refused = device.try_dial(gateway.port()).await.map(drop);
    assert!(matches!(refused, Err(Error::Http(_))), "{refused:?}");
    site.store.enable_device(device.id).await.unwrap();
    device.connect(&gateway).await;
}

#[tokio::test]
async fn nothing_that_a_disabled_device_sends_before_its_socket_closes_counts() {
    let site = Site::new().await;
    // The gateway learns of it late, so only the fence can refuse.
    let gateway = site.gateway_with(&[("leases.sweep", "5s")]).await;
    let buyer = site.buyer(&gateway);
    let (job, checked) = (buyer.submit_noop().await, buyer.submit_noop().await);
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let (won, won_output) = session.lease_and_upload(&gateway, b"in time").await;
    let (offer, output) = session.lease_and_upload(&gateway, b"too late").await;
    let in_time = session.ask(commit(&won, &won_output)).await;
    assert_won(&in_time);
    let device = session.device.id;
    let ended = site.store.disable_device(device, None).await.unwrap();
    assert_eq!(ended.unwrap().len(), 1);
    let before = site.rows().await;
    for frame in [
        commit(&offer, &output),
        fail(&offer, "runner_failed"),
        release(&offer),
    ] {
        assert_eq!(refused(&session.ask(frame).await), Code::CommitConflict);
    }
    let late = refused(&session.ask(progress(&offer, Phase::Uploading)).await);
    assert_eq!(late, Code::LeaseConflict);
    let put = gateway.put(&offer.output.url, b"too late").await;
    assert_eq!(put.status(), StatusCode::CONFLICT);
    assert_eq!(site.rows().await, before);
    let statuses = [site.statuses(&job).await, site.statuses(&checked).await];
    assert!(
        statuses.contains(&"succeeded: succeeded".to_owned()),
        "{statuses:?}"
    );
    assert!(
        statuses.contains(&"queued: lost".to_owned()),
        "{statuses:?}"
    );
}

#[tokio::test]
async fn a_device_in_two_places_is_disabled_and_both_sockets_close() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let device = site.device(&gateway, "mac").await;
    let mut sessions = vec![device.connect(&gateway).await];
    let copy = || Device {
        instance: InstanceId::new(),
        ..device.clone()
    };
    for _ in 0..2 {
        sessions.push(copy().connect(&gateway).await);
        let older = sessions.remove(0).close_code().await;
        assert_eq!(older, Some(close::SUPERSEDED));
    }
    let mut third = copy().dial(&gateway).await;
    let answer = third.ask(third.hello_frame(&[])).await;
    assert!(matches!(answer, GatewayFrame::Disabled), "{answer:?}");
    assert_eq!(third.close_code().await, Some(close::REVOKED));
    assert_eq!(sessions.remove(0).close_code().await, Some(close::REVOKED));
    let devices = site.store.devices().await.unwrap();
    assert!(devices[0].note.as_deref().unwrap().contains("two agents"));
}

#[tokio::test]
async fn an_offer_that_was_accepted_cannot_be_declined_and_lives_on() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let job = site.buyer(&gateway).submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = session.pull_offer().await;
    session.ask(accept(&offer)).await;
    let answer = session.ask(decline(&offer)).await;
    let GatewayFrame::Rejected { code, message, .. } = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(code, Code::InvalidRequest);
    assert!(message.unwrap().contains("release"));
    assert_eq!(site.statuses(&job).await, "active: leased");
    let mut other = site.device(&gateway, "other").await.connect(&gateway).await;
    assert_eq!(
        refused(&other.ask(decline(&offer)).await),
        Code::LeaseConflict
    );
    assert_eq!(site.statuses(&job).await, "active: leased");
}

#[tokio::test]
async fn words_that_no_job_can_ask_for_cost_nothing_but_themselves() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let job = site.buyer(&gateway).submit_noop().await;
    let mut device = site.device(&gateway, "mac").await;
    for odd in ["nul\0", "two words", "", "ünïcode"] {
        device.words.push(odd.to_owned());
    }
    let mut session = device.connect(&gateway).await;
    assert_eq!(session.pull_offer().await.job_id.to_string(), job);
}

#[tokio::test]
async fn a_draining_agent_gets_nothing_new_and_finishes_what_it_holds() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let (first, second) = (buyer.submit_noop().await, buyer.submit_noop().await);
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = session.lease_in(Phase::Uploading).await;
    let drained = session
        .ask(AgentFrame::Drain {
            mode: "finish".to_owned(),
        })
        .await;
    assert!(matches!(drained, GatewayFrame::DrainAck), "{drained:?}");
    session.finds_no_work().await;
    gateway.put(&offer.output.url, b"bytes").await;
    let answer = session
        .ask(commit(&offer, &declared(&offer, b"bytes")))
        .await;
    assert_won(&answer);
    assert_eq!(site.statuses(&first).await, "succeeded: succeeded");
    assert_eq!(site.statuses(&second).await, "queued: none");
}

#[tokio::test]
async fn a_session_that_falls_silent_is_closed_and_its_offer_comes_back() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let job = site.buyer(&gateway).submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = session.pull_offer().await;
    session.fall_silent();
    assert_eq!(session.close_code().await, Some(close::SILENT));
    until("the offer to come back", || async {
        site.statuses(&job).await == "queued: lost"
    })
    .await;
    let device = session.device.clone();
    let mut session = device.connect(&gateway).await;
    assert_eq!(
        refused(&session.ask(accept(&offer)).await),
        Code::LeaseConflict
    );
    assert_eq!(gateway.sessions().await, 1);
}

#[tokio::test]
async fn sessions_that_end_in_every_way_leave_nothing_behind() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let device = site.device(&gateway, "mac").await;
    for round in 0..60 {
        let session = match round % 3 {
            0 => device.dial(&gateway).await,
            _ => device.connect(&gateway).await,
        };
        session.pull(1).await;
        if round % 2 == 0 {
            session.cut().await;
        }
    }
    until("no session", || async { gateway.sessions().await == 0 }).await;
}
