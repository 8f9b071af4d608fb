//! Deletes what ended attempts left behind in the object store, prunes old records and forgets old
//! requests and deliveries. Never in a hurry.

use std::time::Duration;

use actix::{
    Actor, ActorFutureExt, AsyncContext, AtomicResponse, Context, Handler, Message, MessageResult,
    WrapFuture,
};
use fencepost_store::artifacts::{ArtifactError, ArtifactStore};
use fencepost_store::tx::collect_garbage::Garbage;
use fencepost_store::{Store, StoreError};
use serde_json::json;
use tokio::time::Instant;

use crate::health::LoopHealth;
use crate::messages::Snapshot;
use crate::supervision::refused;
use crate::system::ShutDown;

/// How often it looks.
pub(crate) const PERIOD: Duration = Duration::from_secs(10);
const BATCH: u32 = 100;
/// The most batches of old jobs that are pruned in one pass.
const MOST_PRUNES: u32 = 10;
/// The longest that the objects of one attempt may take, and that all may if some fail.
const LONGEST: Duration = Duration::from_secs(10);
/// The most old requests that are forgotten in one pass.
const MOST_REQUESTS: u32 = 1_000;

/// The most old deliveries that are looked at in one pass.
const MOST_DELIVERIES: u32 = 1_000;

/// The collector.
pub struct Collector {
    store: Store,
    artifacts: ArtifactStore,
    health: LoopHealth,
    closed: bool,
    deleted: u64,
}

/// Timer → itself.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct Collect;

impl Collector {
    /// A collector.
    pub fn new(store: Store, artifacts: ArtifactStore, health: LoopHealth) -> Self {
        Self {
            store,
            artifacts,
            health,
            closed: false,
            deleted: 0,
        }
    }
}

/// One pass; how many objects were deleted.
async fn collect(store: Store, artifacts: ArtifactStore) -> Result<u64, StoreError> {
    store.prune_keys(BATCH).await?;
    store.expire_files(BATCH).await?;
    let mut deleted = of_attempts(&store, &artifacts).await?;
    deleted += retire(&store, &artifacts).await?;
    deleted += of_uploads(&store, &artifacts).await?;
    store.forget_requests(MOST_REQUESTS).await?;
    prune(&store).await?;
    store.prune_deliveries(MOST_DELIVERIES).await?;
    Ok(deleted)
}

async fn of_attempts(store: &Store, artifacts: &ArtifactStore) -> Result<u64, StoreError> {
    let garbage = store.collect_garbage(BATCH).await?;
    let began = Instant::now();
    let (mut done, mut deleted) = (Vec::new(), 0);
    for one in garbage {
        match soon(delete(artifacts, &one)).await {
            Ok(()) => {
                deleted += (one.keys.len() + one.copies.len()) as u64;
                done.push(one.attempt);
            }
            Err(error) => {
                tracing::warn!(attempt.id = %one.attempt, %error, "objects are deleted later");
                if began.elapsed() > LONGEST {
                    break;
                }
            }
        }
    }
    if !done.is_empty() {
        store.garbage_deleted(done).await?;
    }
    Ok(deleted)
}

/// Deletes uploads that nobody needs any more; how many.
async fn retire(store: &Store, artifacts: &ArtifactStore) -> Result<u64, StoreError> {
    let began = Instant::now();
    let mut erased = Vec::new();
    for one in store.retire_uploads(BATCH).await? {
        match soon(artifacts.delete(&one.object_key)).await {
            Ok(()) => erased.push(one.upload),
            Err(error) => {
                tracing::warn!(upload.id = %one.upload, %error, "an upload is deleted later");
                if began.elapsed() > LONGEST {
                    break;
                }
            }
        }
    }
    let count = erased.len() as u64;
    if !erased.is_empty() {
        store.uploads_erased(erased).await?;
    }
    Ok(count)
}

/// Prunes the records of jobs that ended long ago, some of them in each pass.
async fn prune(store: &Store) -> Result<(), StoreError> {
    for _ in 0..MOST_PRUNES {
        if store.prune_jobs(BATCH).await? < u64::from(BATCH) {
            break;
        }
    }
    Ok(())
}

/// A store that is away must not hold up the round: what was due comes again in an hour.
async fn soon(
    deleting: impl Future<Output = Result<(), ArtifactError>>,
) -> Result<(), ArtifactError> {
    match tokio::time::timeout(LONGEST, deleting).await {
        Ok(done) => done,
        Err(_) => Err(ArtifactError::Io("it does not answer".to_owned())),
    }
}

async fn delete(artifacts: &ArtifactStore, one: &Garbage) -> Result<(), ArtifactError> {
    // First what could still become an object.
    if let (Some(bucket), Some(parts)) = (artifacts.bucket(), &one.parts) {
        bucket.abort_parts(&parts.key, parts.id.as_deref()).await?;
    }
    for key in &one.keys {
        artifacts.delete(key).await?;
    }
    for copies in &one.copies {
        artifacts.remove_copies(copies, one.kept.as_deref()).await?;
    }
    Ok(())
}

async fn of_uploads(store: &Store, artifacts: &ArtifactStore) -> Result<u64, StoreError> {
    let garbage = store.collect_uploads(BATCH).await?;
    let began = Instant::now();
    let (mut done, mut deleted) = (Vec::new(), 0);
    for one in garbage {
        let copies = artifacts.remove_copies(&one.copies, one.kept.as_deref());
        let both = async { artifacts.delete(&one.incoming).await.and(copies.await) };
        match soon(both).await {
            Ok(()) => {
                deleted += 1;
                done.push(one.upload);
            }
            Err(error) => {
                tracing::warn!(upload.id = %one.upload, %error, "objects are deleted later");
                if began.elapsed() > LONGEST {
                    break;
                }
            }
        }
    }
    if !done.is_empty() {
        store.uploads_collected(done).await?;
    }
    Ok(deleted)
}

impl Actor for Collector {
    type Context = Context<Self>;
    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(PERIOD, |collector, ctx| {
            if !collector.closed && ctx.address().try_send(Collect).is_err() {
                refused("collector");
            }
        });
    }
}

impl Handler<Collect> for Collector {
    type Result = AtomicResponse<Self, ()>;
    fn handle(&mut self, _: Collect, _: &mut Self::Context) -> Self::Result {
        if self.closed {
            return AtomicResponse::new(Box::pin(actix::fut::ready(())));
        }
        let pass = collect(self.store.clone(), self.artifacts.clone()).into_actor(self);
        AtomicResponse::new(Box::pin(pass.map(|deleted, collector, _| match deleted {
            Ok(deleted) => {
                collector.deleted += deleted;
                collector.health.finished();
            }
            // The store closes while we go down.
            Err(_) if collector.closed => {}
            Err(error) => tracing::warn!(%error, "nothing was collected"),
        })))
    }
}

impl Handler<ShutDown> for Collector {
    type Result = ();
    fn handle(&mut self, _: ShutDown, _: &mut Self::Context) {
        self.closed = true;
    }
}

impl Handler<Snapshot> for Collector {
    type Result = MessageResult<Snapshot>;
    fn handle(&mut self, _: Snapshot, _: &mut Self::Context) -> Self::Result {
        MessageResult(json!({ "deleted": self.deleted }))
    }
}
