//! Actors that die are built again; too many deaths end the process, loudly.
//!
//! actix's own `Supervisor` does not restart an actor that panicked: its mailbox closes and the rest
//! of the process runs on without it. So a watcher looks at each mailbox, builds the actor again
//! from its factory, and gives up when it dies too often, so that whoever supervises the process
//! (launchd, systemd) starts afresh from what Postgres says.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use actix::dev::{SendError, ToEnvelope};
use actix::{Actor, Addr, Arbiter, AsyncContext, Context, Handler, Message, System};

const LOOK_EVERY: Duration = Duration::from_millis(200);
const WINDOW: Duration = Duration::from_mins(1);
const MAX_RESTARTS: usize = 10;
/// The exit code of a process that gave up: `EX_SOFTWARE`.
const GAVE_UP: i32 = 70;

/// A way to a supervised actor that stays valid when it is restarted.
#[derive(Debug)]
pub struct Handle<A: Actor> {
    name: &'static str,
    current: Arc<RwLock<Addr<A>>>,
}

impl<A: Actor> Clone for Handle<A> {
    fn clone(&self) -> Self {
        Self {
            name: self.name,
            current: Arc::clone(&self.current),
        }
    }
}

impl<A: Actor> Handle<A> {
    /// The actor as it lives now.
    pub fn addr(&self) -> Addr<A> {
        // A poisoned lock still holds an address.
        self.current
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Sends, or says (and counts) that the mailbox is full or closed. The message comes back.
    pub fn try_send<M>(&self, message: M) -> Result<(), SendError<M>>
    where
        M: Message + Send + 'static,
        M::Result: Send,
        A: Handler<M>,
        A::Context: ToEnvelope<A, M>,
    {
        self.addr()
            .try_send(message)
            .inspect_err(|_| refused(self.name))
    }
}

/// Counts a message that a mailbox did not take.
pub fn refused(actor: &'static str) {
    metrics::counter!("fencepost_mailbox_refused_total", "actor" => actor).increment(1);
}

/// Starts an actor on an arbiter and keeps it alive. Must be called within an actix system.
pub fn supervise<A, F>(name: &'static str, arbiter: &Arbiter, factory: F) -> Handle<A>
where
    A: Actor<Context = Context<A>> + Send,
    F: Fn() -> A + Send + 'static,
{
    let start = {
        let arbiter = arbiter.handle();
        move || {
            let actor = factory();
            A::start_in_arbiter(&arbiter, move |_| actor)
        }
    };
    metrics::counter!("fencepost_actor_restarts_total", "actor" => name).absolute(0);
    let current = Arc::new(RwLock::new(start()));
    let handle = Handle {
        name,
        current: Arc::clone(&current),
    };
    let watcher = Watcher {
        name,
        current,
        start: Box::new(start),
        deaths: VecDeque::new(),
    };
    watcher.start();
    handle
}

struct Watcher<A: Actor> {
    name: &'static str,
    current: Arc<RwLock<Addr<A>>>,
    start: Box<dyn Fn() -> Addr<A>>,
    deaths: VecDeque<Instant>,
}

impl<A: Actor<Context = Context<A>>> Actor for Watcher<A> {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(LOOK_EVERY, |watcher, _| watcher.look());
    }
}

impl<A: Actor> Watcher<A> {
    fn look(&mut self) {
        let alive = self
            .current
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .connected();
        if alive {
            return;
        }
        let now = Instant::now();
        self.deaths.push_back(now);
        while self
            .deaths
            .front()
            .is_some_and(|death| now - *death > WINDOW)
        {
            self.deaths.pop_front();
        }
        metrics::counter!("fencepost_actor_restarts_total", "actor" => self.name).increment(1);
        if self.deaths.len() > MAX_RESTARTS {
            tracing::error!(actor = self.name, "died too often: the process gives up");
            if let Some(system) = System::try_current() {
                system.stop_with_code(GAVE_UP);
            }
            return;
        }
        tracing::error!(
            actor = self.name,
            deaths = self.deaths.len(),
            "died; building it again"
        );
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = (self.start)();
    }
}

#[cfg(test)]
mod tests;
