//! Messages that are too long, no frames at all, or not read by their receiver.

use fencepost_domain::attempt::Phase;
use fencepost_protocol::{Code, GatewayFrame, MAX_MESSAGE_BYTES, close};
use fencepost_tests::Site;
use fencepost_tests::agent_client::Session;
use fencepost_tests::agent_frames::{assert_won, commit, resumed};
use fencepost_tests::wait::until;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

/// A heartbeat of so many bytes.
fn padded(bytes: usize) -> String {
    let frame = json!({
        "type": "heartbeat", "request_id": "019adf00-0000-7000-8000-000000000001", "padding": "",
    });
    let bare = frame.to_string();
    bare.replace(
        r#""padding":"""#,
        &format!(r#""padding":"{}""#, "x".repeat(bytes - bare.len())),
    )
}

async fn in_fragments(session: &Session, text: &str, size: usize) {
    let parts: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
    for (index, part) in parts.iter().enumerate() {
        let kind = if index == 0 {
            Data::Text
        } else {
            Data::Continue
        };
        let is_last = index + 1 == parts.len();
        let frame = Frame::message(part.to_vec(), OpCode::Data(kind), is_last);
        session.say_message(Message::Frame(frame)).await;
    }
}

#[tokio::test]
async fn a_message_at_the_limit_is_taken_whole_and_in_fragments() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    session.say_text(padded(MAX_MESSAGE_BYTES)).await;
    in_fragments(&session, &padded(MAX_MESSAGE_BYTES), 10_000).await;
    session.finds_no_work().await;
}

#[tokio::test]
async fn a_message_over_the_limit_closes_with_1009_and_the_lease_lives_on() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let job = site.buyer(&gateway).submit_noop().await;
    let device = site.device(&gateway, "mac").await;
    let mut session = device.connect(&gateway).await;
    let (mut offer, output) = session.lease_and_upload(&gateway, b"bytes").await;
    let too_long = padded(MAX_MESSAGE_BYTES + 1024);
    for fragment in [None, Some(30_000), Some(300_000)] {
        match fragment {
            None => session.say_text(too_long.clone()).await,
            Some(size) => in_fragments(&session, &too_long, size).await,
        }
        assert_eq!(
            session.close_code().await,
            Some(close::TOO_LARGE),
            "{fragment:?}"
        );
        session = device.dial(&gateway).await;
        let welcome = session.hello(&[&offer]).await;
        offer = resumed(&offer, &welcome);
    }
    let answer = session.ask(commit(&offer, &output)).await;
    assert_won(&answer);
    assert_eq!(site.statuses(&job).await, "succeeded: succeeded");
}

#[tokio::test]
async fn a_message_that_is_no_frame_is_answered_and_the_session_goes_on() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let id = "019adf00-0000-7000-8000-000000000001";
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    for text in [
        "",
        "x",
        "null",
        "[]",
        "{}",
        &deep,
        &format!(r#"{{"request_id":"{id}","type":"dance"}}"#),
        &format!(r#"{{"request_id":"{id}","type":"progress"}}"#),
        &format!(r#"{{"request_id":"{id}","type":"pull","slots_free":-1}}"#),
        &format!(r#"{{"request_id":"{id}","type":"pull","slots_free":1e400}}"#),
    ] {
        session.say_text(text.to_owned()).await;
        let heard = session.hear().await;
        assert!(
            matches!(
                heard.frame,
                GatewayFrame::Rejected {
                    code: Code::InvalidRequest,
                    ..
                }
            ),
            "{text:.80}: {heard:?}"
        );
        let names_it = text.contains(id) && !text.contains("1e400");
        assert!(heard.request_id.is_some() || !names_it, "{text}");
    }
    session
        .say_message(Message::binary(vec![0, 159, 146, 150]))
        .await;
    let heard = session.hear().await;
    assert!(
        matches!(heard.frame, GatewayFrame::Rejected { .. }),
        "{heard:?}"
    );
    session.finds_no_work().await;
}

#[tokio::test]
async fn a_peer_that_stops_reading_is_closed_and_keeps_what_it_holds() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let device = site.device(&gateway, "mac").await.with_slots(1);
    let mut session = device.connect(&gateway).await;
    let (offer, output) = session.lease_and_upload(&gateway, b"bytes").await;
    // Each of these is answered, and nobody reads the answers.
    let question = padded(20_000).replace("heartbeat", "dance");
    session.flood(&question).await;
    session.fall_silent();
    until("the session to be gone", || async {
        gateway.sessions().await == 0
    })
    .await;
    assert!(gateway.readiness().await.0);

    let mut session = device.dial(&gateway).await;
    let welcome = session.hello(&[&offer]).await;
    let offer = resumed(&offer, &welcome);
    let answer = session.ask(commit(&offer, &output)).await;
    assert_won(&answer);
    buyer.until(&job, "succeeded").await;
    let next = buyer.submit_noop().await;
    let offer = session.lease_in(Phase::Running).await;
    assert_eq!(offer.job_id.to_string(), next);
}
