//! Standing pulls, and the rounds that lease for all of them.
//!
//! One round at a time: the handler is an [`AtomicResponse`], so leases are serialised inside this
//! process, for fairness and quiet logs. Correctness does not rest on it: between gateways the row
//! locks decide. A round runs when somebody nudges, and by a timer behind it; polling alone is
//! enough for everything to work.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use actix::{
    Actor, ActorFutureExt, AsyncContext, AtomicResponse, Context, Handler, Message, MessageResult,
    Recipient, WrapFuture,
};
use fencepost_domain::fencing::LeaseClaim;
use fencepost_domain::ids::{DeviceId, SessionNumber};
use fencepost_store::tx::lease_round::{Cursor, LeasedAttempt, Pull, RoundReport};
use fencepost_store::{Store, StoreError};
use serde_json::json;

use crate::finalizer::Finalizer;
use crate::health::LoopHealth;
use crate::messages::{ForgetPull, FromMatcher, Nudge, PullLease, ReturnOffers, Snapshot};
use crate::settings::ActorSettings;
use crate::supervision::{Handle, refused};
use crate::sweeper::{SweepNow, Sweeper};
use crate::system::ShutDown;

const MAILBOX: usize = 8192;
/// The most devices of one round.
const MAX_PULLS: usize = 256;
/// How often a round runs without being nudged.
pub(crate) const POLL: Duration = Duration::from_secs(1);

/// The matcher.
pub struct Matcher {
    store: Store,
    finalizer: Handle<Finalizer>,
    sweeper: Handle<Sweeper>,
    settings: ActorSettings,
    health: LoopHealth,
    standing: HashMap<DeviceId, Standing>,
    cursor: Cursor,
    /// A round is in the mailbox already.
    queued: bool,
    /// No more offers: the gateway is going down.
    closed: bool,
    leased: u64,
}

struct Standing {
    session: SessionNumber,
    slots_free: u32,
    since: Instant,
    offers: Recipient<FromMatcher>,
}

/// Matcher → itself.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct RunRound;

impl Matcher {
    /// A matcher without pulls.
    pub fn new(
        store: Store,
        finalizer: Handle<Finalizer>,
        sweeper: Handle<Sweeper>,
        settings: ActorSettings,
        health: LoopHealth,
    ) -> Self {
        Self {
            store,
            finalizer,
            sweeper,
            settings,
            health,
            standing: HashMap::new(),
            cursor: Cursor::default(),
            queued: false,
            closed: false,
            leased: 0,
        }
    }

    fn queue_round(&mut self, ctx: &mut Context<Self>) {
        if self.queued {
            return;
        }
        match ctx.address().try_send(RunRound) {
            Ok(()) => self.queued = true,
            // The timer behind it does the same.
            Err(_) => refused("matcher"),
        }
    }

    fn tick(&mut self, ctx: &mut Context<Self>) {
        let patience = self.settings.pull;
        self.standing.retain(|_, standing| {
            let stands = standing.since.elapsed() < patience;
            // A session that cannot take the answer is gone or stuck; either way it does not wait.
            if !stands && standing.offers.try_send(FromMatcher::NoWork).is_err() {
                refused("session");
            }
            stands
        });
        self.queue_round(ctx);
    }

    /// Hands leases over. What cannot be handed over is returned at once.
    fn offer(&mut self, leased: Vec<LeasedAttempt>) {
        let mut undelivered = Vec::new();
        for lease in leased {
            self.leased += 1;
            let claim = LeaseClaim {
                device: lease.device,
                job: lease.job,
                attempt: lease.attempt,
                epoch: lease.epoch,
            };
            tracing::info!(
                job.id = %lease.job, attempt.id = %lease.attempt, device.id = %lease.device,
                lease.epoch = lease.epoch, "leased"
            );
            let delivered = self
                .standing
                .get_mut(&lease.device)
                .is_some_and(|standing| {
                    standing.slots_free = standing.slots_free.saturating_sub(1);
                    standing
                        .offers
                        .try_send(FromMatcher::OfferLease(Box::new(lease)))
                        .is_ok()
                });
            let result = if delivered { "sent" } else { "undelivered" };
            metrics::counter!("fencepost_lease_offers_total", "result" => result).increment(1);
            if !delivered {
                undelivered.push(claim);
            }
        }
        self.standing.retain(|_, standing| standing.slots_free > 0);
        if !undelivered.is_empty()
            && self
                .finalizer
                .try_send(ReturnOffers {
                    offers: undelivered,
                    decline: None,
                    delivered: false,
                })
                .is_err()
        {
            tracing::warn!("undelivered offers are left to their accept deadline");
        }
    }

    fn finish_round(&mut self, report: Result<RoundReport, StoreError>, ctx: &mut Context<Self>) {
        self.health.finished();
        match report {
            Ok(report) => {
                self.cursor = report.cursor;
                let again = !report.leased.is_empty() && !self.standing.is_empty();
                self.offer(report.leased);
                if report.due && self.sweeper.try_send(SweepNow).is_err() {
                    refused("sweeper");
                }
                if again {
                    self.queue_round(ctx);
                }
            }
            Err(error) => tracing::warn!(%error, "a match round failed"),
        }
    }
}

/// One round: what is due is ended first, so that nothing dead blocks a pull.
async fn round(store: Store, pulls: Vec<Pull>, cursor: Cursor) -> Result<RoundReport, StoreError> {
    let started = Instant::now();
    let report = store.lease_round(pulls, cursor).await?;
    metrics::histogram!("fencepost_lease_seconds").record(started.elapsed().as_secs_f64());
    Ok(report)
}

impl Actor for Matcher {
    type Context = Context<Self>;
    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX);
        ctx.run_interval(POLL, Self::tick);
    }
}

impl Handler<PullLease> for Matcher {
    type Result = ();
    fn handle(&mut self, message: PullLease, ctx: &mut Self::Context) {
        let Pull {
            device,
            session,
            slots_free,
        } = message.pull;
        if self
            .standing
            .get(&device)
            .is_some_and(|known| known.session > session)
        {
            return;
        }
        if slots_free == 0 || self.closed {
            self.standing.remove(&device);
            return;
        }
        let standing = Standing {
            session,
            slots_free,
            since: Instant::now(),
            offers: message.session,
        };
        self.standing.insert(device, standing);
        self.queue_round(ctx);
    }
}

impl Handler<ForgetPull> for Matcher {
    type Result = ();
    fn handle(&mut self, gone: ForgetPull, _: &mut Self::Context) {
        if self
            .standing
            .get(&gone.device)
            .is_some_and(|known| known.session == gone.session)
        {
            self.standing.remove(&gone.device);
        }
    }
}

impl Handler<Nudge> for Matcher {
    type Result = ();
    fn handle(&mut self, _: Nudge, ctx: &mut Self::Context) {
        self.queue_round(ctx);
    }
}

impl Handler<ShutDown> for Matcher {
    type Result = ();
    fn handle(&mut self, _: ShutDown, _: &mut Self::Context) {
        self.closed = true;
        self.standing.clear();
    }
}

impl Handler<RunRound> for Matcher {
    type Result = AtomicResponse<Self, ()>;
    fn handle(&mut self, _: RunRound, _: &mut Self::Context) -> Self::Result {
        self.queued = false;
        // Whoever has waited longest first, in case there are more than one round takes.
        let mut standing: Vec<_> = self.standing.iter().collect();
        standing.sort_by_key(|(_, standing)| standing.since);
        let pulls: Vec<_> = standing
            .into_iter()
            .take(MAX_PULLS)
            .map(|(device, standing)| Pull {
                device: *device,
                session: standing.session,
                slots_free: standing.slots_free,
            })
            .collect();
        if pulls.is_empty() {
            self.health.finished();
            return AtomicResponse::new(Box::pin(std::future::ready(()).into_actor(self)));
        }
        let round = round(self.store.clone(), pulls, self.cursor.clone());
        AtomicResponse::new(Box::pin(
            round
                .into_actor(self)
                .map(|report, matcher, ctx| matcher.finish_round(report, ctx)),
        ))
    }
}

impl Handler<Snapshot> for Matcher {
    type Result = MessageResult<Snapshot>;
    fn handle(&mut self, _: Snapshot, _: &mut Self::Context) -> Self::Result {
        let slots: u32 = self
            .standing
            .values()
            .map(|standing| standing.slots_free)
            .sum();
        MessageResult(json!({
            "standing_pulls": self.standing.len(),
            "slots_pulled_for": slots,
            "leased": self.leased,
        }))
    }
}
