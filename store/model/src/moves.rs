//! What can happen next.

use crate::network::{Agents, Packet, sessions_left};
use crate::scope::{Fault, Network, Scope};
use crate::step::{Frame, Hello, Outcome, Step};
use crate::world::{ATTEMPTS, Attempt, LONG_AGO, Pair, World};

/// One thing that can happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Move {
    /// In the store alone.
    Store(Step),
    /// A device opens a new socket.
    Connect {
        /// The device.
        device: usize,
        /// Whether its process has lost its memory.
        forget: bool,
    },
    /// A device says hello again on its socket, having had no answer.
    HelloAgain(usize),
    /// An agent sends a frame under the pair that it holds.
    Send(usize, Frame),
    /// A packet arrives.
    Deliver {
        /// Its place.
        at: usize,
        /// Whether it will arrive once more.
        keep: bool,
        /// Whether the clock ticks while its transaction is open.
        slow: bool,
    },
    /// A packet is lost.
    Lose(usize),
}

/// Everything that can happen next.
pub(crate) fn moves(world: &World, agents: &Agents, scope: &Scope, out: &mut Vec<Move>) {
    let is_over = world.jobs().count() == usize::from(scope.jobs)
        && world.jobs().all(|(_, job)| job.status.is_terminal());
    if is_over && scope.network != Network::Open {
        return;
    }
    let mut steps = Vec::with_capacity(64);
    steps_of_clock(world, scope, &mut steps);
    steps_of_jobs(world, scope, &mut steps);
    for (at, attempt) in world.attempts() {
        steps_of_attempt(world, scope, (at, attempt), &mut steps);
    }
    match scope.network {
        Network::Open => {
            for (at, attempt) in world.attempts() {
                open_frames(scope, at, attempt, &mut steps);
            }
            for device in 0..scope.devices {
                open_hellos(world, scope, device, &mut steps);
            }
        }
        Network::Counted { in_flight } => {
            let room = agents.has_room(in_flight);
            counted(world, agents, scope, room, out);
        }
    }
    out.extend(steps.into_iter().map(Move::Store));
}

fn steps_of_clock(world: &World, scope: &Scope, out: &mut Vec<Step>) {
    let is_live = world.attempts().any(|(_, one)| one.status.is_live());
    if !is_live && world.clock.mark <= 0 {
        return;
    }
    out.push(Step::Tick);
    if world.clock.jumps < scope.jumps {
        out.push(Step::JumpBack);
    }
    if world.clock.mark < 0 && world.clock.jumps < scope.jumps {
        out.push(Step::Mark);
    }
    if world.clock.has_regressed() && scope.operators {
        out.push(Step::ClockAccept);
    }
    debug_assert!(world.clock.mark >= LONG_AGO);
}

fn steps_of_jobs(world: &World, scope: &Scope, out: &mut Vec<Step>) {
    for at in 0..usize::from(scope.jobs) {
        let Some(job) = world.jobs[at] else {
            out.push(Step::Submit(at));
            continue;
        };
        if job.status.is_terminal() {
            continue;
        }
        out.extend([Step::Cancel(at), Step::Tend(at)]);
        if !job.overdue {
            out.push(Step::Deadline(at));
        }
        let devices = 0..usize::from(scope.devices);
        out.extend(devices.map(|device| Step::Lease { job: at, device }));
        if scope.has(Fault::UnlockedJoin) && world.snapshot[at].is_none() {
            out.push(Step::Look(at));
        }
    }
    if scope.operators {
        let enabled = (0..usize::from(scope.devices)).filter(|at| world.devices[*at].enabled);
        out.extend(enabled.map(Step::Disable));
    }
}

fn steps_of_attempt(
    world: &World,
    scope: &Scope,
    (at, attempt): (usize, &Attempt),
    out: &mut Vec<Step>,
) {
    for pickup in (1..=scope.pickups).filter(|pickup| attempt.tickets & (1 << (pickup - 1)) != 0) {
        let settle = |outcome| Step::Settle {
            attempt: at,
            pickup,
            outcome,
        };
        out.extend(Outcome::ALL.map(settle));
        out.push(Step::Crash {
            attempt: at,
            pickup,
        });
        out.push(Step::RenewVerification {
            attempt: at,
            pickup,
        });
    }
    if !attempt.status.is_live() {
        return;
    }
    out.extend([Step::Sweep(at), Step::ForceCancel(at)]);
    if !attempt.accepted {
        out.push(Step::ReturnOffer(at));
    }
    if scope.operators && world.jobs[usize::from(attempt.job)].is_some() {
        out.push(Step::Revoke(at));
    }
}

/// The pairs with which somebody can come: the current one, the one before the last resume, an old
/// one, and an old secret with the current epoch, which is no secret.
fn presentable(attempt: &Attempt) -> impl Iterator<Item = Pair> {
    let current = attempt.lease;
    let old = Pair::minted(attempt.first);
    let is_other = old != current && attempt.replaced != Some(old);
    let guessed = Pair {
        epoch: current.epoch,
        token: if old.token == current.token {
            0
        } else {
            old.token
        },
    };
    let pairs = [
        Some(current),
        attempt.replaced,
        is_other.then_some(old),
        Some(guessed),
    ];
    pairs.into_iter().flatten()
}

/// A tick within a transaction matters only to a lease that it kills.
fn speeds(attempt: &Attempt) -> &'static [bool] {
    if attempt.status.is_live() && attempt.until == 1 {
        &[false, true]
    } else {
        &[false]
    }
}

fn open_frames(scope: &Scope, at: usize, attempt: &Attempt, out: &mut Vec<Step>) {
    for pair in presentable(attempt) {
        for frame in scope.frames {
            let frame = *frame;
            out.extend(speeds(attempt).iter().map(|slow| Step::Frame {
                attempt: at,
                frame,
                pair,
                slow: *slow,
            }));
        }
    }
}

fn open_hellos(world: &World, scope: &Scope, device: u8, out: &mut Vec<Step>) {
    let mut lists = vec![[None; ATTEMPTS]];
    let mut speed: &[bool] = &[false];
    let mine = world
        .attempts()
        .filter(|(_, one)| one.device == device && one.status.is_live());
    for (at, attempt) in mine {
        if speeds(attempt).len() > 1 {
            speed = speeds(attempt);
        }
        let shorter = lists.clone();
        for pair in presentable(attempt) {
            lists.extend(shorter.iter().map(|list| {
                let mut list = *list;
                list[at] = Some(pair);
                list
            }));
        }
    }
    for session in 1..=scope.sessions {
        for held in &lists {
            let hello = Hello {
                device,
                session,
                held: *held,
            };
            out.extend(speed.iter().map(|slow| Step::Hello { hello, slow: *slow }));
        }
    }
}

fn counted(world: &World, agents: &Agents, scope: &Scope, room: bool, out: &mut Vec<Move>) {
    for device in 0..usize::from(scope.devices) {
        if sessions_left(agents, scope, device) {
            out.extend([false, true].map(|forget| Move::Connect { device, forget }));
        }
        if room && !agents.ready[device] && !agents.is_greeting(device) {
            out.push(Move::HelloAgain(device));
        }
    }
    if room {
        for (at, attempt) in world.attempts() {
            let is_ready = agents.ready[usize::from(attempt.device)];
            if is_ready && agents.known[at].is_some() {
                out.extend(scope.frames.iter().map(|frame| Move::Send(at, *frame)));
            }
        }
    }
    for (at, flying) in agents.net.iter().enumerate() {
        let Some(flying) = flying else { continue };
        out.push(Move::Lose(at));
        // A gateway hears one hello of a socket, until it has told its agent that it failed.
        let is_heard_once =
            matches!(flying.packet, Packet::Hello(_)) && !scope.has(Fault::HearsHelloTwice);
        let may_double = !flying.is_copy && !is_heard_once;
        for keep in [false, true] {
            if keep && !may_double {
                continue;
            }
            let speed = speeds_of(world, &flying.packet);
            out.extend(speed.iter().map(|slow| Move::Deliver {
                at,
                keep,
                slow: *slow,
            }));
        }
    }
}

fn speeds_of(world: &World, packet: &Packet) -> &'static [bool] {
    let dying = |one: &Attempt| speeds(one).len() > 1;
    let matters = match packet {
        Packet::Frame { attempt, .. } => world.attempts[*attempt].as_ref().is_some_and(dying),
        Packet::Hello(_) => world.attempts().any(|(_, one)| dying(one)),
        Packet::Offer { .. } | Packet::Welcome { .. } => false,
    };
    if matters { &[false, true] } else { &[false] }
}
