use fencepost_domain::attempt::Phase;
use fencepost_domain::commit_token::{CommitToken, TOKEN_BYTES};
use fencepost_domain::ids::{AttemptId, InstanceId, JobId, RequestId};
use fencepost_protocol::{AgentEnvelope, AgentFrame, Hello, LeaseRef};

use super::*;

fn record(epoch: i64) -> Box<LeaseRecord> {
    Box::new(LeaseRecord {
        job_id: JobId::new(),
        attempt_id: AttemptId::new(),
        lease_epoch: epoch,
        commit_token: CommitToken::from_entropy([1; TOKEN_BYTES]),
        object_key: "key".to_owned(),
        phase: Phase::Running,
        events: Vec::new(),
        pending: None,
    })
}

fn said(frame: AgentFrame) -> AgentEnvelope {
    let request_id = RequestId::new();
    AgentEnvelope { request_id, frame }
}

fn progress(lease: LeaseRef) -> AgentEnvelope {
    said(AgentFrame::Progress {
        lease,
        phase: Phase::Running,
        percent: None,
        detail: None,
    })
}

fn accept(lease: LeaseRef) -> AgentEnvelope {
    said(AgentFrame::OfferAccept { lease })
}

fn hello() -> AgentEnvelope {
    said(AgentFrame::Hello(Hello {
        protocol: 1,
        agent_version: String::new(),
        instance_id: InstanceId::new(),
        slots: 1,
        capabilities: Vec::new(),
        held: Vec::new(),
    }))
}

fn writing() -> (tempfile::TempDir, Writing) {
    let temp = tempfile::tempdir().unwrap();
    let writing = Writing::start(
        Outbox::new(temp.path().to_owned()),
        KeptRuns::new(temp.path().to_owned()),
    )
    .unwrap();
    (temp, writing)
}

/// The writer answers only when asked, so until then the record counts as being on its way.
#[tokio::test]
async fn accepts_and_hellos_wait_for_the_record_and_come_out_in_order() {
    let (temp, mut writing) = writing();
    let record = record(1);
    let lease = record.lease();
    writing.put(record);
    assert!(writing.sayable(accept(lease)).is_none());
    assert!(writing.sayable(hello()).is_none());
    assert!(writing.sayable(said(AgentFrame::Heartbeat)).is_some());
    let written = writing.next().await;
    assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 1);
    let now = writing.on_written(&written);
    assert!(matches!(now[0].frame, AgentFrame::OfferAccept { .. }));
    assert!(matches!(now[1].frame, AgentFrame::Hello(_)) && now.len() == 2);
    assert!(writing.sayable(accept(lease)).is_some());
}

#[tokio::test]
async fn renewals_wait_for_no_disk_except_under_an_epoch_that_it_does_not_know() {
    let (_temp, mut writing) = writing();
    let mut record = record(1);
    let old = record.lease();
    writing.put(record.clone());
    assert!(writing.sayable(progress(old)).is_none());
    let written = writing.next().await;
    assert_eq!(writing.on_written(&written).len(), 1);
    // Another record under the same epoch, such as a pending commit.
    writing.put(record.clone());
    assert!(writing.sayable(progress(old)).is_some());
    let written = writing.next().await;
    assert!(writing.on_written(&written).is_empty());
    record.lease_epoch = 2;
    let rotated = record.lease();
    writing.put(record);
    assert!(writing.sayable(progress(rotated)).is_none());
    let written = writing.next().await;
    assert_eq!(writing.on_written(&written).len(), 1);
}

#[tokio::test]
async fn what_was_kept_back_about_a_lost_attempt_is_never_said() {
    let (temp, mut writing) = writing();
    let record = record(1);
    let lease = record.lease();
    writing.put(record);
    assert!(writing.sayable(accept(lease)).is_none());
    writing.remove(lease.attempt_id);
    let written = writing.next().await;
    assert!(writing.on_written(&written).is_empty());
    writing.close().await;
    assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_disk_that_refuses_ends_the_waiting_and_says_why() {
    let (temp, mut writing) = writing();
    let folder = temp.path().to_owned();
    drop(temp);
    let record = record(1);
    let lease = record.lease();
    writing.put(record);
    let written = writing.next().await;
    let trouble = written.trouble.as_ref().expect("the folder is gone");
    assert!(trouble.contains(&*folder.to_string_lossy()), "{trouble}");
    assert!(writing.on_written(&written).is_empty());
    assert!(writing.sayable(accept(lease)).is_some());
}
