//! What is checked between a commit and its answer, and what the answer then is.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_protocol::{Code, GatewayFrame};
use fencepost_tests::agent_frames::{assert_won, commit, declared, fail, progress, release};
use fencepost_tests::buyer::clip;
use fencepost_tests::gateway::{CREDIT, HELD, TTL};
use fencepost_tests::stand_ins::HeldFfmpeg;
use fencepost_tests::wait::until;
use fencepost_tests::{Site, TestGateway};
use reqwest::StatusCode;

use crate::refused;

fn rejected(frame: &GatewayFrame) -> Code {
    match frame {
        GatewayFrame::CommitRejected { code, .. } => *code,
        other => panic!("not rejected: {other:?}"),
    }
}

/// A gateway that checks nothing until its FFmpeg is let go.
async fn held_back(site: &Site) -> (HeldFfmpeg, TestGateway) {
    let ffmpeg = HeldFfmpeg::in_folder(site.folder.path()).await;
    let settings = [("verifier.ffmpeg", ffmpeg.path())];
    let gateway = site.gateway_with(&settings).await;
    (ffmpeg, gateway)
}

#[tokio::test]
async fn an_output_that_is_no_film_fails_the_job_for_good_and_costs_nothing() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let half = clip().await[..clip().await.len() / 2].to_vec();
    for bytes in [b"this is no film".to_vec(), half, Vec::new()] {
        let job = buyer.submit_transcode().await;
        let (offer, output) = session.lease_and_upload(&gateway, &bytes).await;
        let answer = session.ask(commit(&offer, &output)).await;
        assert_eq!(rejected(&answer), Code::VerificationFailed);
        assert_eq!(site.statuses(&job).await, "failed: failed");
        let seen = buyer.job(&job).await;
        assert_eq!(seen["failure"]["code"], "verification_failed");
        assert_eq!(seen["money"]["released_micros"], HELD);
    }
    assert_eq!(buyer.balance().await, (CREDIT, 0));
}

#[tokio::test]
async fn other_bytes_than_declared_are_an_upload_that_failed_and_is_tried_again() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    for (stored, said) in [
        (Some("bytes"), "other"),
        (Some("bytes"), "more bytes"),
        (None, "bytes"),
    ] {
        let job = buyer.submit_noop().await;
        let offer = session.lease_in(Phase::Uploading).await;
        if let Some(stored) = stored {
            gateway.put(&offer.output.url, stored.as_bytes()).await;
        }
        let output = declared(&offer, said.as_bytes());
        let answer = session.ask(commit(&offer, &output)).await;
        assert_eq!(rejected(&answer), Code::UploadFailed);
        assert_eq!(site.statuses(&job).await, "queued: failed");
        assert_eq!(buyer.cancel(&job).await, ("cancelled".to_owned(), true));
    }
}

#[tokio::test]
async fn an_output_that_cannot_be_read_for_a_while_is_read_later() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let job = site.buyer(&gateway).submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let (offer, output) = session.lease_and_upload(&gateway, b"bytes").await;
    let object = site.object(&offer.output.object_key);
    // Root reads everything but a folder.
    std::fs::remove_file(&object).unwrap();
    std::fs::create_dir(&object).unwrap();
    let request = session.say(commit(&offer, &output)).await;
    until("a check that went wrong", || async {
        gateway.process.log().contains("checked again later")
    })
    .await;
    assert_eq!(site.statuses(&job).await, "verifying: committing");
    std::fs::remove_dir(&object).unwrap();
    std::fs::write(&object, "bytes").unwrap();
    site.clock.advance(TTL).await;
    let answer = session.answer(request).await.frame;
    assert_won(&answer);
    assert_eq!(site.statuses(&job).await, "succeeded: succeeded");
}

#[tokio::test]
async fn an_output_that_can_never_be_read_is_our_error_and_the_job_is_tried_again() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let (offer, output) = session.lease_and_upload(&gateway, b"bytes").await;
    let object = site.object(&offer.output.object_key);
    std::fs::remove_file(&object).unwrap();
    std::fs::create_dir(&object).unwrap();
    let request = session.say(commit(&offer, &output)).await;
    until("the last try", || async {
        site.clock.advance(Duration::from_secs(4)).await;
        site.statuses(&job).await == "queued: failed"
    })
    .await;
    let answer = session.answer(request).await.frame;
    assert_eq!(rejected(&answer), Code::InternalError);
    let tries = gateway
        .process
        .log()
        .matches("an output was not checked")
        .count();
    assert_eq!(tries, 5);
    let attempts = buyer.attempts(&job).await;
    assert_eq!(attempts[0]["failure"]["code"], "internal_error");
    assert_eq!(attempts[0]["charged"], true);
}

#[tokio::test]
async fn a_verification_longer_than_the_lease_still_wins_and_nobody_else_is_asked() {
    let site = Site::new().await;
    let (ffmpeg, gateway) = held_back(&site).await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_transcode().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let mut other = site.device(&gateway, "other").await.connect(&gateway).await;
    let (offer, output) = session.lease_and_upload(&gateway, clip().await).await;
    let request = session.say(commit(&offer, &output)).await;
    buyer.until(&job, "verifying").await;
    site.clock.advance(TTL * 3).await;

    // While it is checked, it belongs to the control plane.
    let answer = session.ask(progress(&offer, Phase::Uploading)).await;
    assert!(
        matches!(answer, GatewayFrame::ProgressOk { .. }),
        "{answer:?}"
    );
    for ending in [fail(&offer, "upload_failed"), release(&offer)] {
        assert_eq!(refused(&session.ask(ending).await), Code::CommitConflict);
    }
    let answer = session.ask(commit(&offer, &output)).await;
    assert!(
        matches!(
            answer,
            GatewayFrame::Rejected {
                code: Code::Verifying,
                ..
            }
        ),
        "{answer:?}"
    );
    let overwritten = gateway.put(&offer.output.url, b"other bytes").await;
    assert_eq!(overwritten.status(), StatusCode::CONFLICT);
    other.finds_no_work().await;

    ffmpeg.let_go();
    let answer = session.answer(request).await.frame;
    assert_won(&answer);
    assert_eq!(site.statuses(&job).await, "succeeded: succeeded");
    assert_eq!(buyer.download(&job).await, clip().await);
}

#[tokio::test]
async fn a_cancel_during_the_check_beats_a_good_output() {
    let site = Site::new().await;
    let (ffmpeg, gateway) = held_back(&site).await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_transcode().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let (offer, output) = session.lease_and_upload(&gateway, clip().await).await;
    let request = session.say(commit(&offer, &output)).await;
    buyer.until(&job, "verifying").await;
    assert_eq!(buyer.cancel(&job).await, ("cancelling".to_owned(), true));
    ffmpeg.let_go();
    let answer = session.answer(request).await.frame;
    assert_eq!(rejected(&answer), Code::BuyerCancelled);
    assert_eq!(site.statuses(&job).await, "cancelled: cancelled");
    assert_eq!(buyer.balance().await, (CREDIT, 0));
}

#[tokio::test]
async fn a_socket_that_is_cut_right_after_the_commit_costs_nothing() {
    let site = Site::new().await;
    let (ffmpeg, gateway) = held_back(&site).await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_transcode().await;
    let device = site.device(&gateway, "mac").await;
    let mut session = device.connect(&gateway).await;
    let (offer, output) = session.lease_and_upload(&gateway, clip().await).await;
    session.say(commit(&offer, &output)).await;
    buyer.until(&job, "verifying").await;
    session.cut().await;

    let mut session = device.dial(&gateway).await;
    let welcome = session.hello(&[&offer]).await;
    let recorded = (offer.attempt_id.to_string(), "committing".to_owned());
    assert_eq!(welcome.recorded, [recorded]);
    assert!(
        welcome.resumed.is_empty() && welcome.lost.is_empty(),
        "{welcome:?}"
    );
    ffmpeg.let_go();
    buyer.until(&job, "succeeded").await;
    let answer = session.ask(commit(&offer, &output)).await;
    assert!(
        matches!(answer, GatewayFrame::CommitOk { replayed: true }),
        "{answer:?}"
    );
    session.cut().await;

    let mut session = device.dial(&gateway).await;
    let welcome = session.hello(&[&offer]).await;
    let recorded = (offer.attempt_id.to_string(), "succeeded".to_owned());
    assert_eq!(welcome.recorded, [recorded]);
    assert_eq!(site.statuses(&job).await, "succeeded: succeeded");
}

#[tokio::test]
async fn a_lease_that_is_taken_back_while_its_output_is_checked_is_answered_as_it_is_stored() {
    let site = Site::new().await;
    let (_ffmpeg, gateway) = held_back(&site).await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_transcode().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let (offer, output) = session.lease_and_upload(&gateway, clip().await).await;
    session.say(commit(&offer, &output)).await;
    buyer.until(&job, "verifying").await;
    let revoked = site.store.revoke_attempt(offer.attempt_id).await;
    revoked.expect("it runs").expect("there is such an attempt");
    // The same commit again, now and later.
    for _ in 0..2 {
        let answer = session.ask(commit(&offer, &output)).await;
        assert_eq!(rejected(&answer), Code::ProviderOffline);
    }
    let attempts = buyer.attempts(&job).await;
    assert_eq!(attempts[0]["failure"]["code"], "provider_offline");
}
