//! Lists that found something once.

use crate::cases::replay;
use crate::ops::{At, Cut, List, Op, Socket, Step, Which};

fn finds_nothing(list: &[Step]) {
    assert_eq!(replay(list), Ok(()));
}

fn submit() -> Step {
    Step::one(Op::Submit {
        key: None,
        means: false,
        budget: 2,
        is_short: false,
    })
}

fn lease() -> Step {
    Step::one(Op::Lease {
        device: 0,
        slots: 1,
        socket: Socket::Latest,
    })
}

fn newest() -> At {
    At {
        pick: 0,
        which: Which::Current,
        stranger: false,
    }
}

#[test]
fn an_offer_that_an_operator_took_back_goes_to_the_same_device_again() {
    finds_nothing(&[submit(), lease(), Step::one(Op::Revoke(newest())), lease()]);
}

#[test]
fn a_socket_that_closes_was_the_current_one_also_when_nobody_answered_that_it_closed() {
    finds_nothing(&[Step::One {
        op: Op::Close {
            device: 0,
            socket: Socket::Latest,
        },
        gateway: 0,
        cut: Some(Cut::After),
    }]);
}

#[test]
fn a_device_that_is_paired_twice_before_it_says_hello_keeps_what_it_holds() {
    let pair_again = Step::one(Op::Repair {
        device: 0,
        changes_owner: false,
    });
    let accept = Step::one(Op::Accept(newest()));
    let hello = Step::one(Op::Hello {
        device: 0,
        list: List::All,
        which: Which::Replaced,
        socket: Socket::New,
        is_other_process: false,
    });
    finds_nothing(&[
        submit(),
        lease(),
        accept,
        pair_again.clone(),
        pair_again,
        hello,
    ]);
}

#[test]
fn a_commit_of_what_was_failed_while_it_was_being_cancelled_learns_the_buyers_word() {
    let running = Op::Progress {
        at: newest(),
        phase: 2,
        percent: None,
    };
    let fail = Op::Fail {
        at: newest(),
        code: 0,
    };
    let commit = Op::Commit {
        at: newest(),
        content: 0,
    };
    finds_nothing(&[
        submit(),
        lease(),
        Step::one(running),
        Step::one(Op::Cancel(0)),
        Step::one(fail),
        Step::one(commit),
    ]);
}

#[test]
fn nothing_is_granted_for_a_job_that_is_being_cancelled() {
    finds_nothing(&[
        submit(),
        lease(),
        Step::one(Op::Accept(newest())),
        Step::one(Op::Cancel(0)),
        Step::one(Op::Grant(newest())),
    ]);
}

#[test]
fn what_a_device_did_before_it_was_enabled_is_not_held_against_it() {
    let fail = Op::Fail {
        at: newest(),
        code: 0,
    };
    let failed = || [submit(), lease(), Step::one(fail.clone())];
    let mut list: Vec<Step> = (0..3).flat_map(|_| failed()).collect();
    list.extend([submit(), lease(), Step::one(Op::Enable(0)), lease()]);
    finds_nothing(&list);
}
