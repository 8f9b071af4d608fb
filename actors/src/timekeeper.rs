//! Keeps the mark of Postgres's clock, and says when the clock cannot be believed.
//!
//! Once a second it compares the clock with a monotonic one of its own. A clock that has leapt ahead
//! does not take the mark with it; one that is behind its mark is refused by the store itself, so
//! all that is left to do here is to say so. Several gateways keep the same mark without harm.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actix::{
    Actor, ActorFutureExt, AsyncContext, AtomicResponse, Context, Handler, Message, MessageResult,
    WrapFuture,
};
use fencepost_domain::clock::{ClockReading, ClockState, ClockWatch};
use fencepost_store::{Store, StoreError};
use serde_json::json;

use crate::health::LoopHealth;
use crate::messages::Snapshot;
use crate::monotonic;
use crate::supervision::refused;
use crate::system::ShutDown;

/// How often the mark moves.
pub(crate) const PERIOD: Duration = Duration::from_secs(1);
/// A reading that took longer than this cannot be compared with anything.
const SLOWEST: Duration = Duration::from_secs(1);

/// What this gateway makes of Postgres's clock. Shared between the timekeeper and whoever asks;
/// outlives a timekeeper that is built again.
#[derive(Debug, Clone, Default)]
pub struct ClockHealth(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    watch: ClockWatch,
    state: Option<ClockState>,
}

impl ClockHealth {
    /// What is wrong with the clock, for a person; `None` if nothing is, or nothing is known yet.
    pub fn trouble(&self) -> Option<String> {
        match self.state()? {
            ClockState::Trusted => None,
            ClockState::Behind(by) => Some(format!(
                "the database's clock is {} behind its mark: nothing is leased, renewed or ended \
                 until it has caught up (`fencepost clock show`)",
                seconds(by)
            )),
            ClockState::Ahead(by) => Some(format!(
                "the database's clock has leapt {} ahead of this gateway's own, and its mark does \
                 not follow: put it right, or accept it (`fencepost clock accept`)",
                seconds(by)
            )),
        }
    }

    fn state(&self) -> Option<ClockState> {
        self.with(|seen| seen.state)
    }

    /// A poisoned lock still holds what was seen.
    fn with<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn seconds(by: Duration) -> String {
    format!("{:.3} s", by.as_secs_f64())
}

/// The timekeeper.
pub struct Timekeeper {
    store: Store,
    health: LoopHealth,
    clock: ClockHealth,
    closed: bool,
}

/// Timer → itself.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct Look;

impl Timekeeper {
    /// A timekeeper.
    pub fn new(store: Store, health: LoopHealth, clock: ClockHealth) -> Self {
        Self {
            store,
            health,
            clock,
            closed: false,
        }
    }
}

async fn look(store: Store, clock: ClockHealth) -> Result<(), StoreError> {
    let before = monotonic::now();
    let reading = store.read_clock().await?;
    let own = monotonic::now();
    if own.saturating_sub(before) > SLOWEST {
        return Ok(());
    }
    let was = clock.state();
    let is = clock.with(|seen| seen.watch.observe(reading, own));
    report(was, is);
    if is == ClockState::Trusted {
        keep(&store, reading, was).await?;
    }
    clock.with(|seen| seen.state = Some(is));
    Ok(())
}

/// The clock is good, at last or still.
async fn keep(
    store: &Store,
    reading: ClockReading,
    was: Option<ClockState>,
) -> Result<(), StoreError> {
    // It may have been ahead, also before this process began.
    if was != Some(ClockState::Trusted) {
        let pulled = store.pull_back().await?;
        if pulled.attempts + pulled.jobs > 0 {
            tracing::warn!(
                attempts = pulled.attempts,
                jobs = pulled.jobs,
                "what the clock wrote while it was ahead was brought back to the present"
            );
        }
    }
    if reading.now - reading.mark > time::Duration::SECOND {
        store.advance_mark(reading).await?;
    }
    Ok(())
}

fn report(was: Option<ClockState>, is: ClockState) {
    let (behind, ahead) = match is {
        ClockState::Trusted => (Duration::ZERO, Duration::ZERO),
        ClockState::Behind(by) => (by, Duration::ZERO),
        ClockState::Ahead(by) => (Duration::ZERO, by),
    };
    metrics::gauge!("fencepost_clock_behind_seconds").set(behind.as_secs_f64());
    metrics::gauge!("fencepost_clock_ahead_seconds").set(ahead.as_secs_f64());
    let is_news = was.is_none_or(|was| std::mem::discriminant(&was) != std::mem::discriminant(&is));
    match is {
        ClockState::Behind(by) if is_news => tracing::error!(
            by = seconds(by),
            "the database's clock is behind its mark: no lease is given, renewed or ended until it \
             has caught up"
        ),
        ClockState::Ahead(by) if is_news => tracing::error!(
            by = seconds(by),
            "the database's clock has leapt ahead of ours: its mark does not follow"
        ),
        ClockState::Trusted if is_news && was.is_some() => {
            tracing::warn!("the database's clock is good again");
        }
        ClockState::Trusted | ClockState::Behind(_) | ClockState::Ahead(_) => {}
    }
}

impl Actor for Timekeeper {
    type Context = Context<Self>;
    fn started(&mut self, ctx: &mut Self::Context) {
        let queue = |keeper: &mut Self, ctx: &mut Context<Self>| {
            if !keeper.closed && ctx.address().try_send(Look).is_err() {
                refused("timekeeper");
            }
        };
        queue(self, ctx);
        ctx.run_interval(PERIOD, queue);
    }
}

impl Handler<Look> for Timekeeper {
    type Result = AtomicResponse<Self, ()>;
    fn handle(&mut self, _: Look, _: &mut Self::Context) -> Self::Result {
        let looked = look(self.store.clone(), self.clock.clone()).into_actor(self);
        AtomicResponse::new(Box::pin(looked.map(|looked, keeper, _| match looked {
            Ok(()) => keeper.health.finished(),
            Err(error) => tracing::warn!(%error, "the clock was not looked at"),
        })))
    }
}

impl Handler<ShutDown> for Timekeeper {
    type Result = ();
    fn handle(&mut self, _: ShutDown, _: &mut Self::Context) {
        self.closed = true;
    }
}

impl Handler<Snapshot> for Timekeeper {
    type Result = MessageResult<Snapshot>;
    fn handle(&mut self, _: Snapshot, _: &mut Self::Context) -> Self::Result {
        MessageResult(json!({ "trouble": self.clock.trouble() }))
    }
}
