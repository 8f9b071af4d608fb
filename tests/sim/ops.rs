//! What a list is made of. Everything is named by a choice among what is there when it happens, so
//! that every list makes sense, also one with parts left out.

use proptest::collection::vec;
use proptest::prelude::*;

/// Under which pair something is presented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// The current one.
    Current,
    /// The one that the last resume replaced.
    Replaced,
    /// The one that it was leased with.
    First,
    /// The current epoch with an old secret.
    Guessed,
    /// The current epoch with a secret that nobody was given.
    Foreign,
    /// An epoch that is yet to come.
    Future,
}

/// An attempt, a pair, and who comes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) pick: u8,
    pub(crate) which: Which,
    pub(crate) stranger: bool,
}

/// What a hello lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    All,
    /// One bit for each of the device's attempts, the newest first.
    Some(u8),
    None,
}

/// The socket that a device speaks on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Socket {
    New,
    Latest,
    Old,
}

/// One thing that somebody does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Op {
    Submit {
        key: Option<bool>,
        means: bool,
        budget: u8,
        is_short: bool,
    },
    Lease {
        device: u8,
        slots: u8,
        socket: Socket,
    },
    Accept(At),
    Progress {
        at: At,
        phase: u8,
        percent: Option<u8>,
    },
    Commit {
        at: At,
        content: u8,
    },
    Fail {
        at: At,
        code: u8,
    },
    Release(At),
    Stopped(At),
    TakeBack {
        at: At,
        delivered: bool,
    },
    Verify {
        ticket: u8,
        outcome: u8,
        keep: bool,
    },
    RenewVerification(u8),
    /// A gateway dies with all that it was verifying.
    GatewayDies,
    Cancel(u8),
    Hello {
        device: u8,
        list: List,
        which: Which,
        socket: Socket,
        is_other_process: bool,
    },
    Close {
        device: u8,
        socket: Socket,
    },
    Sweep,
    Tend,
    Advance(u8),
    GoBack(u8),
    Mark,
    AcceptClock,
    PullBack,
    Disable(u8),
    Enable(u8),
    Repair {
        device: u8,
        changes_owner: bool,
    },
    Revoke(At),
    Event {
        at: At,
        id: u8,
        content: u8,
    },
    Grant(At),
    /// Whoever acted last had no answer, and does the same again.
    Again,
}

/// What becomes of a COMMIT whose answer is lost; the store finds out by running it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    Before,
    After,
}

/// One step of a list. Every step goes to one of two gateways.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    One {
        op: Op,
        gateway: u8,
        cut: Option<Cut>,
    },
    /// Two at the same time.
    Both(Op, Op),
}

impl Step {
    pub(crate) fn one(op: Op) -> Self {
        Self::One {
            op,
            gateway: 0,
            cut: None,
        }
    }
}

/// Lists of an opening and up to `most` steps after it.
pub(crate) fn lists(most: usize) -> impl Strategy<Value = Vec<Step>> {
    (openings(), vec(steps(), 1..most)).prop_map(|(mut list, steps)| {
        list.extend(steps);
        list
    })
}

/// Where it becomes interesting: nothing yet, an offer, an upload, a verification, one that was taken
/// over, two leases.
fn openings() -> impl Strategy<Value = Vec<Step>> {
    let submit = |budget| Op::Submit {
        key: None,
        means: false,
        budget,
        is_short: budget == 1,
    };
    let lease = |device| Op::Lease {
        device,
        slots: 1,
        socket: Socket::Latest,
    };
    let at = At {
        pick: 0,
        which: Which::Current,
        stranger: false,
    };
    let upload = Op::Progress {
        at,
        phase: 2,
        percent: None,
    };
    let commit = Op::Commit { at, content: 0 };
    let minute_later = Op::Advance(9);
    let list = |ops: &[Op]| Just(ops.iter().cloned().map(Step::one).collect::<Vec<_>>());
    prop_oneof![
        1 => list(&[]),
        2 => list(&[submit(2), lease(0)]),
        3 => list(&[submit(3), lease(0), upload.clone()]),
        2 => list(&[submit(2), lease(0), upload.clone(), commit.clone()]),
        1 => list(&[submit(2), lease(0), upload.clone(), commit, minute_later, Op::Sweep]),
        1 => list(&[submit(1), lease(0), upload.clone()]),
        2 => list(&[submit(3), submit(2), lease(0), lease(1), upload]),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let cut = prop_oneof![
        60 => Just(None),
        1 => Just(Some(Cut::Before)),
        1 => Just(Some(Cut::After)),
    ];
    let one = (ops(), 0..2u8, cut).prop_map(|(op, gateway, cut)| Step::One { op, gateway, cut });
    let both = (ops(), ops()).prop_map(|(one, other)| Step::Both(one, other));
    prop_oneof![9 => one, 1 => both]
}

fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => work(),
        12 => frames(),
        7 => verifications(),
        6 => devices(),
        9 => time(),
        2 => operators(),
    ]
}

fn work() -> impl Strategy<Value = Op> {
    let key = prop_oneof![3 => Just(None), 1 => any::<bool>().prop_map(Some)];
    let submit =
        (key, any::<bool>(), 1..4u8, any::<bool>()).prop_map(|(key, means, budget, is_short)| {
            Op::Submit {
                key,
                means,
                budget,
                is_short,
            }
        });
    let lease = (0..2u8, 1..4u8, sockets()).prop_map(|(device, slots, socket)| Op::Lease {
        device,
        slots,
        socket,
    });
    prop_oneof![
        5 => submit,
        9 => lease,
        2 => (0..4u8).prop_map(Op::Cancel),
    ]
}

fn ats() -> impl Strategy<Value = At> {
    (0..8u8, pairs(), 0..30u8).prop_map(|(pick, which, odd)| At {
        pick,
        which,
        stranger: odd == 29,
    })
}

fn pairs() -> impl Strategy<Value = Which> {
    prop_oneof![
        20 => Just(Which::Current),
        4 => Just(Which::Replaced),
        2 => Just(Which::First),
        1 => Just(Which::Guessed),
        1 => Just(Which::Foreign),
        1 => Just(Which::Future),
    ]
}

fn frames() -> impl Strategy<Value = Op> {
    let progress = (ats(), 0..3u8, proptest::option::of(0..3u8))
        .prop_map(|(at, phase, percent)| Op::Progress { at, phase, percent });
    // A commit needs an attempt that is uploading.
    let uploads = ats().prop_map(|at| Op::Progress {
        at,
        phase: 2,
        percent: None,
    });
    prop_oneof![
        3 => ats().prop_map(Op::Accept),
        3 => progress,
        5 => uploads,
        7 => (ats(), 0..5u8).prop_map(|(at, odd)| Op::Commit { at, content: odd / 4 }),
        2 => (ats(), 0..5u8).prop_map(|(at, code)| Op::Fail { at, code }),
        1 => ats().prop_map(Op::Release),
        2 => ats().prop_map(Op::Stopped),
        2 => (ats(), any::<bool>()).prop_map(|(at, delivered)| Op::TakeBack { at, delivered }),
        2 => (ats(), 0..2u8, 0..2u8).prop_map(|(at, id, content)| Op::Event { at, id, content }),
        1 => ats().prop_map(Op::Grant),
        3 => Just(Op::Again),
    ]
}

fn verifications() -> impl Strategy<Value = Op> {
    let verify = (0..4u8, 0..8u8, 0..4u8).prop_map(|(ticket, outcome, keep)| Op::Verify {
        ticket,
        outcome,
        keep: keep == 3,
    });
    prop_oneof![
        8 => verify,
        1 => (0..4u8).prop_map(Op::RenewVerification),
        1 => Just(Op::GatewayDies),
    ]
}

fn sockets() -> impl Strategy<Value = Socket> {
    prop_oneof![
        12 => Just(Socket::Latest),
        1 => Just(Socket::Old),
        1 => Just(Socket::New),
    ]
}

fn devices() -> impl Strategy<Value = Op> {
    let list = prop_oneof![
        5 => Just(List::All),
        2 => any::<u8>().prop_map(List::Some),
        1 => Just(List::None),
    ];
    let socket = prop_oneof![
        8 => Just(Socket::New),
        2 => Just(Socket::Latest),
        1 => Just(Socket::Old),
    ];
    let hello =
        (0..2u8, list, pairs(), socket, 0..6u8).prop_map(|(device, list, which, socket, odd)| {
            Op::Hello {
                device,
                list,
                which,
                socket,
                is_other_process: odd == 5,
            }
        });
    let close = (0..2u8, sockets()).prop_map(|(device, socket)| Op::Close { device, socket });
    prop_oneof![6 => hello, 1 => close]
}

fn time() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..12u8).prop_map(Op::Advance),
        1 => (0..4u8).prop_map(Op::GoBack),
        2 => Just(Op::Mark),
        5 => Just(Op::Sweep),
        3 => Just(Op::Tend),
    ]
}

fn operators() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => ats().prop_map(Op::Revoke),
        1 => (0..2u8).prop_map(Op::Disable),
        2 => (0..2u8).prop_map(Op::Enable),
        2 => (0..2u8, 0..4u8).prop_map(|(device, odd)| Op::Repair {
            device,
            changes_owner: odd == 3,
        }),
        1 => Just(Op::AcceptClock),
        1 => Just(Op::PullBack),
    ]
}
