//! Nobody knows whether a COMMIT happened: its backend is killed while it waits, or its client goes
//! away and the backend commits a moment later. The store runs the transaction again on a fresh
//! connection, and its answer must be right either way, and nothing be done twice.

mod agents;
mod buyers;

use std::time::Duration;

use fencepost_store::{Store, StoreError, StoreSettings};
use fencepost_tests::blocker::waiting;
use fencepost_tests::server::Server;
use fencepost_tests::{Blocker, Proxy, World};

/// What happens to a COMMIT that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Death {
    /// Its backend is killed, and the transaction with it.
    Backend,
    /// Its connection is cut; the backend does not notice, and commits when it is let go.
    Client,
}

struct Scene {
    world: World,
    proxy: Proxy,
    /// Reaches Postgres through the proxy.
    store: Store,
    death: Death,
}

impl Scene {
    async fn new(death: Death) -> Self {
        let world = World::new().await;
        let proxy = Proxy::to(Server::get().port()).await;
        let url = world.db.url_through(proxy.port());
        let store = Store::open(&url, StoreSettings::default()).expect("the URL is readable");
        Self {
            world,
            proxy,
            store,
            death,
        }
    }

    /// Runs one call whose first COMMIT, of a change to `table`, dies unanswered.
    async fn run<T, F>(&self, table: &str, call: impl FnOnce(Store) -> F) -> T
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let db = &self.world.db;
        Blocker::make_commits_wait(db, table, "insert or update").await;
        let blocker = Blocker::on_commit(db).await;
        let running = tokio::spawn(call(self.store.clone()));
        blocker.until_waiting(db, 1).await;
        let first = waiting(db).await;
        match self.death {
            Death::Backend => {
                db.execute(&format!("select pg_terminate_backend({})", first[0]))
                    .await;
                while waiting(db)
                    .await
                    .first()
                    .is_none_or(|pid| first.contains(pid))
                {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
            Death::Client => {
                self.proxy.cut();
                blocker.until_waiting(db, 2).await;
            }
        }
        assert!(
            !running.is_finished(),
            "it answered before anybody could know"
        );
        blocker.release().await;
        let answer = running
            .await
            .expect("it does not panic")
            .expect("it has an answer");
        db.execute(&format!("drop trigger a_test_wait on {table}"))
            .await;
        answer
    }
}
