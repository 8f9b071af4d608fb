//! The actors are wired here, in two steps: those that others need first, and the one that closes
//! the circle (the matcher) by a cell that is set once.

mod start;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use actix::{Actor, Addr, Arbiter, Message, Recipient};
use fencepost_domain::attempt::Phase;
use fencepost_domain::fencing::LeaseClaim;
use fencepost_domain::ids::{DeviceId, SessionNumber};
use fencepost_media::Tools;
use fencepost_store::artifacts::{ArtifactStore, Links};
use fencepost_store::tx::cancel_job::Cancelled;
use fencepost_store::tx::record_progress::Progress;
use fencepost_store::{Store, StoreError};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::announcer::{self, Announcer, Listen, ListenRefusal, Told};
use crate::collector::{self, Collector};
use crate::health::LoopHealth;
use crate::matcher::{Matcher, POLL};
use crate::messages::{Nudge, Snapshot};
use crate::registry::{ListSessions, Registry, RouteEnds, RouteStop};
use crate::session::{DeviceSession, Neighbours, OfferLinks, Outside};
use crate::settings::ActorSettings;
use crate::shared::SharedCalls;
use crate::supervision::{Handle, supervise};
use crate::sweeper::{Sweeper, SweeperLinks};
use crate::timekeeper::{self, ClockHealth, Timekeeper};
use crate::transport::{FromTransport, ToTransport};
use crate::verifier::Verifier;
use crate::webhooks::{self, Dispatcher, Webhooks};

/// Set once the matcher exists, which needs those that need it.
type MatcherCell = Arc<OnceLock<Handle<Matcher>>>;

const ASK_LIMIT: Duration = Duration::from_millis(500);

/// What the actors stand on.
pub struct Dependencies {
    /// Postgres.
    pub store: Store,
    /// Objects.
    pub artifacts: ArtifactStore,
    /// Makes links.
    pub links: Links,
    /// FFmpeg, for verification.
    pub tools: Option<Tools>,
    /// For events on their way to buyers.
    pub webhooks: Webhooks,
    /// Periods and bounds.
    pub settings: ActorSettings,
}

/// Everyone: no more offers, close the sockets; the gateway is going down.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct ShutDown;

/// All actors of one gateway.
#[derive(Clone)]
pub struct ActorSystem {
    near: Neighbours,
    verifier: Handle<Verifier>,
    sweeper: Handle<Sweeper>,
    collector: Handle<Collector>,
    dispatcher: Handle<Dispatcher>,
    timekeeper: Handle<Timekeeper>,
    announcer: Handle<Announcer>,
    clock: ClockHealth,
    sessions: actix::ArbiterHandle,
    shared: SharedCalls,
    outside: Outside,
    loops: Vec<LoopHealth>,
}

impl ActorSystem {
    /// Starts the actors. Must be called within an actix system.
    pub fn start(on: Dependencies) -> Self {
        let Dependencies {
            store,
            artifacts,
            links,
            tools,
            webhooks,
            settings,
        } = on;
        let (core, checking, sessions) = (Arbiter::new(), Arbiter::new(), Arbiter::new());
        let sweep_health = LoopHealth::new("sweeper", settings.sweep);
        let match_health = LoopHealth::new("matcher", POLL);
        let matcher_cell = MatcherCell::default();

        let collect_health = LoopHealth::new("collector", collector::PERIOD);
        let collector = start::collector(&checking, &store, &artifacts, &collect_health);
        let dispatch_health = LoopHealth::new("dispatcher", webhooks::SELDOM);
        let vault = webhooks.vault.clone();
        let dispatcher = start::dispatcher(&store, webhooks, &dispatch_health);
        let clock = ClockHealth::default();
        let clock_health = LoopHealth::new("timekeeper", timekeeper::PERIOD);
        let timekeeper = start::timekeeper(&core, &store, &clock, &clock_health);
        let announce_health = LoopHealth::new("announcer", announcer::HEALTH_PERIOD);
        let announcer = start::announcer(&sessions, &store, &settings, &announce_health);
        let registry = supervise("registry", &core, Registry::default);
        let most = (settings.verifications, settings.max_output_bytes);
        let verifier = start::verifier(&checking, artifacts, tools, most);
        let near = (&store, &registry, &verifier);
        let finalizer = start::finalizer(&core, near, &matcher_cell, &settings);
        let near = SweeperLinks {
            store: store.clone(),
            finalizer: finalizer.clone(),
            registry: registry.clone(),
            matcher: Arc::clone(&matcher_cell),
            leaps: Arc::default(),
        };
        let sweeper = start::sweeper(&core, near, &settings, &sweep_health);
        let near = (&store, &finalizer, &sweeper);
        let matcher = start::matcher(&core, near, &settings, &match_health);
        // The cell is new, so nobody can have set it.
        let _ = matcher_cell.set(matcher.clone());
        let shared = start::shared_calls(&core, &store);
        let near = Neighbours {
            links: OfferLinks::new(links, vault, settings.max_output_bytes),
            records: start::records(&core, &store),
            store,
            matcher,
            finalizer,
            registry,
            settings,
        };
        let loops = vec![
            sweep_health,
            match_health,
            clock_health,
            collect_health,
            announce_health,
            dispatch_health,
        ];
        Self {
            outside: Outside::new(near.clone(), sweeper.clone()),
            near,
            verifier,
            sweeper,
            collector,
            dispatcher,
            timekeeper,
            announcer,
            clock,
            sessions: sessions.handle(),
            shared,
            loops,
        }
    }

    /// A session for an authenticated socket whose number was minted before the upgrade was
    /// answered. What the socket reads goes to the returned recipient.
    pub fn open_session(
        &self,
        device: DeviceId,
        session: SessionNumber,
        socket: Recipient<ToTransport>,
    ) -> Recipient<FromTransport> {
        let actor = DeviceSession::new(device, session, socket, self.near.clone());
        let addr: Addr<DeviceSession> =
            DeviceSession::start_in_arbiter(&self.sessions, move |_| actor);
        addr.recipient()
    }

    /// What HTTP requests ask of the store, together.
    pub fn shared(&self) -> &SharedCalls {
        &self.shared
    }

    /// Leases outside sockets.
    pub fn outside(&self) -> &Outside {
        &self.outside
    }

    /// A job was queued: there may be a device for it.
    pub fn job_submitted(&self) {
        if self.near.matcher.try_send(Nudge).is_err() {
            tracing::debug!("the matcher's timer does the same");
        }
    }

    /// A job was cancelled: tells whoever works on it.
    pub fn job_cancelled(&self, cancelled: &Cancelled) {
        let registry = &self.near.registry;
        let untold = cancelled
            .stopping
            .is_some_and(|stop| registry.try_send(RouteStop(stop)).is_err())
            || cancelled
                .ended
                .clone()
                .is_some_and(|end| registry.try_send(RouteEnds(vec![end])).is_err());
        if untold {
            tracing::warn!("the session learns of the cancel from the next sweep");
        }
        self.job_submitted();
    }

    /// Tells what becomes of a job, to whoever may listen.
    pub async fn listen(&self, listen: Listen) -> Result<mpsc::Receiver<Told>, ListenRefusal> {
        let listening = self.announcer.addr().send(listen).timeout(ASK_LIMIT).await;
        // It is being built again, or has a very long queue.
        listening.unwrap_or(Err(ListenRefusal::Full))
    }

    /// The loops and when they last came round.
    pub fn loops(&self) -> &[LoopHealth] {
        &self.loops
    }

    /// What is wrong with Postgres's clock, if anything is.
    pub fn clock_trouble(&self) -> Option<String> {
        self.clock.trouble()
    }

    /// How everyone is: `alive` with a snapshot, or `busy` where there was no answer in time.
    pub async fn snapshot(&self) -> Value {
        let near = &self.near;
        json!({
            "registry": ask(&near.registry.addr()).await,
            "matcher": ask(&near.matcher.addr()).await,
            "finalizer": ask(&near.finalizer.addr()).await,
            "verifier": ask(&self.verifier.addr()).await,
            "sweeper": ask(&self.sweeper.addr()).await,
            "timekeeper": ask(&self.timekeeper.addr()).await,
            "collector": ask(&self.collector.addr()).await,
            "announcer": ask(&self.announcer.addr()).await,
            "dispatcher": ask(&self.dispatcher.addr()).await,
        })
    }

    /// No more offers; live leases are renewed once, so that agents have a whole lease to reconnect
    /// in; then every socket is closed with "restart".
    pub async fn shut_down(&self) {
        if self.near.matcher.try_send(ShutDown).is_err()
            || self.sweeper.try_send(ShutDown).is_err()
            || self.timekeeper.try_send(ShutDown).is_err()
            || self.announcer.try_send(ShutDown).is_err()
            || self.dispatcher.try_send(ShutDown).is_err()
        {
            tracing::warn!("not every loop could be told; the process ends all the same");
        }
        if let Err(error) = self.renew_all().await {
            tracing::warn!(%error, "leases were not renewed before going down");
        }
        if self.near.registry.try_send(ShutDown).is_err() {
            tracing::warn!("sessions could not be told; their sockets end with the process");
        }
    }

    async fn renew_all(&self) -> Result<(), StoreError> {
        let Ok(connected) = self.near.registry.addr().send(ListSessions).await else {
            return Ok(());
        };
        let views = self.near.store.sessions(connected).await?;
        let renewals: Vec<_> = views
            .iter()
            .flat_map(|view| view.live.iter().map(|held| (view.device, held)))
            .filter(|(_, held)| held.accepted && !held.claimed)
            .map(|(device, held)| Progress {
                claim: LeaseClaim {
                    device,
                    job: held.job,
                    attempt: held.attempt,
                    epoch: held.epoch,
                },
                // Phases only move forward: this one changes nothing.
                phase: Some(Phase::Leased),
                percent: None,
                detail: None,
            })
            .collect();
        if !renewals.is_empty() {
            self.near.store.record_progress(renewals).await?;
        }
        Ok(())
    }
}

async fn ask<A>(addr: &Addr<A>) -> Value
where
    A: Actor + actix::Handler<Snapshot>,
    A::Context: actix::dev::ToEnvelope<A, Snapshot>,
{
    match addr.send(Snapshot).timeout(ASK_LIMIT).await {
        Ok(snapshot) => json!({ "state": "alive", "snapshot": snapshot }),
        Err(actix::MailboxError::Timeout) => json!({ "state": "busy" }),
        Err(actix::MailboxError::Closed) => json!({ "state": "dead" }),
    }
}
