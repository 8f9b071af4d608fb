//! Agents and what is in flight between them and the gateway.

use crate::scope::Scope;
use crate::step::{Frame, Hello, Step};
use crate::world::{ATTEMPTS, DEVICES, Pair, World};

/// The most packets in flight.
const IN_FLIGHT: usize = 3;

/// A message on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Packet {
    /// A lease is offered to a session.
    Offer {
        /// The attempt.
        attempt: usize,
        /// The session that it goes to.
        session: u8,
        /// The lease.
        pair: Pair,
    },
    /// A hello is answered.
    Welcome {
        /// The device.
        device: u8,
        /// The session that it goes to.
        session: u8,
        /// What the device still holds, under which pairs.
        kept: [Option<Pair>; ATTEMPTS],
    },
    /// An agent's frame.
    Frame {
        /// The attempt.
        attempt: usize,
        /// What it says.
        frame: Frame,
        /// Under which lease.
        pair: Pair,
    },
    /// An agent's hello.
    Hello(Hello),
}

/// A packet, and whether it is the second of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flying {
    /// The message.
    pub packet: Packet,
    /// Whether it was doubled.
    pub is_copy: bool,
}

/// What the agents know, and what is in flight. Unused in the open network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Agents {
    /// The pair that its agent holds for each attempt.
    pub known: [Option<Pair>; ATTEMPTS],
    /// The number of each device's latest socket.
    pub session: [u8; DEVICES],
    /// Whether that was welcomed.
    pub ready: [bool; DEVICES],
    /// In flight, sorted: the network keeps no order.
    pub net: [Option<Flying>; IN_FLIGHT],
}

impl Agents {
    /// Every device was welcomed in its session 1.
    pub fn new() -> Self {
        Self {
            known: [None; ATTEMPTS],
            session: [1; DEVICES],
            ready: [true; DEVICES],
            net: [None; IN_FLIGHT],
        }
    }

    /// Whether another packet fits.
    pub(crate) fn has_room(&self, in_flight: u8) -> bool {
        self.net.iter().flatten().count() < usize::from(in_flight).min(IN_FLIGHT)
    }

    /// Puts a packet into the network; it is lost if there is no room.
    pub(crate) fn send(&mut self, packet: Packet, in_flight: u8) {
        if self.has_room(in_flight)
            && let Some(free) = self.net.iter_mut().find(|slot| slot.is_none())
        {
            *free = Some(Flying {
                packet,
                is_copy: false,
            });
            self.net.sort_unstable();
        }
    }

    /// Takes a packet out, or leaves its copy there.
    pub(crate) fn take(&mut self, at: usize, keep: bool) -> Option<Packet> {
        let flying = self.net[at]?;
        self.net[at] = keep.then_some(Flying {
            is_copy: true,
            ..flying
        });
        self.net.sort_unstable();
        Some(flying.packet)
    }

    /// Whether a hello of this device's latest socket, or its answer, is in flight.
    pub(crate) fn is_greeting(&self, device: usize) -> bool {
        self.net.iter().flatten().any(|flying| match flying.packet {
            Packet::Hello(hello) => {
                usize::from(hello.device) == device && hello.session == self.session[device]
            }
            Packet::Welcome {
                device: to,
                session,
                ..
            } => usize::from(to) == device && session == self.session[device],
            Packet::Offer { .. } | Packet::Frame { .. } => false,
        })
    }

    /// What a device would say hello with.
    pub(crate) fn hello(&self, world: &World, device: usize) -> Hello {
        let mut held = self.known;
        for (at, pair) in held.iter_mut().enumerate() {
            if !is_of(world, at, device) {
                *pair = None;
            }
        }
        Hello {
            device: u8::from(device == 1),
            session: self.session[device],
            held,
        }
    }

    /// Whether a hello lists just what its agent holds now.
    pub(crate) fn is_honest(&self, world: &World, hello: &Hello) -> bool {
        self.hello(world, usize::from(hello.device)) == *hello
    }

    /// A device opens a new socket and says hello; its process may have forgotten everything.
    pub(crate) fn connect(&mut self, world: &World, device: usize, forget: bool, in_flight: u8) {
        self.session[device] += 1;
        self.ready[device] = false;
        if forget {
            for at in 0..ATTEMPTS {
                if is_of(world, at, device) {
                    self.known[at] = None;
                }
            }
        }
        let hello = self.hello(world, device);
        self.send(Packet::Hello(hello), in_flight);
    }

    /// A packet from the gateway reaches its agent, which reads its latest socket only.
    pub(crate) fn hears(&mut self, world: &World, packet: &Packet) {
        match packet {
            Packet::Offer {
                attempt,
                session,
                pair,
            } => {
                let device = world.attempts[*attempt].map_or(0, |row| usize::from(row.device));
                if self.session[device] == *session && self.ready[device] {
                    self.known[*attempt] = Some(*pair);
                }
            }
            Packet::Welcome {
                device,
                session,
                kept,
            } => {
                let device = usize::from(*device);
                if self.session[device] == *session && !self.ready[device] {
                    self.ready[device] = true;
                    for (at, pair) in kept.iter().enumerate() {
                        if is_of(world, at, device) {
                            self.known[at] = *pair;
                        }
                    }
                }
            }
            Packet::Frame { .. } | Packet::Hello(_) => {}
        }
    }

    /// What the gateway sends after a transaction.
    pub(crate) fn answer(&mut self, before: &World, step: &Step, after: &World, in_flight: u8) {
        match step {
            Step::Lease { .. } => {
                let new = after
                    .attempts()
                    .find(|(at, _)| before.attempts[*at].is_none());
                if let Some((attempt, row)) = new {
                    let offer = Packet::Offer {
                        attempt,
                        session: row.session,
                        pair: row.lease,
                    };
                    self.send(offer, in_flight);
                }
            }
            Step::Hello { hello, .. } if is_welcome(before, hello) => {
                let welcome = Packet::Welcome {
                    device: hello.device,
                    session: hello.session,
                    kept: kept(after, hello),
                };
                self.send(welcome, in_flight);
            }
            _ => {}
        }
    }
}

impl Default for Agents {
    fn default() -> Self {
        Self::new()
    }
}

fn is_of(world: &World, attempt: usize, device: usize) -> bool {
    world.attempts[attempt].is_some_and(|row| usize::from(row.device) == device)
}

fn is_welcome(before: &World, hello: &Hello) -> bool {
    let device = before.devices[usize::from(hello.device)];
    device.enabled && device.current <= hello.session && !before.clock.has_regressed()
}

/// The pairs under which a device goes on: new ones for what was resumed, its own for a commit.
fn kept(after: &World, hello: &Hello) -> [Option<Pair>; ATTEMPTS] {
    let mut kept = [None; ATTEMPTS];
    for (at, row) in after.attempts() {
        let is_resumed = row.session == hello.session && row.status.is_held_by_agent();
        if hello.held[at].is_none() || row.device != hello.device || !row.status.is_live() {
            continue;
        }
        kept[at] = if is_resumed {
            Some(row.lease)
        } else {
            hello.held[at].filter(|pair| row.writer == Some(*pair))
        };
    }
    kept
}

/// Whether a device may open another socket.
pub(crate) fn sessions_left(agents: &Agents, scope: &Scope, device: usize) -> bool {
    agents.session[device] < scope.sessions
}
