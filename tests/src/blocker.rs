//! Transactions that are held open, so that others must wait for them.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use crate::db::TestDb;

/// The advisory lock that a COMMIT waits for once [`Blocker::make_commits_wait`] was called.
const COMMIT_LOCK: i64 = 4_711;

/// A connection with an open transaction. Dropping it rolls the transaction back.
pub struct Blocker {
    conn: PgConnection,
}

impl Blocker {
    /// Opens a transaction and runs a statement in it, such as a `select … for update`.
    pub async fn hold(db: &TestDb, statement: &str) -> Self {
        let conn = PgConnection::connect(db.url())
            .await
            .expect("the database lets us in");
        let mut blocker = Self { conn };
        blocker.run("begin").await;
        blocker.run(statement).await;
        blocker
    }

    /// Holds an attempt's row without changing anything.
    pub async fn on_attempt(db: &TestDb, attempt: fencepost_domain::ids::AttemptId) -> Self {
        Self::hold(
            db,
            &format!("select from attempts where id = '{attempt}' for update"),
        )
        .await
    }

    /// Holds a job's row without changing anything.
    pub async fn on_job(db: &TestDb, job: fencepost_domain::ids::JobId) -> Self {
        Self::hold(
            db,
            &format!("select from jobs where id = '{job}' for update"),
        )
        .await
    }

    /// From now on a COMMIT that wrote a row of `table` waits, its locks still held, while a
    /// blocker from [`Blocker::on_commit`] exists.
    pub async fn make_commits_wait(db: &TestDb, table: &str, operation: &str) {
        // "a_" comes before the names of our own deferred triggers: it waits before they judge.
        db.execute(&format!(
            "create or replace function test_wait() returns trigger language plpgsql as $$
             begin perform pg_advisory_xact_lock_shared({COMMIT_LOCK}); return null; end $$;
             create constraint trigger a_test_wait after {operation} on {table}
                deferrable initially deferred for each row execute function test_wait();"
        ))
        .await;
    }

    /// Makes the COMMITs of [`Blocker::make_commits_wait`] wait.
    pub async fn on_commit(db: &TestDb) -> Self {
        Self::hold(db, &format!("select pg_advisory_xact_lock({COMMIT_LOCK})")).await
    }

    /// Runs one more statement in the open transaction.
    pub async fn run(&mut self, statement: &str) {
        sqlx::raw_sql(AssertSqlSafe(statement.to_owned()))
            .execute(&mut self.conn)
            .await
            .unwrap_or_else(|error| panic!("{statement}: {error}"));
    }

    /// Waits until `count` other sessions of the database wait for a lock.
    pub async fn until_waiting(&self, db: &TestDb, count: usize) {
        for _ in 0..1_000 {
            if waiting(db).await.len() >= count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("nobody waits for the lock");
    }

    /// Undoes everything and lets the others go on.
    pub async fn release(mut self) {
        self.run("rollback").await;
    }

    /// Keeps what was changed and lets the others go on.
    pub async fn commit(mut self) {
        self.run("commit").await;
    }
}

/// Process ids of the sessions of `db` that wait for a lock.
pub async fn waiting(db: &TestDb) -> Vec<String> {
    db.texts(
        "select pid from pg_stat_activity
         where datname = current_database() and wait_event_type = 'Lock'",
    )
    .await
}
