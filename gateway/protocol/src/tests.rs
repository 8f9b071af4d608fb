use fencepost_domain::commit_token::{CommitToken, TOKEN_BYTES};
use fencepost_domain::ids::{AttemptId, JobId, RequestId};
use serde_json::json;

use crate::{
    AgentEnvelope, AgentFrame, Code, GatewayEnvelope, GatewayFrame, LeaseOffer, LeaseRef, Limits,
    OutputGrant,
};

#[test]
fn a_frame_about_an_attempt_is_flat_and_names_its_lease() {
    let token = CommitToken::from_entropy([0; TOKEN_BYTES]);
    let text = json!({
        "type": "commit",
        "request_id": RequestId::new(),
        "job_id": JobId::new(),
        "attempt_id": AttemptId::new(),
        "lease_epoch": 4,
        "commit_token": token.expose(),
        "output": {"sha256": "00", "size_bytes": 1, "object_key": "k"},
        "a_field_of_a_newer_agent": true,
    });
    let envelope: AgentEnvelope = serde_json::from_value(text).unwrap();
    assert_eq!(envelope.frame.lease().unwrap().lease_epoch, 4);
    assert!(matches!(envelope.frame, AgentFrame::Commit { .. }));
}

#[test]
fn an_answer_echoes_request_and_lease_and_is_read_back() {
    let lease = LeaseRef {
        job_id: JobId::new(),
        attempt_id: AttemptId::new(),
        lease_epoch: 2,
    };
    let sent = GatewayEnvelope {
        request_id: Some(RequestId::new()),
        lease: Some(lease),
        frame: GatewayFrame::CommitOk { replayed: true },
    };
    let text = serde_json::to_value(&sent).unwrap();
    assert_eq!(text["type"], "commit_ok");
    assert_eq!(text["lease_epoch"], 2);
    let read: GatewayEnvelope = serde_json::from_value(text).unwrap();
    assert_eq!((read.request_id, read.lease), (sent.request_id, sent.lease));
}

#[test]
fn an_answer_without_a_lease_is_read_back_too() {
    let sent = GatewayEnvelope {
        request_id: None,
        lease: None,
        frame: GatewayFrame::NoWork,
    };
    let read: GatewayEnvelope =
        serde_json::from_value(serde_json::to_value(&sent).unwrap()).unwrap();
    assert!(read.lease.is_none() && matches!(read.frame, GatewayFrame::NoWork));
}

#[test]
fn a_frame_and_a_code_of_a_newer_gateway_are_no_error() {
    let read: GatewayEnvelope =
        serde_json::from_value(json!({"type": "sing", "song": "x"})).unwrap();
    assert!(matches!(read.frame, GatewayFrame::Unknown));
    assert_eq!(
        serde_json::from_value::<Code>(json!("new_code")).unwrap(),
        Code::Unknown
    );
}

#[test]
fn every_code_is_written_as_its_word() {
    for code in [
        Code::LeaseConflict,
        Code::CommitConflict,
        Code::RunLeaseConflict,
        Code::RunEventConflict,
        Code::RunArtifactConflict,
        Code::Busy,
        Code::ClockRegressed,
    ] {
        assert_eq!(serde_json::to_value(code).unwrap(), json!(code.as_str()));
    }
}

#[test]
fn an_offer_is_read_back_whole() {
    let offer = LeaseOffer {
        job_id: JobId::new(),
        attempt_id: AttemptId::new(),
        attempt_number: 1,
        lease_epoch: 1,
        commit_token: CommitToken::from_entropy([9; TOKEN_BYTES]),
        lease_expires_at: time::OffsetDateTime::UNIX_EPOCH,
        lease_remaining_ms: 10_000,
        service: "transcode.v1".to_owned(),
        params: json!({"codec": "h264"}),
        inputs: Vec::new(),
        output: OutputGrant {
            parts_above: None,
            url: "/u".to_owned(),
            object_key: "k".to_owned(),
            max_bytes: 1,
        },
        limits: Limits {
            max_output_seconds: 600,
            max_run_seconds: 60,
        },
        traceparent: None,
    };
    let lease = offer.lease();
    let sent = GatewayEnvelope {
        request_id: None,
        lease: None,
        frame: GatewayFrame::LeaseOffer(Box::new(offer)),
    };
    let text = serde_json::to_string(&sent).unwrap();
    assert_eq!(text.matches("attempt_id").count(), 1);
    let read: GatewayEnvelope = serde_json::from_str(&text).unwrap();
    let GatewayFrame::LeaseOffer(read) = read.frame else {
        panic!("not an offer")
    };
    assert_eq!(read.lease(), lease);
}

#[test]
fn an_event_is_read_with_any_payload_or_none() {
    for payload in [json!({"a": {"b": [1.0, null]}}), json!("text"), json!(null)] {
        let mut text = json!({
            "type": "event",
            "request_id": RequestId::new(),
            "job_id": JobId::new(),
            "attempt_id": AttemptId::new(),
            "lease_epoch": 4,
            "commit_token": CommitToken::from_entropy([0; TOKEN_BYTES]).expose(),
            "event_id": fencepost_domain::ids::EventId::new(),
            "seq": 3,
            "kind": "encoder.exit",
            "payload": payload,
        });
        if payload.is_null() {
            text.as_object_mut().unwrap().remove("payload");
        }
        let envelope: AgentEnvelope = serde_json::from_value(text).unwrap();
        assert_eq!(envelope.frame.lease().unwrap().lease_epoch, 4);
        let AgentFrame::Event { payload: read, .. } = envelope.frame else {
            panic!("not an event")
        };
        assert_eq!(read, payload);
    }
}

#[test]
fn a_stranger_is_told_to_drop_it_and_a_holder_to_mend_it() {
    use crate::Disposition;
    assert_eq!(Code::RunLeaseConflict.disposition(), Disposition::Stop);
    assert_eq!(Code::RunEventConflict.disposition(), Disposition::Fix);
    assert_eq!(Code::RunArtifactConflict.disposition(), Disposition::Fix);
}

#[test]
fn a_hand_off_says_how_long_in_words_or_leaves_it_to_the_default() {
    let frame = |retain_for: serde_json::Value| {
        let mut text = json!({
            "type": "retain",
            "request_id": RequestId::new(),
            "job_id": JobId::new(),
            "attempt_id": AttemptId::new(),
            "lease_epoch": 4,
            "commit_token": CommitToken::from_entropy([0; TOKEN_BYTES]).expose(),
            "handle": "h",
        });
        if !retain_for.is_null() {
            text["retain_for"] = retain_for;
        }
        serde_json::from_value::<AgentEnvelope>(text).map(|envelope| match envelope.frame {
            AgentFrame::Retain { retain_for, .. } => retain_for.to_string(),
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(frame(json!("90s")).unwrap(), "90s");
    assert_eq!(frame(json!(null)).unwrap(), "15m");
    for wrong in [json!("25h"), json!("0s"), json!(900)] {
        assert!(frame(wrong).is_err());
    }
}
