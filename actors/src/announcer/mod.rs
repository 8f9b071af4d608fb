//! Tells buyers who watch jobs what becomes of them.
//!
//! One actor reads for everybody who watches at this gateway: one call of the store a round, however
//! many they are. Nobody holds a connection, and nobody can hold up another: what a listener has not
//! taken waits in Postgres, not here, and who takes nothing for long is cut off, to come again from
//! where they were.

mod desk;
mod waits;

use std::time::Duration;

use actix::{
    Actor, ActorFutureExt, AsyncContext, Context, Handler, Message, MessageResult, WrapFuture,
};
use fencepost_domain::ids::{JobId, OrgId};
use fencepost_store::views::{JobNews, NewsAfter};
use fencepost_store::{Store, StoreError};
use serde_json::json;
use tokio::sync::mpsc;

pub use desk::{ListenRefusal, Told, WatchLimits};

use crate::health::LoopHealth;
use crate::messages::Snapshot;
use crate::supervision::refused;
use crate::system::ShutDown;
use desk::Desk;
use waits::Waits;

/// How often it looks while somebody listens.
const PERIOD: Duration = Duration::from_millis(250);
/// For its health: it reads on the connections that are not reserved, and waits its turn.
pub(crate) const HEALTH_PERIOD: Duration = Duration::from_secs(5);

/// HTTP → announcer: tell me what becomes of a job. The answers come on the channel, which ends after
/// the job's end, when its owner is too slow, and when the gateway stops.
#[derive(Message)]
#[rtype(result = "Result<mpsc::Receiver<Told>, ListenRefusal>")]
pub struct Listen {
    /// Whose job it is, which the caller has checked.
    pub org: OrgId,
    /// The job.
    pub job: JobId,
    /// What is known already.
    pub after: i64,
    /// Ends the connection of a listener that takes nothing.
    pub cut: Box<dyn FnOnce() + Send>,
}

/// Timer → itself, and itself → itself while there is more.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct Look;

/// The announcer.
pub struct Announcer {
    store: Store,
    health: LoopHealth,
    desk: Desk,
    waits: Waits,
    /// Whether a round is on its way.
    looking: bool,
    /// Whether the last round failed, so that it is said once.
    failing: bool,
}

/// What is new, question by question, and why jobs wait.
type Round = (Vec<(NewsAfter, Option<JobNews>)>, Waits);

async fn round(store: Store, asked: Vec<NewsAfter>, mut waits: Waits) -> Result<Round, StoreError> {
    let mut news = store.job_news(asked.clone()).await?;
    waits.explain(&store, &mut news).await?;
    Ok((asked.into_iter().zip(news).collect(), waits))
}

impl Announcer {
    /// An announcer that nobody listens to.
    pub fn new(store: Store, limits: WatchLimits, health: LoopHealth) -> Self {
        Self {
            store,
            health,
            desk: Desk::new(limits),
            waits: Waits::default(),
            looking: false,
            failing: false,
        }
    }

    /// Begins a round, unless one is on its way or nobody listens.
    fn look(&mut self, ctx: &mut Context<Self>) {
        if self.looking {
            return;
        }
        let asked = self.desk.questions();
        let streams = u32::try_from(self.desk.len()).unwrap_or(u32::MAX);
        metrics::gauge!("fencepost_event_streams").set(f64::from(streams));
        if asked.is_empty() {
            self.health.finished();
            return;
        }
        self.looking = true;
        let round = round(self.store.clone(), asked, std::mem::take(&mut self.waits));
        ctx.spawn(
            round
                .into_actor(self)
                .map(|news, announcer, ctx| announcer.looked(news, ctx)),
        );
    }

    fn looked(&mut self, news: Result<Round, StoreError>, ctx: &mut Context<Self>) {
        self.looking = false;
        match news {
            Ok((news, waits)) => {
                self.waits = waits;
                self.health.finished();
                self.failing = false;
                let has_more = self.desk.deliver(&news);
                if has_more && ctx.address().try_send(Look).is_err() {
                    refused("announcer");
                }
            }
            // Listeners wait; nothing is lost.
            Err(error) if !self.failing => {
                self.failing = true;
                tracing::warn!(%error, "who watches jobs is told later");
            }
            Err(_) => {}
        }
    }
}

impl Actor for Announcer {
    type Context = Context<Self>;
    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(PERIOD, Self::look);
    }
}

impl Handler<Look> for Announcer {
    type Result = ();
    fn handle(&mut self, _: Look, ctx: &mut Self::Context) {
        self.look(ctx);
    }
}

impl Handler<Listen> for Announcer {
    type Result = MessageResult<Listen>;
    fn handle(&mut self, listen: Listen, ctx: &mut Self::Context) -> Self::Result {
        let listening = self.desk.listen(listen);
        self.look(ctx);
        MessageResult(listening)
    }
}

impl Handler<ShutDown> for Announcer {
    type Result = ();
    fn handle(&mut self, _: ShutDown, _: &mut Self::Context) {
        self.desk.close();
    }
}

impl Handler<Snapshot> for Announcer {
    type Result = MessageResult<Snapshot>;
    fn handle(&mut self, _: Snapshot, _: &mut Self::Context) -> Self::Result {
        MessageResult(json!({ "streams": self.desk.len() }))
    }
}
