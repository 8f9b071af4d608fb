//! The walk through every state.

use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::closing::ends_when_time_goes_on;
use crate::epochs::rename;
use crate::forget::forget;
use crate::invariants::{Invariant, Transition};
use crate::milestones::MILESTONES;
use crate::moves::{Move, moves};
use crate::network::{Agents, Packet};
use crate::rules::{apply, tick};
use crate::scope::{Network, Scope};
use crate::step::Step;
use crate::world::World;

/// Everything: what is stored, what agents know, and which promises were broken on the way here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct State {
    /// What is stored.
    pub world: World,
    /// Agents and network.
    pub agents: Agents,
    /// The broken promises, one bit each.
    pub broken: u32,
}

/// A scope, as stateright explores it.
#[derive(Debug, Clone)]
pub struct Exploration {
    /// Its bounds.
    pub scope: Scope,
}

/// What an exploration found.
#[derive(Debug, Clone)]
pub struct Finding {
    /// Different states.
    pub states: usize,
    /// Transitions taken.
    pub transitions: usize,
    /// Length of the longest of the shortest paths.
    pub depth: usize,
    /// How long it took.
    pub took: Duration,
    /// Broken promises, each with the shortest path to where it is broken.
    pub broken: Vec<(Invariant, Vec<String>)>,
    /// Milestones that were never reached: a world too small to mean anything.
    pub unreached: Vec<&'static str>,
}

impl Finding {
    /// Whether every promise was kept and every milestone reached.
    pub fn is_good(&self) -> bool {
        self.broken.is_empty() && self.unreached.is_empty()
    }
}

/// Explores a scope whole, or up to the first broken promise.
pub fn explore(scope: Scope, threads: usize) -> Finding {
    let started = Instant::now();
    let checker = Exploration { scope }
        .checker()
        .threads(threads)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let mut discoveries = checker.discoveries();
    let mut broken = Vec::new();
    for invariant in Invariant::ALL {
        if let Some(path) = discoveries.remove(invariant.id()) {
            let steps = path.into_actions();
            broken.push((
                invariant,
                steps.iter().map(|step| format!("{step:?}")).collect(),
            ));
        }
    }
    let unreached = MILESTONES.iter().filter(|one| (one.is_expected)(&scope));
    Finding {
        states: checker.unique_state_count(),
        transitions: checker.state_count(),
        depth: checker.max_depth(),
        took: started.elapsed(),
        broken,
        unreached: unreached
            .map(|one| one.name)
            .filter(|name| !discoveries.contains_key(name))
            .collect(),
    }
}

impl Model for Exploration {
    type State = State;
    type Action = Move;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            world: World::new(),
            agents: Agents::new(),
            broken: 0,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Move>) {
        moves(&state.world, &state.agents, &self.scope, actions);
    }

    fn next_state(&self, last: &State, action: Move) -> Option<State> {
        let mut next = *last;
        let in_flight = match self.scope.network {
            Network::Open => 0,
            Network::Counted { in_flight } => in_flight,
        };
        let (world, agents) = (&last.world, &mut next.agents);
        match action {
            Move::Store(step) => self.step(&mut next, step, false),
            Move::Connect { device, forget } => agents.connect(world, device, forget, in_flight),
            Move::HelloAgain(device) => {
                let hello = agents.hello(world, device);
                agents.send(Packet::Hello(hello), in_flight);
            }
            Move::Send(attempt, frame) => {
                let pair = agents.known[attempt]?;
                let packet = Packet::Frame {
                    attempt,
                    frame,
                    pair,
                };
                agents.send(packet, in_flight);
            }
            Move::Lose(at) => {
                agents.take(at, false)?;
            }
            Move::Deliver { at, keep, slow } => match agents.take(at, keep)? {
                Packet::Frame {
                    attempt,
                    frame,
                    pair,
                } => {
                    let step = Step::Frame {
                        attempt,
                        frame,
                        pair,
                        slow,
                    };
                    self.step(&mut next, step, false);
                }
                Packet::Hello(hello) => {
                    let is_honest = agents.is_honest(world, &hello);
                    self.step(&mut next, Step::Hello { hello, slow }, is_honest);
                }
                packet => agents.hears(world, &packet),
            },
        }
        forget(&mut next.world, &mut next.agents, self.scope.network);
        rename(&mut next.world, &mut next.agents);
        (next != *last).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            kept::<0>(),
            kept::<1>(),
            kept::<2>(),
            kept::<3>(),
            kept::<4>(),
            kept::<5>(),
            kept::<6>(),
            kept::<7>(),
            kept::<8>(),
            kept::<10>(),
            kept::<11>(),
            kept::<12>(),
            kept::<13>(),
            kept::<14>(),
            kept::<15>(),
            kept::<16>(),
        ];
        let ends = |model: &Self, state: &State| ends_when_time_goes_on(&state.world, &model.scope);
        properties.push(Property::always(Invariant::EveryJobEnds.id(), ends));
        properties.extend(MILESTONES.map(|one| Property::sometimes(one.name, one.is_reached)));
        properties
    }
}

/// The property that the invariant at `AT` was not broken.
fn kept<const AT: usize>() -> Property<Exploration> {
    Property::always(Invariant::ALL[AT].id(), |_: &Exploration, state: &State| {
        state.broken & Invariant::ALL[AT].bit() == 0
    })
}

impl Exploration {
    fn step(&self, state: &mut State, step: Step, is_honest: bool) {
        let before = state.world;
        let after = apply(&before, &step, &self.scope);
        let mut aged = before;
        if step.is_slow() {
            tick(&mut aged);
        }
        let transition = Transition {
            scope: &self.scope,
            before: &before,
            step: &step,
            aged: &aged,
            after: &after,
            is_honest,
        };
        for invariant in Invariant::ALL {
            if !invariant.is_kept(&transition) {
                state.broken |= invariant.bit();
            }
        }
        state.world = after;
        if let Network::Counted { in_flight } = self.scope.network {
            state.agents.answer(&before, &step, &after, in_flight);
        }
    }
}
