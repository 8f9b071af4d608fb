//! Gateways on a Postgres of their own, which a test may stop, freeze and kill: the one that all
//! other tests share must go on.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::ids::{OrgId, ProviderId};
use fencepost_embedded::{EmbeddedError, EmbeddedPostgres, StartOptions};
use fencepost_store::admin::NewEnrollment;
use fencepost_store::{Store, StoreSettings};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tempfile::TempDir;

use crate::agent_client::Device;
use crate::buyer::Buyer;
use crate::checker;
use crate::gateway::{CREDIT, TestGateway};
use crate::line::Line;
use crate::processes::{Process, program};
use crate::wait::until_some;

const KIT_SQL: &str = include_str!("kit.sql");

/// A database that gateways reach over a [`Line`], and what they need besides.
pub struct Stage {
    /// A store beside the gateways, over the line too.
    pub store: Store,
    /// The buyer's account.
    pub org: OrgId,
    /// The buyer's key.
    pub api_key: String,
    /// Who owns the devices.
    pub provider: ProviderId,
    /// Config, keys, artifacts and logs.
    pub folder: TempDir,
    /// Between everybody and Postgres.
    pub line: Line,
    postgres: Option<EmbeddedPostgres>,
    data_dir: PathBuf,
    url: String,
}

impl Stage {
    /// A stage whose gateways have this configuration; what is about this machine is added.
    pub async fn new(config: &str) -> Self {
        let (data_dir, postgres) = start_somewhere().await;
        let database = make_database(&postgres).await;
        let line = Line::to(postgres.port()).await;
        let direct = postgres.url_for(&database).expose().to_owned();
        let port = |port: u16| format!("127.0.0.1:{port}");
        let url = direct.replace(&port(postgres.port()), &port(line.port()));
        let store = Store::open(&url, StoreSettings::default()).expect("the URL is readable");
        let org = store.create_org("acme", None).await.expect("an org");
        store.add_credit(org, CREDIT).await.expect("credit");
        let key = store.create_api_key(org, true).await.expect("a key");
        let provider = store.create_provider("macs").await.expect("a provider");
        let folder = tempfile::tempdir().expect("a folder can be made");
        for (name, content) in [
            ("database.url", url.as_str()),
            ("signing.key", &"k".repeat(40)),
            ("fencepost.toml", config),
        ] {
            std::fs::write(folder.path().join(name), content).expect("a file can be written");
        }
        Self {
            store,
            org,
            api_key: key.expect("the org exists").1.expose().to_owned(),
            provider,
            folder,
            line,
            postgres: Some(postgres),
            data_dir,
            url,
        }
    }

    /// A gateway that is up. Its log goes to the end of a file of this name.
    pub async fn gateway(&self, name: &str, settings: &[(&str, &str)]) -> TestGateway {
        let folder = self.folder.path();
        let path = |name: &str| folder.join(name).display().to_string();
        let mut command = Command::new(program("fencepost"));
        command.args(["serve", "--config", &path("fencepost.toml")]);
        let own = [
            ("database.url_file", path("database.url")),
            ("artifacts.dir", path("artifacts")),
            ("artifacts.signing_key_file", path("signing.key")),
        ];
        for (key, value) in own {
            command.args(["--set", &format!("{key}={value}")]);
        }
        for (key, value) in settings {
            command.args(["--set", &format!("{key}={value}")]);
        }
        let log_file = folder.join(format!("{name}.log"));
        start(&mut command, &log_file).await
    }

    /// A one-use code to pair a new device.
    pub async fn enrollment(&self) -> String {
        let new = NewEnrollment {
            provider: self.provider,
            device: None,
            own_org: None,
            labels: Vec::new(),
            valid_for: LeaseDuration::seconds(900),
        };
        let code = self.store.create_enrollment(new).await.expect("a code");
        code.expect("the provider exists").expose().to_owned()
    }

    /// A device of four slots that was paired over HTTP; not connected.
    pub async fn device(&self, gateway: &TestGateway, name: &str) -> Device {
        Device::pair(gateway, &self.enrollment().await, name).await
    }

    /// The buyer at a gateway.
    pub fn buyer(&self, gateway: &TestGateway) -> Buyer {
        Buyer::new(gateway, &self.api_key)
    }

    /// The first column of what a query gives.
    pub async fn texts(&self, query: &str) -> Vec<String> {
        let mut conn = PgConnection::connect(&self.url)
            .await
            .expect("it lets us in");
        let query = AssertSqlSafe(format!("select ({query})::text"));
        if let Ok(texts) = sqlx::query_scalar(query).fetch_all(&mut conn).await {
            return texts;
        }
        Vec::new()
    }

    /// What must always hold and does not; empty is good.
    pub async fn violations(&self) -> Vec<String> {
        checker::violations(&self.url).await
    }

    /// The server's first process.
    pub fn server(&self) -> Pid {
        let postgres = self.postgres.as_ref().expect("it runs");
        let pid = i32::try_from(postgres.pid()).expect("a process id is small");
        Pid::from_raw(pid).expect("a process id is not zero")
    }

    /// Ends Postgres as an immediate shutdown does: nothing is written, clients are cut off.
    pub async fn stop_postgres(&mut self) {
        kill_process(self.server(), Signal::QUIT).expect("it runs");
        let postgres = self.postgres.take().expect("it runs");
        postgres.stop().await.expect("it stops");
    }

    /// Starts it again, elsewhere; it recovers, and the line leads there.
    pub async fn start_postgres(&mut self) {
        let postgres = EmbeddedPostgres::start(options(&self.data_dir)).await;
        let postgres = postgres.expect("it starts again");
        self.line.lead_to(postgres.port());
        self.postgres = Some(postgres);
    }
}

/// Starts a gateway by this command, and waits until it is up.
pub async fn start(command: &mut Command, log_file: &Path) -> TestGateway {
    let mut process = Process::start(command, log_file);
    let (url, admin_url) = until_some("a gateway that is up", || {
        assert!(process.ended().is_none(), "it ended:\n{}", process.log());
        let up = addresses(&process.log());
        async move { up }
    })
    .await;
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .expect("a client");
    TestGateway {
        process,
        url,
        admin_url,
        client,
    }
}

/// The addresses in the last log line of a gateway that is up.
fn addresses(log: &str) -> Option<(String, String)> {
    let mut lines = log.lines().rev();
    let line = lines.find(|line| line.contains("the gateway is up"))?;
    let line: Value = serde_json::from_str(line).ok()?;
    let address = |key: &str| Some(format!("http://{}", line[key].as_str()?));
    Some((address("http")?, address("admin")?))
}

fn options(data_dir: &Path) -> StartOptions {
    let mut options = StartOptions::new(data_dir);
    options.stop_with_parent = true;
    options
}

/// In a folder that is kept between runs, because making a cluster takes longer than starting one.
async fn start_somewhere() -> (PathBuf, EmbeddedPostgres) {
    let program = std::env::current_exe().expect("a test knows where it is");
    let target = program
        .ancestors()
        .nth(3)
        .expect("it is in target/<profile>/deps");
    for number in 0..16 {
        let data_dir = target.join("tmp").join(format!("stage-postgres-{number}"));
        match EmbeddedPostgres::start(options(&data_dir)).await {
            Ok(postgres) => return (data_dir, postgres),
            Err(EmbeddedError::InUse { .. }) => {}
            Err(error) => panic!("Postgres does not start: {error}"),
        }
    }
    panic!("16 stages at once are too many");
}

/// A migrated database with the kit; those of earlier runs are dropped.
async fn make_database(postgres: &EmbeddedPostgres) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let mut admin = PgConnection::connect(postgres.admin_url().expose())
        .await
        .expect("the server lets us in");
    let stale: Vec<String> =
        sqlx::query_scalar("select datname::text from pg_database where datname like 'stage%'")
            .fetch_all(&mut admin)
            .await
            .expect("databases can be listed");
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("stage_{}_{number}", std::process::id());
    let mut statements: Vec<String> = stale
        .iter()
        .map(|stale| format!("drop database {stale} with (force)"))
        .collect();
    statements.push(format!("create database {name}"));
    for statement in statements {
        let statement = AssertSqlSafe(statement);
        let done = sqlx::raw_sql(statement).execute(&mut admin).await;
        done.expect("a database can be made and dropped");
    }
    let url = postgres.url_for(&name).expose().to_owned();
    let store = Store::open(&url, StoreSettings::default()).expect("the URL is readable");
    store.migrate().await.expect("the migrations run");
    store.close().await;
    let mut conn = PgConnection::connect(&url).await.expect("it lets us in");
    let kit = sqlx::raw_sql(KIT_SQL).execute(&mut conn).await;
    kit.expect("the kit can be installed");
    name
}
