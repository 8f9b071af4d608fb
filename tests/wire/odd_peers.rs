//! Peers that say odd things, or nothing at all: each gets its answer, and nothing is left behind.

use fencepost_domain::attempt::Phase;
use fencepost_domain::ids::{EventId, RequestId};
use fencepost_protocol::{AgentFrame, Code, GatewayFrame, HeldLease, close};
use fencepost_tests::Site;
use fencepost_tests::agent_frames::{artifact, event, progress};
use fencepost_tests::worker::{Worker, about, path, with_secret};
use reqwest::StatusCode;
use serde_json::json;

#[tokio::test]
async fn a_socket_that_never_says_hello_is_closed_however_often_it_beats() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let mut session = site.device(&gateway, "mac").await.dial(&gateway).await;
    // The client beats all the time, so it is not silent.
    assert_eq!(session.close_code().await, Some(close::SILENT));
}

#[tokio::test]
async fn a_nul_in_an_identifier_is_the_agents_mistake_and_is_not_asked_for_again() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = session.lease_in(Phase::Running).await;
    let mut odd_event = event(&offer, EventId::new(), 0);
    if let AgentFrame::Event { kind, .. } = &mut odd_event {
        *kind = "nul\0".to_owned();
    }
    let odd_artifact = artifact(&offer, "nul\0", "outputs/nul\0", b"bytes");
    for frame in [odd_event, odd_artifact] {
        let answer = session.ask(frame).await;
        let GatewayFrame::Rejected { code, .. } = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(code, Code::InvalidRequest);
    }
    let gone = AgentFrame::Reaped {
        handle: "nul\0".to_owned(),
    };
    let answer = session.ask(gone).await;
    assert!(matches!(answer, GatewayFrame::Done { .. }), "{answer:?}");
    // What is only text is kept, without the odd character.
    let mut said = progress(&offer, Phase::Running);
    if let AgentFrame::Progress { detail, .. } = &mut said {
        *detail = Some("half\0 way".to_owned());
    }
    let answer = session.ask(said).await;
    assert!(
        matches!(answer, GatewayFrame::ProgressOk { .. }),
        "{answer:?}"
    );
    assert_eq!(site.statuses(&job).await, "active: running");
}

#[tokio::test]
async fn text_of_tools_over_http_costs_a_character_and_not_the_message() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mac = Worker::new(&gateway, &site.device(&gateway, "mac").await);
    let lease = mac.claim().await;
    let body = json!({ "failure_code": "runner_failed", "message": "MARK" });
    let fail = about(&lease, RequestId::new(), with_secret(&lease, body)).to_string();
    let odd = fail.replace("MARK", r"stderr: \u0000 \ud800 end");
    let request = mac.request(&path(&lease, "fail"), &json!({})).body(odd);
    let status = request.send().await.unwrap().status();
    assert_eq!(status, StatusCode::OK);
    let message = buyer.job(&job).await["failure"]["message"].clone();
    let message = message.as_str().unwrap();
    assert!(
        message.starts_with("stderr: ") && message.ends_with(" end"),
        "{message}"
    );
}

#[tokio::test]
async fn a_frame_with_one_wrong_field_is_answered_about_its_attempt() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    site.buyer(&gateway).submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = session.lease_in(Phase::Running).await;
    let request = RequestId::new();
    let wrong = json!({
        "type": "progress", "request_id": request, "phase": "finished",
        "job_id": offer.job_id, "attempt_id": offer.attempt_id, "lease_epoch": offer.lease_epoch,
    });
    session.say_text(wrong.to_string()).await;
    let answer = session.answer(request).await;
    assert_eq!(answer.lease, Some(offer.lease()));
    let GatewayFrame::Rejected { code, message, .. } = answer.frame else {
        panic!("{:?}", answer.frame);
    };
    assert_eq!(code, Code::InvalidRequest);
    assert!(message.unwrap().contains("finished"));
}

#[tokio::test]
async fn one_right_listing_of_a_lease_resumes_it_in_whatever_company_and_order() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    site.buyer(&gateway).submit_noop().await;
    let device = site.device(&gateway, "mac").await;
    let mut session = device.connect(&gateway).await;
    let mut offer = session.lease_in(Phase::Running).await;
    for right_first in [true, false] {
        let mut wrong = offer.clone();
        wrong.lease_epoch += 99;
        let listed = if right_first {
            [&offer, &wrong, &offer]
        } else {
            [&wrong, &offer, &wrong]
        };
        let mut session = device.dial(&gateway).await;
        let AgentFrame::Hello(mut hello) = session.hello_frame(&[]) else {
            unreachable!()
        };
        hello.held = listed
            .iter()
            .map(|offer| HeldLease {
                lease: offer.lease(),
                commit_token: offer.commit_token.clone(),
            })
            .collect();
        let answer = session.ask(AgentFrame::Hello(hello)).await;
        let GatewayFrame::Welcome {
            resumed: leases,
            lost,
            ..
        } = &answer
        else {
            panic!("{answer:?}");
        };
        assert_eq!(
            (leases.len(), lost.len()),
            (1, 0),
            "right first: {right_first}"
        );
        let mut next = offer.clone();
        (next.lease_epoch, next.commit_token) =
            (leases[0].lease_epoch, leases[0].commit_token.clone());
        let said = session.ask(progress(&next, Phase::Running)).await;
        assert!(matches!(said, GatewayFrame::ProgressOk { .. }), "{said:?}");
        offer = next;
    }
    // A listing that is wrong alone is lost, however often it stands there.
    let mut wrong = offer.clone();
    wrong.lease_epoch += 99;
    let welcome = device.dial(&gateway).await.hello(&[&wrong, &wrong]).await;
    assert_eq!((welcome.resumed.len(), welcome.lost.len()), (0, 1));
}
