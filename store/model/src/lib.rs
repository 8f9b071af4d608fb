//! What Fencepost promises, checked on every state that a small world can get into.
//!
//! [`World`] is what the authority stores of a few jobs, attempts and devices; [`rules`] are the
//! transactions on it, small enough to be explored whole, and they decide by the very functions that
//! the store decides by ([`fencepost_domain::fencing::check`], [`fencepost_domain::ending::decide`],
//! the arrows of both state machines). [`Invariant`] says what must hold; [`Scope`] how much world
//! there is and, for tests of the model itself, which [`Fault`] is built in. Every fault must be
//! found: one that is not is a hole in the model.
//!
//! Two networks are explored. In the *open* one, every message that could ever have been sent may
//! arrive at any time, any number of times, with a pair that was handed out or guessed: the worst
//! there can be, so no agent is modelled. In the *counted* one a few packets are in flight, each lost
//! or doubled once, between the gateway and agents that remember what they were told; only there one
//! can say what an honest agent keeps.
//!
//! Time is relative (a lease ends *in two ticks*) and a delay may be over at any moment, which keeps
//! the world finite and allows more than reality does.
#![warn(missing_docs)]

mod closing;
mod epochs;
mod explore;
mod forget;
mod invariants;
mod milestones;
mod moves;
mod network;
pub mod rules;
mod scope;
pub mod scopes;
mod step;
mod world;

pub use closing::ends_when_time_goes_on;
pub use explore::{Exploration, Finding, State, explore};
pub use invariants::Invariant;
pub use network::{Agents, Packet};
pub use scope::{Fault, Network, Scope};
pub use step::{Frame, Hello, Outcome, Step};
pub use world::{ATTEMPTS, Attempt, Clock, DEVICES, Device, JOBS, Job, Pair, World};
