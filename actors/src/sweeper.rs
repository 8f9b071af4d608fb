//! What time does, and the truth about sessions, re-read each period.
//!
//! A reconciler: it takes no input, asks Postgres what is due, in batches, and can run at any time,
//! twice, late, or on several gateways. It runs by its timer and when it is nudged.

use std::sync::PoisonError;

use actix::{
    Actor, ActorFutureExt, AsyncContext, AtomicResponse, Context, Handler, Message, MessageResult,
    WrapFuture,
};
use fencepost_domain::leap::{LeapWatch, Looked};
use fencepost_domain::service::ServiceName;
use fencepost_store::tx::keep_watch::{Outage, SweepBegin};
use fencepost_store::{Store, StoreError};
use serde_json::json;

use crate::finalizer::Finalizer;
use crate::health::LoopHealth;
use crate::matcher::Matcher;
use crate::messages::{Nudge, Snapshot, TakeOver};
use crate::monotonic;
use crate::registry::{ListSessions, Registry, RouteEnds, RouteReaps, RouteRefresh};
use crate::settings::ActorSettings;
use crate::supervision::{Handle, refused};
use crate::system::ShutDown;

const BATCH: u32 = 200;
/// The most batches of one sweep, so that a flood does not keep it from ever finishing.
const MAX_BATCHES: u32 = 20;

/// What the sweeper talks to.
#[derive(Clone)]
pub struct SweeperLinks {
    /// Asked what is due.
    pub store: Store,
    /// Takes verifications over.
    pub finalizer: Handle<Finalizer>,
    /// Knows who is connected, and routes ends.
    pub registry: Handle<Registry>,
    /// Told when something may have been requeued; set once it exists.
    pub matcher: std::sync::Arc<std::sync::OnceLock<Handle<Matcher>>>,
    /// Notices leaps of the clock; outlives a sweeper that is built again.
    pub leaps: std::sync::Arc<std::sync::Mutex<LeapWatch>>,
}

/// The sweeper.
pub struct Sweeper {
    near: SweeperLinks,
    settings: ActorSettings,
    health: LoopHealth,
    /// A sweep is in the mailbox already.
    queued: bool,
    /// The gateway is going down, and with it the store.
    closed: bool,
    ended: u64,
}

/// Timer or matcher → sweeper: sweep.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct SweepNow;

/// Sweeper → itself.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct RunSweep;

impl Sweeper {
    /// A sweeper.
    pub fn new(near: SweeperLinks, settings: ActorSettings, health: LoopHealth) -> Self {
        Self {
            near,
            settings,
            health,
            queued: false,
            closed: false,
            ended: 0,
        }
    }

    fn queue(&mut self, ctx: &mut Context<Self>) {
        if self.queued || self.closed {
            return;
        }
        match ctx.address().try_send(RunSweep) {
            Ok(()) => self.queued = true,
            Err(_) => refused("sweeper"),
        }
    }
}

impl SweeperLinks {
    /// One sweep; how many attempts it ended.
    async fn sweep(&self) -> Result<u64, StoreError> {
        let services: Vec<_> = ServiceName::ALL
            .iter()
            .map(|service| service.as_str())
            .collect();
        let outages = self.begin().await?;
        let mut total = 0;
        let mut freed = false;
        let mut looked_at = None;
        for _ in 0..MAX_BATCHES {
            let report = self
                .store
                .expire_due_after(BATCH, &services, outages.iter().copied())
                .await?;
            // The timekeeper says so, loudly; there is nothing to do until the clock has caught up.
            if report.clock_regressed_by.is_some() {
                break;
            }
            let queue = self.store.tend_queue(BATCH).await?;
            total += report.ended.len() as u64;
            freed |= !report.ended.is_empty() || queue.woken > 0;
            for end in &report.ended {
                let next = end.job_status().as_str();
                metrics::counter!("fencepost_attempts_expired_total", "next" => next).increment(1);
                tracing::info!(
                    job.id = %end.job(), attempt.id = %end.attempt(), device.id = %end.device(),
                    job.next = next, "an attempt's time is over"
                );
            }
            let full =
                report.due >= BATCH as usize || queue.woken + queue.overdue >= BATCH as usize;
            looked_at = report.looked_at;
            self.hand_over(report);
            if !full {
                break;
            }
        }
        if freed
            && self
                .matcher
                .get()
                .is_some_and(|matcher| matcher.try_send(Nudge).is_err())
        {
            tracing::debug!("the matcher's timer does the same");
        }
        // A sweep that left something out is not finished: what ran out while we were away stays so.
        if let Some(looked_at) = looked_at {
            self.store.finish_sweep(looked_at).await?;
        }
        self.refresh_sessions().await?;
        Ok(total)
    }

    /// Begins a sweep; the times for whose losses nobody is charged.
    async fn begin(&self) -> Result<Vec<Outage>, StoreError> {
        let before = monotonic::now();
        let SweepBegin { now, outage } = self.store.begin_sweep().await?;
        let after = monotonic::now();
        let looked = Looked { before, after };
        let ttl = self.store.settings().lease_ttl;
        // A poisoned lock still holds what was seen.
        let mut leaps = self.leaps.lock().unwrap_or_else(PoisonError::into_inner);
        let leap = leaps.observe(now, looked, ttl).map(Outage::from);
        if let Some(outage) = outage {
            tracing::warn!(from = %outage.from, to = %outage.to, "nobody swept: losses are free");
        }
        if let Some(leap) = leap.filter(|leap| leap.to == now + ttl.signed()) {
            tracing::warn!(from = %leap.from, to = %leap.to, "the clock leapt: losses are free");
        }
        Ok(outage.into_iter().chain(leap).collect())
    }

    fn hand_over(&self, report: fencepost_store::tx::expire_due::SweepReport) {
        if !report.ended.is_empty() && self.registry.try_send(RouteEnds(report.ended)).is_err() {
            tracing::warn!("sessions learn of ended attempts from the next sweep");
        }
        if !report.verify.is_empty() && self.finalizer.try_send(TakeOver(report.verify)).is_err() {
            tracing::warn!("verifications are taken over when their time is over again");
        }
    }

    /// Re-reads the sessions that this gateway holds: ends, stops and supersedes that were decided
    /// elsewhere arrive this way.
    async fn refresh_sessions(&self) -> Result<(), StoreError> {
        let Ok(connected) = self.registry.addr().send(ListSessions).await else {
            return Ok(());
        };
        if connected.is_empty() {
            return Ok(());
        }
        let views = self.store.sessions(connected.clone()).await?;
        let reaps = self.store.claim_reaps(connected, BATCH).await?;
        if !reaps.is_empty() && self.registry.try_send(RouteReaps(reaps)).is_err() {
            tracing::debug!("devices are told again what to reap");
        }
        if self.registry.try_send(RouteRefresh(views)).is_err() {
            tracing::debug!("the next sweep reads them again");
        }
        Ok(())
    }
}

impl Actor for Sweeper {
    type Context = Context<Self>;
    fn started(&mut self, ctx: &mut Self::Context) {
        // At once, so that an outage is known to be over before anything of ours can run out.
        self.queue(ctx);
        ctx.run_interval(self.settings.sweep, Self::queue);
    }
}

impl Handler<SweepNow> for Sweeper {
    type Result = ();
    fn handle(&mut self, _: SweepNow, ctx: &mut Self::Context) {
        self.queue(ctx);
    }
}

impl Handler<ShutDown> for Sweeper {
    type Result = ();
    fn handle(&mut self, _: ShutDown, _: &mut Self::Context) {
        self.closed = true;
    }
}

impl Handler<RunSweep> for Sweeper {
    type Result = AtomicResponse<Self, ()>;
    fn handle(&mut self, _: RunSweep, _: &mut Self::Context) -> Self::Result {
        self.queued = false;
        let near = self.near.clone();
        let sweep = async move { near.sweep().await }.into_actor(self);
        AtomicResponse::new(Box::pin(sweep.map(|swept, sweeper, _| match swept {
            Ok(ended) => {
                sweeper.ended += ended;
                sweeper.health.finished();
            }
            // Not finished: after three periods `/ready` says so.
            Err(error) => tracing::warn!(%error, "a sweep failed"),
        })))
    }
}

impl Handler<Snapshot> for Sweeper {
    type Result = MessageResult<Snapshot>;
    fn handle(&mut self, _: Snapshot, _: &mut Self::Context) -> Self::Result {
        MessageResult(json!({ "ended": self.ended }))
    }
}
