//! Epochs are renamed after every step so that only their order remains.
//!
//! Nothing ever asks how large an epoch is, only whether it is the same as, or newer than, another.
//! Without this a device that comes back again and again would make the world infinite.

use crate::network::{Agents, Packet};
use crate::world::{ATTEMPTS, JOBS, Pair, World};

/// Gives the epochs of each job the smallest numbers that keep their order. 0 was never minted and
/// stays 0.
pub(crate) fn rename(world: &mut World, agents: &mut Agents) {
    let mut used = [1u64; JOBS];
    each(world, agents, |job, epoch| {
        used[job] |= 1 << (*epoch).min(63);
    });
    if used.iter().all(|used| (used + 1).is_power_of_two()) {
        return;
    }
    each(world, agents, |job, epoch| {
        let smaller = used[job] & ((1 << (*epoch).min(63)) - 1);
        *epoch = u8::try_from(smaller.count_ones()).unwrap_or(u8::MAX);
    });
}

/// Visits every epoch, and every secret, which is named by the epoch that it was minted with.
fn each(world: &mut World, agents: &mut Agents, mut visit: impl FnMut(usize, &mut u8)) {
    let mut jobs = [0; ATTEMPTS];
    for (at, job) in world.jobs.iter_mut().enumerate() {
        if let Some(job) = job {
            visit(at, &mut job.epochs);
        }
    }
    for (at, attempt) in world.attempts.iter_mut().enumerate() {
        let Some(attempt) = attempt else { continue };
        let job = usize::from(attempt.job);
        jobs[at] = job;
        visit(job, &mut attempt.first);
        let pairs = [&mut attempt.replaced, &mut attempt.writer];
        for pair in pairs.into_iter().flatten().chain([&mut attempt.lease]) {
            both(job, pair, &mut visit);
        }
    }
    let mut all = |held: &mut [Option<Pair>; ATTEMPTS]| {
        for (pair, job) in held.iter_mut().zip(jobs) {
            if let Some(pair) = pair {
                both(job, pair, &mut visit);
            }
        }
    };
    all(&mut agents.known);
    for flying in agents.net.iter_mut().flatten() {
        match &mut flying.packet {
            Packet::Offer { attempt, pair, .. } | Packet::Frame { attempt, pair, .. } => {
                let mut held = [None; ATTEMPTS];
                held[*attempt] = Some(*pair);
                all(&mut held);
                *pair = held[*attempt].unwrap_or(*pair);
            }
            Packet::Welcome { kept: held, .. } => all(held),
            Packet::Hello(hello) => all(&mut hello.held),
        }
    }
}

fn both(job: usize, pair: &mut Pair, visit: &mut impl FnMut(usize, &mut u8)) {
    visit(job, &mut pair.epoch);
    visit(job, &mut pair.token);
}
