//! Names that others rely on: labels in Postgres and on the wire, keys of objects, words of lanes.

use std::collections::BTreeSet;

use fencepost_domain::artifact_key;
use fencepost_domain::attempt::{AttemptStatus, Phase};
use fencepost_domain::commit_token::{CommitToken, CommitTokenDigest, TOKEN_BYTES};
use fencepost_domain::failure::FailureCode;
use fencepost_domain::field::FieldError;
use fencepost_domain::ids::{AttemptId, JobId, OrgId, SessionNumber, UploadId};
use fencepost_domain::job::JobStatus;
use fencepost_domain::matcher::{label_word, lane, own_device_word};
use fencepost_domain::service::{Capability, ServiceName, ServiceParams};
use serde_json::json;

#[test]
fn no_two_objects_have_the_same_name() {
    let (job, attempt, upload) = (JobId::new(), AttemptId::new(), UploadId::new());
    let keys = [
        artifact_key::upload(upload),
        artifact_key::upload(UploadId::new()),
        artifact_key::attempt_output(job, attempt, "mp4"),
        artifact_key::attempt_output(job, attempt, "mov"),
        artifact_key::attempt_output(job, AttemptId::new(), "mp4"),
        artifact_key::verified_copy(job, attempt, 1),
        artifact_key::verified_copy(job, attempt, 2),
        artifact_key::verified_copy(job, AttemptId::new(), 1),
        artifact_key::attempt_artifact(job, attempt, 1, "a.log"),
        artifact_key::attempt_artifact(job, attempt, 2, "a.log"),
        artifact_key::attempt_artifact(job, attempt, 1, "b.log"),
        artifact_key::attempt_artifact(job, AttemptId::new(), 1, "a.log"),
    ];
    assert_eq!(BTreeSet::from(keys.clone()).len(), keys.len(), "{keys:?}");
    assert!(keys[0].contains(&upload.to_string()));
    let incoming = artifact_key::incoming_upload(upload);
    assert_eq!(incoming, format!("incoming/{upload}"));
    for (at, key) in keys.iter().enumerate() {
        assert_eq!(artifact_key::is_artifact(key), at >= 8, "{key}");
    }
    for key in [&keys[2], &keys[5], &keys[8]] {
        assert!(key.contains(&job.to_string()) && key.contains(&attempt.to_string()));
    }
}

#[test]
fn labels_of_attempts_are_those_of_json_and_are_read_back() {
    for status in AttemptStatus::ALL {
        assert_eq!(json!(status), json!(status.as_str()));
        assert_eq!(AttemptStatus::parse(status.as_str()), Some(status));
    }
    assert_eq!(AttemptStatus::parse("Leased"), None);
}

#[test]
fn labels_of_jobs_are_those_of_json() {
    for status in JobStatus::ALL {
        assert_eq!(json!(status), json!(status.as_str()));
    }
    assert_eq!(JobStatus::parse("done"), None);
}

#[test]
fn exactly_three_statuses_end_a_job() {
    let terminal: Vec<_> = JobStatus::ALL
        .into_iter()
        .filter(|status| status.is_terminal())
        .map(JobStatus::as_str)
        .collect();
    assert_eq!(terminal, ["succeeded", "failed", "cancelled"]);
}

#[test]
fn a_phase_is_the_status_of_its_name() {
    for phase in [
        Phase::Leased,
        Phase::Downloading,
        Phase::Running,
        Phase::Uploading,
    ] {
        assert_eq!(json!(phase), json!(AttemptStatus::from(phase)));
    }
}

#[test]
fn the_agent_holds_exactly_the_four_phases() {
    let held: Vec<_> = AttemptStatus::ALL
        .into_iter()
        .filter(|status| status.is_held_by_agent())
        .map(AttemptStatus::as_str)
        .collect();
    assert_eq!(held, ["leased", "downloading", "running", "uploading"]);
}

#[test]
fn failure_codes_survive_the_wire_and_strangers_do_not() {
    for code in FailureCode::ALL {
        assert_eq!(json!(code), json!(code.as_str()));
        let read: FailureCode = serde_json::from_value(json!(code)).unwrap();
        assert_eq!(read, *code);
        assert_eq!(FailureCode::parse(code.as_str()), Some(*code));
    }
    assert_eq!(FailureCode::parse("no_such_code"), None);
    let read: FailureCode = serde_json::from_value(json!("no_such_code")).unwrap();
    assert_eq!(read, FailureCode::InternalError);
}

#[test]
fn a_digest_is_32_bytes_and_equals_itself_alone() {
    let digest = |fill| CommitToken::from_entropy([fill; TOKEN_BYTES]).digest();
    let stored = CommitTokenDigest::from_bytes(digest(1).as_bytes()).unwrap();
    assert!(stored == digest(1) && stored != digest(2));
    assert!(CommitTokenDigest::from_bytes(&[0; 31]).is_none());
    assert!(CommitTokenDigest::from_bytes(&[0; 33]).is_none());
}

#[test]
fn a_token_is_its_bytes_in_base64url() {
    let token = CommitToken::from_entropy([0xff; TOKEN_BYTES]);
    assert_eq!(token.expose(), "_".repeat(32));
}

#[test]
fn a_lane_is_its_words_sorted_with_blanks_between() {
    let words = ["videotoolbox.h264", "encode.h264"].map(Capability::new);
    let words = BTreeSet::from(words);
    assert_eq!(lane(&words), "encode.h264 videotoolbox.h264");
}

#[test]
fn words_for_owners_and_labels_cannot_be_mistaken_for_capabilities() {
    let org = OrgId::new();
    assert_eq!(own_device_word(org).0, format!("own:{org}"));
    assert_eq!(label_word("studio").0, "label:studio");
}

#[test]
fn a_complaint_shows_its_whole_path() {
    let error = FieldError::new("height", "must be even").within("params");
    assert_eq!(error.field, "params.height");
    assert_eq!(error.to_string(), "params.height: must be even");
}

#[test]
fn a_session_number_is_shown_as_its_number() {
    assert_eq!(SessionNumber(42).to_string(), "42");
}

#[test]
fn services_are_found_by_their_public_names() {
    for service in ServiceName::ALL {
        assert_eq!(ServiceName::parse(service.as_str()), Some(service));
        assert_eq!(json!(service), json!(service.as_str()));
        assert!(service.summary().ends_with('.') && service.summary().contains(' '));
    }
    assert_eq!(ServiceName::parse("transcode"), None);
    assert_ne!(
        ServiceName::NoopV1.summary(),
        ServiceName::TranscodeV1.summary()
    );
}

#[test]
fn only_noop_is_for_tests_and_takes_no_input() {
    assert!(ServiceName::NoopV1.is_for_tests() && !ServiceName::TranscodeV1.is_for_tests());
    assert!(ServiceName::NoopV1.inputs().is_empty());
    assert_eq!(ServiceName::TranscodeV1.inputs_in_words(), "source");
}

#[test]
fn the_schema_names_the_parameters() {
    let schema = json!(ServiceName::TranscodeV1.params_schema());
    assert!(schema["properties"]["codec"].is_object(), "{schema}");
    let schema = json!(ServiceName::NoopV1.params_schema());
    assert_eq!(schema["additionalProperties"], json!(false));
}

#[test]
fn parameters_decide_what_a_device_must_have_and_how_the_output_is_called() {
    let noop = ServiceParams::parse(ServiceName::NoopV1, &json!({})).unwrap();
    let needs = BTreeSet::from([Capability::new("noop.v1")]);
    assert_eq!(noop.requirements(), needs);
    assert_eq!(noop.output_extension(), "bin");
    for (codec, extension) in [
        ("h264", "mp4"),
        ("hevc", "mp4"),
        ("vp9", "webm"),
        ("prores", "mov"),
    ] {
        let params = json!({"codec": codec, "hardware": "never"});
        let params = ServiceParams::parse(ServiceName::TranscodeV1, &params).unwrap();
        let words = ["transcode.v1".to_owned(), format!("encode.{codec}")];
        assert_eq!(
            params.requirements(),
            BTreeSet::from(words.map(Capability::new))
        );
        assert_eq!(params.output_extension(), extension);
    }
}

#[test]
fn a_capability_is_one_short_word_that_can_be_read() {
    for good in ["transcode.v1", "label:studio", &"a".repeat(100)] {
        assert!(Capability::new(good).is_readable(), "{good}");
    }
    for bad in ["", "two words", "tab\t", "über", &"a".repeat(101)] {
        assert!(!Capability::new(bad).is_readable(), "{bad}");
    }
}
