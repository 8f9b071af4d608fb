//! Starts each actor on its thread, with what it needs.

use std::sync::Arc;

use actix::Arbiter;
use fencepost_media::Tools;
use fencepost_store::Store;
use fencepost_store::artifacts::ArtifactStore;

use super::MatcherCell;
use crate::announcer::Announcer;
use crate::batch::{BatchCall, Batcher};
use crate::collector::Collector;
use crate::finalizer::{BeginCall, EndCall, EndSessionCall, Finalizer, FinalizerLinks, SettleCall};
use crate::health::LoopHealth;
use crate::matcher::Matcher;
use crate::registry::Registry;
use crate::session::{ArtifactCall, EventCall, HandOffCall, ProgressCall, ReapedCall, Records};
use crate::settings::ActorSettings;
use crate::shared::{
    ClockCall, DeviceCall, JobCall, KeyCall, PlaceCall, SharedCalls, SubmitCall, WaitingCall,
};
use crate::supervision::{Handle, supervise};
use crate::sweeper::{Sweeper, SweeperLinks};
use crate::timekeeper::{ClockHealth, Timekeeper};
use crate::verifier::Verifier;
use crate::webhooks::{Dispatcher, RecordCall, Webhooks};

pub(super) fn announcer(
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

pub(super) fn collector(
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
pub(super) fn dispatcher(
    store: &Store,
    webhooks: Webhooks,
    health: &LoopHealth,
) -> Handle<Dispatcher> {
    let arbiter = Arbiter::new();
    let (store, health) = (store.clone(), health.clone());
    let record = batcher(&arbiter, RecordCall(store.clone()));
    supervise("dispatcher", &arbiter, move || {
        let (store, webhooks) = (store.clone(), webhooks.clone());
        Dispatcher::new(store, webhooks, record.clone(), health.clone())
    })
}

pub(super) fn verifier(
    checking: &Arbiter,
    artifacts: ArtifactStore,
    tools: Option<Tools>,
    most: (usize, u64),
) -> Handle<Verifier> {
    supervise("verifier", checking, move || {
        Verifier::new(artifacts.clone(), tools.clone(), most)
    })
}

pub(super) fn finalizer(
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

pub(super) fn matcher(
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

pub(super) fn timekeeper(
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

pub(super) fn sweeper(
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

/// The calls that HTTP requests share.
pub(super) fn shared_calls(core: &Arbiter, store: &Store) -> SharedCalls {
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
pub(super) fn records(core: &Arbiter, store: &Store) -> Records {
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
