//! A choice becomes a call, by what there is at that moment.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::failure::FailureCode;

use crate::call::{Call, Claim, End, Key, NOBODYS, Outcome, Pair, Request};
use crate::ops::{At, List, Op, Socket, Which};
use crate::reference::{Attempt, Reference};

/// The most jobs of a list.
const JOBS: usize = 5;
/// Lengths of time: within a lease, its very end, and past everything.
const LENGTHS: [Duration; 12] = [
    Duration::from_micros(1),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(8),
    Duration::from_micros(9_999_999),
    Duration::from_secs(10),
    Duration::from_secs(15),
    Duration::from_secs(20),
    Duration::from_secs(30),
    Duration::from_mins(1),
    Duration::from_mins(2),
    Duration::from_secs(301),
];
const CODES: [FailureCode; 5] = [
    FailureCode::DownloadFailed,
    FailureCode::RunnerFailed,
    FailureCode::NoCapacity,
    FailureCode::DeviceFault,
    FailureCode::InternalError,
];
const PHASES: [Phase; 3] = [Phase::Downloading, Phase::Running, Phase::Uploading];

/// What is known beside what is stored.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// The places that jobs were given.
    pub(crate) slots: usize,
    /// What gateways are verifying.
    pub(crate) tickets: Vec<(Key, i64)>,
    /// The last call of an agent or a buyer.
    pub(crate) last: Option<Call>,
}

/// What a choice comes to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Plan {
    Call(Call),
    /// A hello on a socket that must be opened first; it is the one with session 0.
    Connect(Call),
    Nothing,
}

/// Plans a choice. Nothing comes of one for which there is nothing to choose from.
pub(crate) fn plan(op: &Op, world: &Reference, memory: &mut Memory) -> Plan {
    let call = match op {
        Op::Submit { .. } => submit(op, memory),
        Op::Hello {
            device,
            list,
            which,
            socket,
            is_other_process,
        } => {
            let device = usize::from(*device);
            let hello = Call::Hello {
                device,
                session: session(world, device, *socket),
                process: u8::from(*is_other_process),
                held: held(world, device, (*list, *which)),
            };
            if *socket == Socket::New {
                return Plan::Connect(hello);
            }
            Some(hello)
        }
        Op::Verify { .. } | Op::RenewVerification(_) | Op::GatewayDies => verify(op, memory),
        Op::Again => again(memory),
        Op::Sweep => Some(Call::Sweep),
        Op::Tend => Some(Call::Tend),
        Op::Mark => Some(Call::Mark),
        Op::AcceptClock => Some(Call::AcceptClock),
        Op::PullBack => Some(Call::PullBack),
        Op::Advance(length) => Some(Call::Advance(LENGTHS[usize::from(*length)])),
        Op::GoBack(length) => Some(Call::GoBack(LENGTHS[usize::from(*length)])),
        _ => of_rows(op, world),
    };
    call.map_or(Plan::Nothing, Plan::Call)
}

/// A buyer's repeat makes a new job, unless it has the same key.
fn again(memory: &mut Memory) -> Option<Call> {
    let mut call = memory.last.clone()?;
    if let Call::Submit(request) = &mut call {
        if memory.slots == JOBS {
            return None;
        }
        request.slot = memory.slots;
        memory.slots += 1;
    }
    Some(call)
}

fn submit(op: &Op, memory: &mut Memory) -> Option<Call> {
    let Op::Submit {
        key,
        means,
        budget,
        is_short,
    } = op
    else {
        return None;
    };
    if memory.slots == JOBS {
        return None;
    }
    memory.slots += 1;
    let (deadline, max_run) = if *is_short {
        (100, 75)
    } else {
        (86_400, 21_600)
    };
    Some(Call::Submit(Request {
        slot: memory.slots - 1,
        key: key.map(|key| (u8::from(key), u8::from(*means))),
        budget: i32::from(*budget),
        deadline: Duration::from_secs(deadline),
        max_run: Duration::from_secs(max_run),
    }))
}

fn verify(op: &Op, memory: &mut Memory) -> Option<Call> {
    let chosen = |ticket: u8| {
        (!memory.tickets.is_empty()).then(|| usize::from(ticket) % memory.tickets.len())
    };
    match op {
        Op::Verify {
            ticket,
            outcome,
            keep,
        } => {
            let place = chosen(*ticket)?;
            let (at, pickup) = memory.tickets[place];
            if !keep {
                memory.tickets.remove(place);
            }
            let outcome = match outcome {
                0..5 => Outcome::Good,
                5 => Outcome::MediaRejected,
                6 => Outcome::BytesDiffer,
                _ => Outcome::Trouble,
            };
            Some(Call::Settle {
                at,
                pickup,
                outcome,
            })
        }
        Op::RenewVerification(ticket) => {
            let (at, pickup) = memory.tickets[chosen(*ticket)?];
            Some(Call::RenewVerification { at, pickup })
        }
        _ => {
            memory.tickets.clear();
            None
        }
    }
}

fn of_rows(op: &Op, world: &Reference) -> Option<Call> {
    let claim = |at: &At| claim(world, *at);
    Some(match op {
        Op::Accept(at) => Call::Progress {
            claim: claim(at)?,
            phase: None,
            percent: None,
        },
        Op::Progress { at, phase, percent } => Call::Progress {
            claim: claim(at)?,
            phase: Some(PHASES[usize::from(*phase)]),
            percent: *percent,
        },
        Op::Commit { at, content } => Call::Commit {
            claim: claim(at)?,
            content: *content,
        },
        Op::Fail { at, code } => Call::End {
            claim: claim(at)?,
            end: End::Fail(CODES[usize::from(*code)]),
        },
        Op::Release(at) => Call::End {
            claim: claim(at)?,
            end: End::Release,
        },
        Op::Stopped(at) => Call::End {
            claim: claim(at)?,
            end: End::Stopped,
        },
        Op::TakeBack { at, delivered } => Call::TakeBack {
            claim: claim(at)?,
            delivered: *delivered,
        },
        Op::Event { at, id, content } => Call::Event {
            claim: claim(at)?,
            id: *id,
            content: *content,
        },
        Op::Grant(at) => Call::Grant(claim(at)?),
        _ => return of_devices(op, world),
    })
}

fn of_devices(op: &Op, world: &Reference) -> Option<Call> {
    Some(match op {
        Op::Revoke(at) => Call::Revoke(claim(world, *at)?.at),
        Op::Lease {
            device,
            slots,
            socket,
        } => Call::Round {
            device: usize::from(*device),
            session: session(world, usize::from(*device), *socket),
            slots: u32::from(*slots),
        },
        Op::Cancel(job) => {
            let slots: Vec<usize> = world.jobs.keys().copied().collect();
            Call::Cancel(*slots.get(usize::from(*job) % slots.len().max(1))?)
        }
        Op::Close { device, socket } => Call::Close {
            device: usize::from(*device),
            session: session(world, usize::from(*device), *socket),
        },
        Op::Disable(device) => Call::Disable(usize::from(*device)),
        Op::Enable(device) => Call::Enable(usize::from(*device)),
        Op::Repair {
            device,
            changes_owner,
        } => {
            let device = usize::from(*device);
            let other_owner = world.devices[device].row.has_other_owner != *changes_owner;
            Call::Repair {
                device,
                other_owner,
            }
        }
        _ => return None,
    })
}

fn session(world: &Reference, device: usize, socket: Socket) -> i64 {
    let latest = world.devices[device].row.sessions;
    match socket {
        Socket::New => 0,
        Socket::Latest => latest,
        Socket::Old => (latest - 1).max(1),
    }
}

/// Live attempts three times out of four, any the fourth; the newest first.
fn claim(world: &Reference, at: At) -> Option<Claim> {
    let mut all: Vec<_> = world.attempts.iter().collect();
    all.sort_unstable_by_key(|(_, attempt)| std::cmp::Reverse(attempt.order));
    let live: Vec<_> = (all.iter().copied())
        .filter(|(_, attempt)| attempt.row.status.is_live())
        .collect();
    let from = if at.pick % 4 == 3 || live.is_empty() {
        all
    } else {
        live
    };
    let (key, attempt) = *from.get(usize::from(at.pick) % from.len().max(1))?;
    Some(Claim {
        at: *key,
        pair: pair(attempt, at.which),
        stranger: at.stranger,
    })
}

fn pair(attempt: &Attempt, which: Which) -> Pair {
    let lease = attempt.row.lease;
    let epoch = lease.epoch;
    // A secret that nobody was given cannot be presented.
    let token = if attempt.is_kept {
        NOBODYS
    } else {
        lease.token
    };
    let current = Pair { epoch, token };
    match which {
        Which::Current => current,
        Which::Replaced => attempt.row.replaced.unwrap_or(current),
        Which::First => Pair::minted(attempt.first),
        Which::Guessed => Pair {
            epoch,
            token: if attempt.first == token {
                NOBODYS
            } else {
                attempt.first
            },
        },
        Which::Foreign => Pair {
            epoch,
            token: NOBODYS,
        },
        Which::Future => Pair {
            epoch: epoch + 1,
            token,
        },
    }
}

/// What a device lists: its live attempts and the last one that ended.
fn held(world: &Reference, device: usize, (list, which): (List, Which)) -> Vec<(Key, Pair)> {
    let mut mine: Vec<_> = world.attempts.iter().collect();
    mine.retain(|(_, attempt)| attempt.row.device == device);
    mine.sort_unstable_by_key(|(_, attempt)| std::cmp::Reverse(attempt.order));
    let ended = mine.iter().position(|(_, one)| !one.row.status.is_live());
    let places = mine.iter().enumerate();
    let listed = places.filter(|(place, (_, attempt))| {
        let is_meant = attempt.row.status.is_live() || Some(*place) == ended;
        is_meant
            && match list {
                List::All => true,
                List::Some(bits) => bits & (1 << (place % 8)) != 0,
                List::None => false,
            }
    });
    listed
        .map(|(place, (at, attempt))| {
            // An agent that missed a welcome has the pair that this replaced, for all or for one.
            let which = if place == 0 || which == Which::Replaced {
                which
            } else {
                Which::Current
            };
            let is_waiting = attempt.is_kept && which == Which::Current;
            let which = if is_waiting { Which::Replaced } else { which };
            (**at, pair(attempt, which))
        })
        .collect()
}
