//! What an ended attempt left on its device, over the socket: handed over, reaped, and answered from
//! what is stored wherever its device asks again.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::duration::LeaseDuration;
use fencepost_protocol::{AgentFrame, Code, GatewayFrame};
use fencepost_tests::Site;
use fencepost_tests::agent_client::Session;
use fencepost_tests::agent_frames::{commit, fail, release, retain};

use crate::refused;

const KEPT: LeaseDuration = LeaseDuration::seconds(60);

/// Whether a `done` is the stored answer.
fn replayed(frame: &GatewayFrame) -> bool {
    match frame {
        GatewayFrame::Done { replayed, .. } | GatewayFrame::CommitOk { replayed } => *replayed,
        other => panic!("not done: {other:?}"),
    }
}

async fn told_to_reap(session: &mut Session) -> String {
    let is_reap = |frame: &GatewayFrame| matches!(frame, GatewayFrame::Reap { .. });
    let heard = session.until(|heard| is_reap(&heard.frame)).await;
    match heard.frame {
        GatewayFrame::Reap { handle } => handle,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_workspace_is_handed_over_and_reaped_when_its_time_is_over_or_its_device_is_back() {
    let site = Site::new().await;
    let (gateway, other) = (site.gateway().await, site.gateway().await);
    site.buyer(&gateway).submit_noop().await;
    let device = site.device(&gateway, "mac").await;
    let mut mac = device.connect(&gateway).await;
    let offer = mac.lease_in(Phase::Running).await;
    let early = mac.ask(retain(&offer, KEPT)).await;
    assert_eq!(refused(&early), Code::CommitConflict);
    mac.ask(fail(&offer, "runner_failed")).await;
    assert!(!replayed(&mac.ask(retain(&offer, KEPT)).await));
    assert!(replayed(&mac.ask(retain(&offer, KEPT)).await));
    let otherwise = mac.ask(retain(&offer, LeaseDuration::seconds(1))).await;
    assert_eq!(refused(&otherwise), Code::CommitConflict);
    mac.cut().await;
    site.clock.advance(Duration::from_mins(1)).await;
    let mut mac = device.connect(&other).await;
    let handle = told_to_reap(&mut mac).await;
    assert_eq!(handle, offer.attempt_id.to_string());
    let gone = || AgentFrame::Reaped {
        handle: handle.clone(),
    };
    assert!(!replayed(&mac.ask(gone()).await));
    assert!(replayed(&mac.ask(gone()).await));
    assert!(
        replayed(&mac.ask(retain(&offer, KEPT)).await),
        "as it was answered"
    );
}

#[tokio::test]
async fn the_last_word_is_answered_from_what_is_stored_on_another_gateway_and_after_the_hand_off() {
    for word in ["commit", "fail", "release"] {
        let site = Site::new().await;
        let (gateway, other) = (site.gateway().await, site.gateway().await);
        site.buyer(&gateway).submit_noop().await;
        let device = site.device(&gateway, "mac").await;
        let mut mac = device.connect(&gateway).await;
        let (offer, output) = mac.lease_and_upload(&gateway, b"bytes").await;
        let say = || match word {
            "commit" => commit(&offer, &output),
            "fail" => fail(&offer, "runner_failed"),
            _ => release(&offer),
        };
        assert!(!replayed(&mac.ask(say()).await), "{word}");
        assert!(!replayed(&mac.ask(retain(&offer, KEPT)).await), "{word}");
        mac.cut().await;
        let mut mac = device.connect(&other).await;
        let before = site.db.text("select a::text from attempts a").await;
        assert!(replayed(&mac.ask(say()).await), "{word}");
        assert!(replayed(&mac.ask(retain(&offer, KEPT)).await), "{word}");
        let mut changed = output.clone();
        changed.size_bytes += 1;
        let answer = mac.ask(commit(&offer, &changed)).await;
        assert_eq!(refused(&answer), Code::CommitConflict, "{word}");
        let after = site.db.text("select a::text from attempts a").await;
        assert_eq!(before, after, "{word}");
    }
}

#[tokio::test]
async fn a_hand_off_that_came_too_late_is_refused_and_its_workspace_reaped_at_once() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut mac = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = mac.lease_in(Phase::Running).await;
    buyer.cancel(&job).await;
    site.clock.advance(Duration::from_secs(15)).await;
    site.becomes(&job, "cancelled: cancelled").await;
    let late = mac.ask(retain(&offer, KEPT)).await;
    assert_eq!(refused(&late), Code::CommitConflict);
    assert_eq!(told_to_reap(&mut mac).await, offer.attempt_id.to_string());
}
