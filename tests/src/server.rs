//! One Postgres for the whole run, and the migrated template that databases are copied from.
//!
//! The server lives in the build folder and is kept between runs (making a cluster takes longer than
//! starting one); it ends with this process. A second run at the same time takes another folder.

use std::future::Future;
use std::path::PathBuf;
use std::sync::LazyLock;

use fencepost_embedded::{EmbeddedError, EmbeddedPostgres, StartOptions};
use fencepost_store::admin::MIGRATIONS;
use fencepost_store::{Store, StoreSettings};
use sha2::{Digest as _, Sha256};
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, PgPool};
use tokio::runtime::Runtime;

/// Replaces the clock by a movable one and records what happens to jobs, for the checker.
const KIT_SQL: &str = include_str!("kit.sql");
const MAX_CONNECTIONS: u16 = 400;

static SERVER: LazyLock<Server> = LazyLock::new(Server::start);

/// The running server.
pub struct Server {
    postgres: EmbeddedPostgres,
    template: String,
    admin: PgPool,
    runtime: Runtime,
}

impl Server {
    /// The server of this run; the first call starts it.
    pub fn get() -> &'static Self {
        &SERVER
    }

    fn start() -> Self {
        let runtime = Runtime::new().expect("a runtime can be made");
        // The first caller may be inside another runtime, which must not be blocked by this one.
        let (postgres, template, admin) = wait_for(&runtime, async {
            let postgres = start_postgres().await;
            // Nothing here outlives the run, so nothing need survive a loss of power.
            administer(&postgres, "alter system set fsync = off".to_owned()).await;
            administer(&postgres, "select pg_reload_conf()".to_owned()).await;
            let template = make_template(&postgres).await;
            let admin = PgPoolOptions::new()
                .max_connections(4)
                .connect_lazy(postgres.admin_url().expose())
                .expect("the server's own URL is readable");
            (postgres, template, admin)
        });
        Self {
            postgres,
            template,
            admin,
            runtime,
        }
    }

    /// Runs a future to its end on the server's own runtime; may be called from anywhere, `Drop`
    /// included.
    pub fn wait_for<T: Send>(&self, future: impl Future<Output = T> + Send) -> T {
        wait_for(&self.runtime, future)
    }

    /// The URL of a database, password included.
    pub fn url_of(&self, database: &str) -> String {
        self.postgres.url_for(database).expose().to_owned()
    }

    /// The port that the server listens on, at 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.postgres.port()
    }

    /// The database to copy.
    pub fn template(&self) -> &str {
        &self.template
    }

    /// Makes a database that is a copy of `template`.
    pub async fn create_database(&self, name: &str, template: &str) {
        let create = format!("create database {name} template {template}");
        // On the server's runtime: its pooled connections must not depend on a test's.
        let admin = self.admin.clone();
        let creating = self.runtime.spawn(async move { run(&admin, create).await });
        creating.await.expect("nobody aborts it");
    }

    /// Deletes a database, soon: what is left at the end of the run, the next one clears away.
    pub fn drop_database(&self, name: &str) {
        let drop_it = format!("drop database {name} with (force)");
        let admin = self.admin.clone();
        self.runtime
            .spawn(async move { run(&admin, drop_it).await });
    }
}

async fn run(admin: &PgPool, statement: String) {
    sqlx::raw_sql(AssertSqlSafe(statement.clone()))
        .execute(admin)
        .await
        .unwrap_or_else(|error| panic!("{statement}: {error}"));
}

fn wait_for<T: Send>(runtime: &Runtime, future: impl Future<Output = T> + Send) -> T {
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| runtime.block_on(future));
        waiting
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// `target/tmp/test-postgres-<n>`, beside the folder that this program was built into.
fn data_dir(number: u32) -> PathBuf {
    let program = std::env::current_exe().expect("a test knows where it is");
    let target = program
        .ancestors()
        .nth(3)
        .expect("it is in target/<profile>/deps");
    target.join("tmp").join(format!("test-postgres-{number}"))
}

async fn start_postgres() -> EmbeddedPostgres {
    for number in 0..16 {
        let mut options = StartOptions::new(data_dir(number));
        options.max_connections = MAX_CONNECTIONS;
        options.stop_with_parent = true;
        match EmbeddedPostgres::start(options).await {
            Ok(postgres) => return postgres,
            Err(EmbeddedError::InUse { .. }) => {}
            Err(error) => panic!("Postgres does not start: {error}"),
        }
    }
    panic!("16 test runs at once are too many");
}

async fn administer(postgres: &EmbeddedPostgres, statement: String) {
    let mut conn = connect(postgres.admin_url().expose()).await;
    sqlx::raw_sql(AssertSqlSafe(statement.clone()))
        .execute(&mut conn)
        .await
        .unwrap_or_else(|error| panic!("{statement}: {error}"));
}

async fn connect(url: &str) -> PgConnection {
    PgConnection::connect(url)
        .await
        .expect("the test server lets us in")
}

/// Makes the template unless an earlier run made the same one, and clears away everything else.
async fn make_template(postgres: &EmbeddedPostgres) -> String {
    let template = template_name();
    let databases: Vec<String> = {
        let mut conn = connect(postgres.admin_url().expose()).await;
        sqlx::query_scalar("select datname::text from pg_database where datname ~ '^(it|model)_'")
            .fetch_all(&mut conn)
            .await
            .expect("databases can be listed")
    };
    for stale in databases.iter().filter(|name| **name != template) {
        administer(postgres, format!(r#"drop database "{stale}" with (force)"#)).await;
    }
    if databases.contains(&template) {
        return template;
    }
    // Under another name until it is complete, so that a killed run leaves no half of one.
    administer(postgres, "create database it_unfinished".to_owned()).await;
    let url = postgres.url_for("it_unfinished");
    let store = Store::open(url.expose(), StoreSettings::default()).expect("the URL is readable");
    store.migrate().await.expect("the migrations run");
    store.close().await;
    let mut conn = connect(url.expose()).await;
    sqlx::raw_sql(KIT_SQL)
        .execute(&mut conn)
        .await
        .expect("the kit can be installed");
    conn.close().await.expect("a connection can be closed");
    administer(
        postgres,
        format!("alter database it_unfinished rename to {template}"),
    )
    .await;
    template
}

/// Changes when a migration or the kit does.
fn template_name() -> String {
    let mut hasher = Sha256::new();
    for migration in MIGRATIONS.iter() {
        hasher.update(&*migration.checksum);
    }
    hasher.update(KIT_SQL);
    let digest: Vec<String> = hasher.finalize()[..8]
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    format!("model_{}", digest.concat())
}
