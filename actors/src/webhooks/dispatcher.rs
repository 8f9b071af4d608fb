//! Sends what is due, as much at once as there is room for.
//!
//! A reconciler like the sweeper: it asks Postgres what is due, and may run on several gateways. Each
//! look is one transaction, and so is what is recorded; in between nothing is open, however long a
//! receiver takes. Endpoints that fail share a part of the room, so they keep nobody waiting.

use std::future::Future;
use std::time::Duration;

use actix::{
    Actor, ActorFutureExt, AsyncContext, Context, Handler, Message, MessageResult, WrapFuture,
};
use fencepost_store::tx::webhooks::claim::{Claimed, Room};
use fencepost_store::tx::webhooks::record::{Recorded, Try};
use fencepost_store::{Store, StoreError};
use serde_json::json;

use super::{Webhooks, sending};
use crate::batch::{BatchError, Batcher, batch_call};
use crate::health::LoopHealth;
use crate::messages::Snapshot;
use crate::supervision::refused;
use crate::system::ShutDown;

/// How often it looks when nothing else makes it look.
const PERIOD: Duration = Duration::from_millis(500);
/// How often it should look at least: a busy database may keep it waiting, which is no reason to
/// send buyers away.
pub(crate) const SELDOM: Duration = Duration::from_secs(5);
/// The most deliveries that are sent at once.
const MOST_AT_ONCE: u32 = 256;
/// Of them, to endpoints that fail.
const MOST_FAILING: u32 = 96;
/// A record that found no database is tried again for as long as its claim may last.
const RECORD_AGAIN: Duration = Duration::from_secs(1);
const MOST_RECORDS: u32 = 10;

batch_call! {
    /// `record_deliveries` as a batch.
    RecordCall = record_deliveries(Try) -> Recorded
}

/// The dispatcher.
pub struct Dispatcher {
    store: Store,
    webhooks: Webhooks,
    record: Batcher<RecordCall>,
    health: LoopHealth,
    closed: bool,
    /// A look is under way.
    looking: bool,
    /// Another one is wanted after it.
    look_again: bool,
    in_flight: u32,
    failing_in_flight: u32,
}

/// Timer → itself.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct Look;

impl Dispatcher {
    /// A dispatcher with nothing in hand.
    pub fn new(
        store: Store,
        webhooks: Webhooks,
        record: Batcher<RecordCall>,
        health: LoopHealth,
    ) -> Self {
        Self {
            store,
            webhooks,
            record,
            health,
            closed: false,
            looking: false,
            look_again: false,
            in_flight: 0,
            failing_in_flight: 0,
        }
    }

    fn look(&mut self, ctx: &mut Context<Self>) {
        if self.closed || self.looking {
            self.look_again |= self.looking;
            return;
        }
        let room = Room {
            all: MOST_AT_ONCE.saturating_sub(self.in_flight),
            failing: MOST_FAILING.saturating_sub(self.failing_in_flight),
        };
        if room.all == 0 {
            // Busy, which is well: each of them ends in time, and makes it look.
            self.health.finished();
            return;
        }
        self.looking = true;
        let store = self.store.clone();
        let claim = async move { store.claim_deliveries(room).await }.into_actor(self);
        ctx.spawn(claim.map(Self::looked));
    }

    fn looked(
        claimed: Result<Vec<Claimed>, StoreError>,
        dispatcher: &mut Self,
        ctx: &mut Context<Self>,
    ) {
        dispatcher.looking = false;
        let wanted = std::mem::take(&mut dispatcher.look_again);
        match claimed {
            Ok(claimed) => {
                dispatcher.health.finished();
                let found = !claimed.is_empty();
                for delivery in claimed {
                    dispatcher.send(delivery, ctx);
                }
                if found || wanted {
                    dispatcher.look(ctx);
                }
            }
            // The store closes while we go down.
            Err(_) if dispatcher.closed => {}
            Err(error) => tracing::warn!(%error, "nothing was delivered"),
        }
    }

    fn send(&mut self, delivery: Claimed, ctx: &mut Context<Self>) {
        let failing = u32::from(delivery.is_failing);
        self.in_flight += 1;
        self.failing_in_flight += failing;
        let work = deliver(self.webhooks.clone(), self.record.clone(), delivery);
        ctx.spawn(work.into_actor(self).map(move |(), dispatcher, ctx| {
            dispatcher.in_flight -= 1;
            dispatcher.failing_in_flight -= failing;
            dispatcher.look(ctx);
        }));
    }
}

/// Sends one delivery and records how it went.
async fn deliver(webhooks: Webhooks, record: Batcher<RecordCall>, delivery: Claimed) {
    let (endpoint, event) = (delivery.endpoint, delivery.event);
    let made = sending::send(webhooks, delivery).await;
    for _ in 0..MOST_RECORDS {
        match record.call(made.clone()).await {
            Ok(recorded) => {
                let outcome = recorded.as_str();
                metrics::counter!("fencepost_webhook_deliveries_total", "outcome" => outcome)
                    .increment(1);
                tracing::info!(
                    endpoint.id = %endpoint, event.id = %event, outcome, "a webhook was tried"
                );
                if recorded == Recorded::Disabled {
                    tracing::warn!(endpoint.id = %endpoint, "a webhook endpoint was switched off");
                }
                return;
            }
            Err(BatchError::Gone) => return,
            Err(error) => {
                tracing::warn!(endpoint.id = %endpoint, event.id = %event, %error, "not recorded");
            }
        }
        tokio::time::sleep(RECORD_AGAIN).await;
    }
    tracing::warn!(endpoint.id = %endpoint, event.id = %event, "a webhook may be sent twice");
}

impl Actor for Dispatcher {
    type Context = Context<Self>;
    fn started(&mut self, ctx: &mut Self::Context) {
        for outcome in Recorded::ALL {
            let outcome = outcome.as_str();
            metrics::counter!("fencepost_webhook_deliveries_total", "outcome" => outcome)
                .increment(0);
        }
        ctx.run_interval(PERIOD, |dispatcher, ctx| {
            if !dispatcher.closed && ctx.address().try_send(Look).is_err() {
                refused("dispatcher");
            }
        });
    }
}

impl Handler<Look> for Dispatcher {
    type Result = ();
    fn handle(&mut self, _: Look, ctx: &mut Self::Context) {
        self.look(ctx);
    }
}

impl Handler<ShutDown> for Dispatcher {
    type Result = ();
    fn handle(&mut self, _: ShutDown, _: &mut Self::Context) {
        self.closed = true;
    }
}

impl Handler<Snapshot> for Dispatcher {
    type Result = MessageResult<Snapshot>;
    fn handle(&mut self, _: Snapshot, _: &mut Self::Context) -> Self::Result {
        MessageResult(json!({
            "in_flight": self.in_flight,
            "failing_in_flight": self.failing_in_flight,
        }))
    }
}
