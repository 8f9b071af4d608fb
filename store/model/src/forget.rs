//! What can matter no more is forgotten after every step, so that equal worlds look equal.
//!
//! In the open network the newest ended attempt of each job is remembered whole, with every late
//! message that somebody could still send about it and every verification of it that is still going
//! on, beside the next attempt; older ones are forgotten. With packets in flight all ended attempts
//! are forgotten, and what is in flight about them: that it changes nothing is explored in the open.

use fencepost_domain::attempt::AttemptStatus;

use crate::network::{Agents, Packet};
use crate::scope::Network;
use crate::step::Hello;
use crate::world::{ATTEMPTS, Attempt, Pair, World};

/// Forgets what can matter no more.
pub(crate) fn forget(world: &mut World, agents: &mut Agents, network: Network) {
    for at in 0..ATTEMPTS {
        let Some(attempt) = world.attempts[at] else {
            break;
        };
        if attempt.status.is_live() {
            continue;
        }
        let is_newest = || {
            let mut later = world.attempts[at + 1..].iter().flatten();
            !later.any(|other| other.job == attempt.job && !other.status.is_live())
        };
        if network == Network::Open && is_newest() {
            continue;
        }
        world.attempts[at] = Some(forgotten(attempt));
        agents.known[at] = None;
        for slot in &mut agents.net {
            match slot.as_mut().map(|flying| &mut flying.packet) {
                Some(Packet::Offer { attempt, .. } | Packet::Frame { attempt, .. })
                    if *attempt == at =>
                {
                    *slot = None;
                }
                Some(Packet::Offer { .. } | Packet::Frame { .. }) | None => {}
                Some(Packet::Welcome { kept: held, .. } | Packet::Hello(Hello { held, .. })) => {
                    held[at] = None;
                }
            }
        }
        agents.net.sort_unstable();
    }
}

/// What is left of an attempt: that it was, and whether it won.
fn forgotten(attempt: Attempt) -> Attempt {
    if attempt.status == AttemptStatus::Succeeded {
        return attempt;
    }
    Attempt {
        device: 0,
        status: AttemptStatus::Lost,
        first: 0,
        lease: Pair::minted(0),
        writer: None,
        tickets: 0,
        charged: false,
        ..attempt
    }
}
