//! Deletes what ended attempts left behind in the object store, prunes old records and forgets old
//! requests and deliveries. Never in a hurry.

use std::time::Duration;

use actix::{
    Actor, ActorFutureExt, AsyncContext, AtomicResponse, Context, Handler, Message, MessageResult,
    WrapFuture,
};
use fencepost_store::artifacts::{ArtifactError, ArtifactStore};
use fencepost_store::tx::collect_garbage::Garbage;
use fencepost_store::tx::collect_uploads::UploadGarbage;
use fencepost_store::tx::retire_uploads::RetiredUpload;
use fencepost_store::{Store, StoreError};
use futures_util::{StreamExt as _, stream};
use serde_json::json;
use tokio::time::Instant;

use crate::health::LoopHealth;
use crate::messages::Snapshot;
use crate::supervision::refused;
use crate::system::ShutDown;

/// How often it looks.
pub(crate) const PERIOD: Duration = Duration::from_secs(10);
/// Of jobs and of what has objects, so many are taken at once.
const BATCH: u32 = 100;
/// Of small rows, so many.
const MOST_ROWS: u32 = 1_000;
/// The most batches of one kind of row in one pass.
const MOST_BATCHES: u32 = 10;
/// The longest that the objects of one attempt may take, and after which no more are begun in one pass.
const LONGEST: Duration = Duration::from_secs(10);
/// So many objects are deleted at once.
const AT_ONCE: usize = 8;

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
    again_while_full(MOST_ROWS, || store.prune_keys(MOST_ROWS)).await?;
    again_while_full(BATCH, || store.expire_files(BATCH)).await?;
    let mut deleted = of_attempts(&store, &artifacts).await?;
    deleted += retire(&store, &artifacts).await?;
    deleted += of_uploads(&store, &artifacts).await?;
    again_while_full(MOST_ROWS, || store.forget_requests(MOST_ROWS)).await?;
    again_while_full(BATCH, || store.prune_jobs(BATCH)).await?;
    again_while_full(MOST_ROWS, || store.prune_deliveries(MOST_ROWS)).await?;
    Ok(deleted)
}

/// Takes the next batch as long as one was full, but not for ever: what piles up faster than a batch in
/// each pass must go all the same.
async fn again_while_full<F>(full: u32, batch: impl Fn() -> F) -> Result<(), StoreError>
where
    F: Future<Output = Result<u64, StoreError>>,
{
    for _ in 0..MOST_BATCHES {
        if batch().await? < u64::from(full) {
            break;
        }
    }
    Ok(())
}

async fn of_attempts(store: &Store, artifacts: &ArtifactStore) -> Result<u64, StoreError> {
    let find = || store.collect_garbage(BATCH);
    let erase = async |one: Garbage| {
        let deleting = soon(delete(artifacts, &one)).await.inspect_err(|error| {
            tracing::warn!(attempt.id = %one.attempt, %error, "objects are deleted later");
        });
        let objects = (one.keys.len() + one.copies.len()) as u64;
        deleting.map(|()| (one.attempt, objects))
    };
    in_batches(find, erase, |done| store.garbage_deleted(done)).await
}

/// Deletes uploads that nobody needs any more; how many.
async fn retire(store: &Store, artifacts: &ArtifactStore) -> Result<u64, StoreError> {
    let find = || store.retire_uploads(BATCH);
    let erase = async |one: RetiredUpload| {
        let deleting = soon(artifacts.delete(&one.object_key)).await;
        let deleting = deleting.inspect_err(|error| {
            tracing::warn!(upload.id = %one.upload, %error, "an upload is deleted later");
        });
        deleting.map(|()| (one.upload, 1))
    };
    in_batches(find, erase, |done| store.uploads_erased(done)).await
}

/// What was sent and what was copied of uploads that are complete, or will never be.
async fn of_uploads(store: &Store, artifacts: &ArtifactStore) -> Result<u64, StoreError> {
    let find = || store.collect_uploads(BATCH);
    let erase = async |one: UploadGarbage| {
        let copies = artifacts.remove_copies(&one.copies, one.kept.as_deref());
        let both = async { artifacts.delete(&one.incoming).await.and(copies.await) };
        let deleting = soon(both).await.inspect_err(|error| {
            tracing::warn!(upload.id = %one.upload, %error, "objects are deleted later");
        });
        deleting.map(|()| (one.upload, 1))
    };
    in_batches(find, erase, |done| store.uploads_collected(done)).await
}

/// Finds what has objects and erases those, batch after batch while one was full and all of it went, and
/// notes what was done; how many objects that were.
async fn in_batches<T, I, F, N>(
    find: impl Fn() -> F,
    erase: impl AsyncFn(T) -> Result<(I, u64), ArtifactError>,
    note: impl Fn(Vec<I>) -> N,
) -> Result<u64, StoreError>
where
    F: Future<Output = Result<Vec<T>, StoreError>>,
    N: Future<Output = Result<(), StoreError>>,
{
    let (began, mut deleted) = (Instant::now(), 0);
    loop {
        let batch = find().await?;
        let found = batch.len();
        let erased = each(began, batch, &erase).await;
        let all = erased.len() == found;
        let (done, objects): (Vec<_>, Vec<_>) = erased.into_iter().unzip();
        deleted += objects.iter().sum::<u64>();
        if !done.is_empty() {
            note(done).await?;
        }
        if !all || found < BATCH as usize || began.elapsed() > LONGEST {
            return Ok(deleted);
        }
    }
}

/// Does something to each of a batch, some at once; what came of those that it was done to. Those that
/// are not begun in time come again in an hour, like those that fail.
async fn each<T, R>(
    began: Instant,
    batch: Vec<T>,
    work: impl AsyncFn(T) -> Result<R, ArtifactError>,
) -> Vec<R> {
    let work = &work;
    let one = move |one| async move {
        if began.elapsed() > LONGEST {
            return None;
        }
        work(one).await.ok()
    };
    let working = stream::iter(batch).map(one).buffer_unordered(AT_ONCE);
    working.filter_map(std::future::ready).collect().await
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
