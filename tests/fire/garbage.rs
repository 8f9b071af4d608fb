//! What losing attempts leave in the object store goes away, twice, and what was published stays.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::failure::FailureCode;
use fencepost_domain::verification::Verdict;
use fencepost_store::artifacts::ArtifactStore;
use fencepost_tests::world::{TTL, good, settlement};
use fencepost_tests::{Lease, World};
use tempfile::TempDir;

/// The grant and the longest transfer of the default settings.
const KEPT: Duration = Duration::from_mins(15 + 6 * 60);

/// Objects as files.
struct Objects {
    folder: TempDir,
    store: ArtifactStore,
}

impl Objects {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let store = ArtifactStore::on_disk(folder.path()).expect("it can be used");
        Self { folder, store }
    }

    fn write(&self, key: &str) {
        let path = self.folder.path().join(key);
        let parent = path.parent().expect("a key has a folder");
        std::fs::create_dir_all(parent).expect("a folder can be made");
        std::fs::write(path, key).expect("a file can be written");
    }

    /// Keys of all that is there.
    fn keys(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        list(self.folder.path(), self.folder.path(), &mut found);
        found
    }
}

fn list(root: &Path, folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("it can be read") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            list(root, &path, found);
        } else {
            let key = path.strip_prefix(root).expect("it is below");
            found.insert(key.to_str().expect("plain text").to_owned());
        }
    }
}

/// What the collector does; how many attempts it cleaned up after.
async fn collect(world: &World, objects: &Objects) -> usize {
    let garbage = world.store.collect_garbage(100).await.expect("it runs");
    for one in &garbage {
        for key in &one.keys {
            objects.store.delete(key).await.expect("it can be deleted");
        }
        for copies in &one.copies {
            let removing = objects.store.remove_copies(copies, one.kept.as_deref());
            removing.await.expect("it can be deleted");
        }
    }
    let attempts: Vec<_> = garbage.iter().map(|one| one.attempt).collect();
    let count = attempts.len();
    world
        .store
        .garbage_deleted(attempts)
        .await
        .expect("it runs");
    count
}

/// An attempt that has uploaded.
async fn uploaded(world: &World, objects: &Objects) -> Lease {
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    objects.write(&lease.output_key);
    lease
}

/// Attempts that lost in every way, each with an upload.
async fn losers(world: &World, objects: &Objects) -> Vec<Lease> {
    let failed = uploaded(world, objects).await;
    world.end(failed.fail(FailureCode::RunnerFailed)).await;
    let cancelled = uploaded(world, objects).await;
    world.cancel(cancelled.job).await;
    world.end(cancelled.stopped()).await;
    let rejected = uploaded(world, objects).await;
    let ticket = world.begin_verification(&rejected).await;
    objects.write(&settlement(&ticket, good(1.0)).copy_key);
    world
        .settle(
            &ticket,
            Verdict::MediaRejected {
                reason: "no film".to_owned(),
            },
        )
        .await;
    // All bytes are there, but the lease is over: the commit is refused.
    let late = uploaded(world, objects).await;
    world.clock.advance(TTL).await;
    world.commit(&late).await;
    world.sweep().await;
    world.cancel(late.job).await;
    vec![failed, cancelled, rejected, late]
}

#[tokio::test]
async fn objects_of_losing_attempts_go_twice_and_the_published_copy_never() {
    let (world, objects) = (World::new().await, Objects::new());
    // A winner whose first verification came to nothing.
    let winner = uploaded(&world, &objects).await;
    let first = world.begin_verification(&winner).await;
    objects.write(&settlement(&first, good(1.0)).copy_key);
    world.clock.advance(TTL).await;
    let second = world.sweep().await.verify.remove(0);
    let published = settlement(&second, good(1.0)).copy_key;
    objects.write(&published);
    world.settle(&second, good(1.0)).await;
    let losers = losers(&world, &objects).await;
    let everything = objects.keys();
    assert_eq!(everything.len(), 3 + 5, "{everything:?}");

    world.clock.advance(Duration::from_hours(6)).await;
    assert_eq!(collect(&world, &objects).await, 0, "too early");
    assert_eq!(objects.keys(), everything);
    world.clock.advance(KEPT).await;
    assert_eq!(collect(&world, &objects).await, 5);
    assert_eq!(objects.keys(), BTreeSet::from([published.clone()]));
    // A transfer that went on for longer than it may.
    objects.write(&losers[0].output_key);
    assert_eq!(collect(&world, &objects).await, 0, "at once again");
    world.clock.advance(Duration::from_hours(2)).await;
    assert_eq!(collect(&world, &objects).await, 5);
    assert_eq!(objects.keys(), BTreeSet::from([published]));
    for _ in 0..5 {
        world.clock.advance(KEPT).await;
        assert_eq!(collect(&world, &objects).await, 0, "for ever");
    }
}

#[tokio::test]
async fn objects_of_a_gateway_that_died_while_it_deleted_are_deleted_by_another() {
    let (world, objects) = (World::new().await, Objects::new());
    losers(&world, &objects).await;
    world.clock.advance(KEPT).await;
    // It collects and is gone.
    assert_eq!(
        world
            .store
            .collect_garbage(100)
            .await
            .expect("it runs")
            .len(),
        4
    );
    assert_eq!(collect(&world, &objects).await, 0, "two at once");
    world.clock.advance(Duration::from_hours(1)).await;
    assert_eq!(collect(&world, &objects).await, 4);
    assert_eq!(objects.keys(), BTreeSet::new());
}
