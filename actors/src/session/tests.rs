use super::*;
use fencepost_domain::commit_token::{CommitToken, TOKEN_BYTES};
use fencepost_domain::ids::JobId;
use fencepost_protocol::OutputDeclaration;
use fencepost_store::views::HeldAttempt;

fn envelope(frame: AgentFrame) -> AgentEnvelope {
    AgentEnvelope {
        request_id: RequestId::new(),
        frame,
    }
}

fn open_core() -> SessionCore {
    let mut core = SessionCore::new(DeviceId::new(), SessionNumber(3));
    core.welcomed();
    core
}

fn lease() -> LeaseRef {
    LeaseRef {
        job_id: JobId::new(),
        attempt_id: AttemptId::new(),
        lease_epoch: 1,
    }
}

fn commit(lease: LeaseRef, sha256: &str) -> AgentEnvelope {
    envelope(AgentFrame::Commit {
        lease,
        commit_token: CommitToken::from_entropy([1; TOKEN_BYTES]),
        output: OutputDeclaration {
            sha256: sha256.to_owned(),
            size_bytes: 1,
            object_key: "k".to_owned(),
        },
    })
}

fn view(core: &SessionCore, live: Vec<HeldAttempt>) -> SessionView {
    SessionView {
        device: core.device,
        session: core.session,
        current: true,
        valid: true,
        live,
    }
}

fn codes(effects: &[Effect]) -> Vec<Code> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Send(envelope) => match envelope.frame {
                GatewayFrame::Rejected { code, .. } => Some(code),
                _ => None,
            },
            _ => None,
        })
        .collect()
}

#[test]
fn nothing_is_done_before_hello() {
    let mut core = SessionCore::new(DeviceId::new(), SessionNumber(1));
    let effects = core.on_frame(envelope(AgentFrame::Pull { slots_free: 1 }));
    assert_eq!(codes(&effects), [Code::InvalidRequest]);
    let effects = core.on_frame(envelope(AgentFrame::Stopped { lease: lease() }));
    assert_eq!(codes(&effects), [Code::InvalidRequest]);
}

#[test]
fn a_digest_that_is_none_is_the_senders_to_fix_and_reaches_no_store() {
    let mut core = open_core();
    for sha256 in ["", "00", &"0".repeat(63), &"G".repeat(64), &"AB".repeat(32)] {
        let effects = core.on_frame(commit(lease(), sha256));
        assert_eq!(
            codes(&effects),
            [Code::InvalidRequest],
            "{sha256} was taken"
        );
    }
    let effects = core.on_frame(commit(lease(), &"ab".repeat(32)));
    assert!(matches!(effects[..], [Effect::Run(_)]));
}

#[test]
fn every_folded_progress_is_answered() {
    let mut core = open_core();
    let lease = lease();
    let progress = |percent| {
        envelope(AgentFrame::Progress {
            lease,
            phase: fencepost_domain::attempt::Phase::Running,
            percent: Some(percent),
            detail: None,
        })
    };
    let first = core.on_frame(progress(1.0));
    let [Effect::Run(first)] = &first[..] else {
        panic!("not run")
    };
    assert!(core.on_frame(progress(2.0)).is_empty());
    assert!(core.on_frame(progress(3.0)).is_empty());
    let answer = rejected(Code::LeaseConflict, None);
    let effects = core.on_answered(first, &answer);
    let [Effect::Send(_), Effect::Run(folded)] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(core.on_answered(folded, &answer).len(), 2);
}

#[test]
fn a_stop_is_pushed_once_and_again_by_no_refresh() {
    let mut core = open_core();
    let held = HeldAttempt {
        claimed: false,
        job: JobId::new(),
        attempt: AttemptId::new(),
        epoch: 1,
        accepted: true,
        stop_reason: Some("buyer_cancelled".to_owned()),
    };
    let view = view(&core, vec![held]);
    let effects = core.on_refresh(&view);
    let pushed = |effects: &[Effect]| {
        effects
            .iter()
            .filter(|effect| matches!(effect, Effect::Send(_)))
            .count()
    };
    assert_eq!(pushed(&effects), 1);
    assert_eq!(pushed(&core.on_refresh(&view)), 0);
}

#[test]
fn a_slot_that_the_rows_do_not_show_is_kept_until_its_end_is_proven() {
    let mut core = open_core();
    let attempt = AttemptId::new();
    let claim = LeaseClaim {
        device: core.device,
        job: JobId::new(),
        attempt,
        epoch: 1,
    };
    core.on_offer(claim);
    let view = view(&core, Vec::new());
    for _ in 0..2 {
        let effects = core.on_refresh(&view);
        let [Effect::ProveEnded(asked)] = &effects[..] else {
            panic!("{effects:?}")
        };
        assert_eq!(asked[..], [attempt]);
    }
    assert_eq!(core.unaccepted(), [claim]);
}

#[test]
fn a_session_that_is_not_current_or_not_valid_is_closed_with_its_code() {
    let mut core = open_core();
    let superseded = SessionView {
        current: false,
        ..view(&core, Vec::new())
    };
    let effects = core.on_refresh(&superseded);
    assert!(matches!(effects[..], [Effect::Close(close::SUPERSEDED, _)]));
    let disabled = SessionView {
        valid: false,
        ..view(&core, Vec::new())
    };
    let effects = core.on_refresh(&disabled);
    assert!(matches!(
        effects[..],
        [Effect::Send(_), Effect::Close(close::REVOKED, _)]
    ));
}

#[test]
fn a_draining_session_pulls_nothing() {
    let mut core = open_core();
    let drain = envelope(AgentFrame::Drain {
        mode: "finish".to_owned(),
    });
    let effects = core.on_frame(drain);
    assert!(matches!(effects[..], [Effect::Pull(0), Effect::Send(_)]));
    let effects = core.on_frame(envelope(AgentFrame::Pull { slots_free: 1 }));
    assert!(matches!(effects[..], [Effect::Send(_)]));
}

#[test]
fn an_old_agent_is_told_to_upgrade() {
    let mut core = SessionCore::new(DeviceId::new(), SessionNumber(1));
    let hello = Hello {
        protocol: 0,
        agent_version: "0".to_owned(),
        instance_id: fencepost_domain::ids::InstanceId::new(),
        slots: 1,
        capabilities: Vec::new(),
        held: Vec::new(),
    };
    let effects = core.on_frame(envelope(AgentFrame::Hello(hello)));
    assert!(matches!(
        effects[..],
        [Effect::Send(_), Effect::Close(close::UPGRADE, _)]
    ));
}
