//! The actors are wired here, in two steps: those that others need first, and the one that closes
//! the circle (the matcher) by a cell that is set once.

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
use crate::batch::{BatchCall, Batcher};
use crate::collector::{self, Collector};
use crate::finalizer::{BeginCall, EndCall, EndSessionCall, Finalizer, FinalizerLinks, SettleCall};
use crate::health::LoopHealth;
use crate::matcher::{Matcher, POLL};
use crate::messages::{Nudge, Snapshot};
use crate::registry::{ListSessions, Registry, RouteEnds, RouteStop};
use crate::session::{
    ArtifactCall, DeviceSession, EventCall, HandOffCall, Neighbours, OfferLinks, Outside,
    ProgressCall, ReapedCall, Records,
};
use crate::settings::ActorSettings;
use crate::shared::{
    ClockCall, DeviceCall, JobCall, KeyCall, PlaceCall, SharedCalls, SubmitCall, WaitingCall,
};
use crate::supervision::{Handle, supervise};
use crate::sweeper::{Sweeper, SweeperLinks};
use crate::timekeeper::{self, ClockHealth, Timekeeper};
use crate::transport::{FromTransport, ToTransport};
use crate::verifier::Verifier;
use crate::webhooks::{self, Dispatcher, RecordCall, Webhooks};

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
        let collector = start_collector(&checking, &store, &artifacts, &collect_health);
        let dispatch_health = LoopHealth::new("dispatcher", webhooks::SELDOM);
        let dispatcher = start_dispatcher(&store, webhooks, &dispatch_health);
        let clock = ClockHealth::default();
        let clock_health = LoopHealth::new("timekeeper", timekeeper::PERIOD);
        let timekeeper = start_timekeeper(&core, &store, &clock, &clock_health);
        let announce_health = LoopHealth::new("announcer", announcer::HEALTH_PERIOD);
        let announcer = start_announcer(&sessions, &store, &settings, &announce_health);
        let registry = supervise("registry", &core, Registry::default);
        let most = (settings.verifications, settings.max_output_bytes);
        let verifier = start_verifier(&checking, artifacts, tools, most);
        let near = (&store, &registry, &verifier);
        let finalizer = start_finalizer(&core, near, &matcher_cell, &settings);
        let near = SweeperLinks {
            store: store.clone(),
            finalizer: finalizer.clone(),
            registry: registry.clone(),
            matcher: Arc::clone(&matcher_cell),
            leaps: Arc::default(),
        };
        let sweeper = start_sweeper(&core, near, &settings, &sweep_health);
        let near = (&store, &finalizer, &sweeper);
        let matcher = start_matcher(&core, near, &settings, &match_health);
        // The cell is new, so nobody can have set it.
        let _ = matcher_cell.set(matcher.clone());
        let shared = shared_calls(&core, &store);
        let near = Neighbours {
            links: OfferLinks::new(links, settings.max_output_bytes),
            records: records(&core, &store),
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

fn start_announcer(
    arbiter: &Arbiter,
    store: &Store,
    settings: &ActorSettings,
    health: &LoopHealth,
) -> Handle<Announcer> {
    let (store, limits, health) = (store.clone(), settings.watching, health.clone());
    supervise("announcer", arbiter, move || {
        Announcer::new(store.clone(), limits, health.clone())
    })
}

fn start_collector(
    arbiter: &Arbiter,
    store: &Store,
    artifacts: &ArtifactStore,
    health: &LoopHealth,
) -> Handle<Collector> {
    let (store, artifacts, health) = (store.clone(), artifacts.clone(), health.clone());
    supervise("collector", arbiter, move || {
        Collector::new(store.clone(), artifacts.clone(), health.clone())
    })
}

/// On a thread of its own: whatever receivers send back keeps nobody else waiting.
fn start_dispatcher(store: &Store, webhooks: Webhooks, health: &LoopHealth) -> Handle<Dispatcher> {
    let arbiter = Arbiter::new();
    let (store, health) = (store.clone(), health.clone());
    let record = batcher(&arbiter, RecordCall(store.clone()));
    supervise("dispatcher", &arbiter, move || {
        let (store, webhooks) = (store.clone(), webhooks.clone());
        Dispatcher::new(store, webhooks, record.clone(), health.clone())
    })
}

fn start_verifier(
    checking: &Arbiter,
    artifacts: ArtifactStore,
    tools: Option<Tools>,
    most: (usize, u64),
) -> Handle<Verifier> {
    supervise("verifier", checking, move || {
        Verifier::new(artifacts.clone(), tools.clone(), most)
    })
}

fn start_finalizer(
    core: &Arbiter,
    (store, registry, verifier): (&Store, &Handle<Registry>, &Handle<Verifier>),
    matcher: &MatcherCell,
    settings: &ActorSettings,
) -> Handle<Finalizer> {
    let links = FinalizerLinks {
        store: store.clone(),
        begin: batcher(core, BeginCall(store.clone())),
        settle: batcher(core, SettleCall(store.clone())),
        end: batcher(core, EndCall(store.clone())),
        end_session: batcher(core, EndSessionCall(store.clone())),
        verifier: verifier.clone(),
        registry: registry.clone(),
        matcher: Arc::clone(matcher),
        settings: settings.clone(),
    };
    supervise("finalizer", core, move || Finalizer::new(links.clone()))
}

fn start_matcher(
    core: &Arbiter,
    (store, finalizer, sweeper): (&Store, &Handle<Finalizer>, &Handle<Sweeper>),
    settings: &ActorSettings,
    health: &LoopHealth,
) -> Handle<Matcher> {
    let (store, finalizer, sweeper) = (store.clone(), finalizer.clone(), sweeper.clone());
    let (settings, health) = (settings.clone(), health.clone());
    supervise("matcher", core, move || {
        Matcher::new(
            store.clone(),
            finalizer.clone(),
            sweeper.clone(),
            settings.clone(),
            health.clone(),
        )
    })
}

fn start_timekeeper(
    arbiter: &Arbiter,
    store: &Store,
    clock: &ClockHealth,
    health: &LoopHealth,
) -> Handle<Timekeeper> {
    let (store, clock, health) = (store.clone(), clock.clone(), health.clone());
    supervise("timekeeper", arbiter, move || {
        Timekeeper::new(store.clone(), health.clone(), clock.clone())
    })
}

fn start_sweeper(
    arbiter: &Arbiter,
    near: SweeperLinks,
    settings: &ActorSettings,
    health: &LoopHealth,
) -> Handle<Sweeper> {
    let (settings, health) = (settings.clone(), health.clone());
    supervise("sweeper", arbiter, move || {
        Sweeper::new(near.clone(), settings.clone(), health.clone())
    })
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

/// The calls that HTTP requests share.
fn shared_calls(core: &Arbiter, store: &Store) -> SharedCalls {
    SharedCalls {
        submit: batcher(core, SubmitCall(store.clone())),
        place: batcher(core, PlaceCall(store.clone())),
        job: batcher(core, JobCall(store.clone())),
        waiting: batcher(core, WaitingCall(store.clone())),
        key: batcher(core, KeyCall(store.clone())),
        device: batcher(core, DeviceCall(store.clone())),
        clock: batcher(core, ClockCall(store.clone())),
    }
}

/// The calls that sessions share.
fn records(core: &Arbiter, store: &Store) -> Records {
    Records {
        progress: batcher(core, ProgressCall(store.clone())),
        events: batcher(core, EventCall(store.clone())),
        artifacts: batcher(core, ArtifactCall(store.clone())),
        hand_offs: batcher(core, HandOffCall(store.clone())),
        reaped: batcher(core, ReapedCall(store.clone())),
    }
}

/// A batcher whose work runs on `arbiter`.
fn batcher<C: BatchCall>(arbiter: &Arbiter, call: C) -> Batcher<C> {
    let (batcher, work) = Batcher::new(call);
    if !arbiter.spawn(work) {
        tracing::error!("an arbiter ended before it began");
    }
    batcher
}
