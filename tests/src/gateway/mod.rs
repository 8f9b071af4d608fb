//! The real gateway as a child process, and what it needs around it: a database, a folder for
//! artifacts, a signing key, an org with credit.

mod process;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::ids::{DeviceId, OrgId, ProviderId};
use fencepost_store::admin::NewEnrollment;
use fencepost_store::{Store, StoreSettings};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use sqlx::{Connection as _, PgConnection};
use tempfile::TempDir;

pub use self::process::TestGateway;
use crate::agent_client::Device;
use crate::agent_process::AgentProcess;
use crate::buyer::Buyer;
use crate::clock::Clock;
use crate::db::TestDb;
use crate::processes::{Process, program, run};
use crate::s3::Bucket;
use crate::server::Server;
use crate::wait::{until, until_some};

/// Short, so that tests are; as short as the relations between them allow.
const CONFIG: &str = r#"
[http]
bind = "127.0.0.1:0"
workers = 1
requests_per_second = 100000
request_burst = 100000
[admin]
bind = "127.0.0.1:0"
[database]
max_connections = 6
[artifacts]
max_upload_bytes = 2000000
[leases]
ttl = "8s"
accept = "6s"
renew = "1s"
answer = "1s"
reconnect_max = "500ms"
cancel_grace = "6s"
heartbeat = "1s"
session_dead = "5s"
sweep = "200ms"
verification_takeover = "2s"
pull = "1s"
[prices."noop.v1"]
base_micros = 1000
per_minute_micros = 500
[prices."transcode.v1"]
base_micros = 1000
per_minute_micros = 500
[telemetry]
format = "json"
level = "info"
"#;
/// The lease of [`CONFIG`].
pub const TTL: Duration = Duration::from_secs(8);
/// The accept deadline of [`CONFIG`].
pub const ACCEPT: Duration = Duration::from_secs(6);
/// The most bytes of an upload in [`CONFIG`].
pub const MAX_UPLOAD_BYTES: usize = 2_000_000;
/// What is held for a job: its base and ten minutes.
pub const HELD: i64 = 6_000;
/// Lets webhooks go to receivers on this machine.
pub const TO_THIS_MACHINE: (&str, &str) = ("egress.allow_cidrs", "127.0.0.0/8");
/// Credit of the site's org.
pub const CREDIT: i64 = 1_000_000_000;

/// Where gateways run: what they share, and who uses them.
pub struct Site {
    /// The clock that decides about leases; it stands still until a test moves it.
    pub clock: Clock,
    /// A store beside the gateways, for what operators do and to look at rows.
    pub store: Store,
    /// The buyer's account.
    pub org: OrgId,
    /// The buyer's key.
    pub api_key: String,
    /// Who owns the devices.
    pub provider: ProviderId,
    /// Config, keys, artifacts and logs.
    pub folder: TempDir,
    /// The database; checked and deleted at the end.
    pub db: TestDb,
}

impl Site {
    /// A site with an org that has credit, and a provider.
    pub async fn new() -> Self {
        let db = TestDb::new().await;
        let store = db.open_store(StoreSettings::default());
        let org = store.create_org("acme", None).await.expect("an org");
        store.add_credit(org, CREDIT).await.expect("credit");
        let provider = store.create_provider("macs").await.expect("a provider");
        let folder = tempfile::tempdir().expect("a folder can be made");
        std::fs::write(folder.path().join("database.url"), db.url()).expect("a file");
        std::fs::write(folder.path().join("signing.key"), "k".repeat(40)).expect("a file");
        std::fs::write(folder.path().join("fencepost.toml"), CONFIG).expect("a file");
        let clock = Clock::new(db.pool.clone());
        // Nothing expires because a machine is slow.
        clock.freeze().await;
        // The template may be old, and what runs out before the first sweep would be our outage.
        sqlx::query("update authority_state set swept_at = authority_now()")
            .execute(&db.pool)
            .await
            .expect("it is swept");
        Self {
            clock,
            api_key: new_key(&store, org).await,
            store,
            org,
            provider,
            folder,
            db,
        }
    }

    /// A gateway that is up.
    pub async fn gateway(&self) -> TestGateway {
        self.gateway_with(&[]).await
    }

    /// A gateway whose webhooks may go to this machine, that is up.
    pub async fn gateway_for_webhooks(&self) -> TestGateway {
        self.gateway_with(&[TO_THIS_MACHINE]).await
    }

    /// A gateway with other settings, such as `("leases.ttl", "9s")`, that is up.
    pub async fn gateway_with(&self, settings: &[(&str, &str)]) -> TestGateway {
        let number = std::fs::read_dir(self.folder.path())
            .expect("it exists")
            .count();
        let log_file = self.folder.path().join(format!("gateway-{number}.log"));
        let process = Process::start(&mut self.command(settings), &log_file);
        TestGateway::when_up(process).await
    }

    /// A gateway that keeps its objects in a bucket, that is up.
    pub async fn gateway_on(&self, bucket: &Bucket, more: &[(&str, &str)]) -> TestGateway {
        let settings = bucket.settings();
        let settings = settings.iter().map(|(key, value)| (*key, value.as_str()));
        let settings: Vec<_> = settings.chain(more.iter().copied()).collect();
        self.gateway_with(&settings).await
    }

    /// The command that starts a gateway.
    pub fn command(&self, settings: &[(&str, &str)]) -> Command {
        let folder = self.folder.path();
        let path = |name: &str| folder.join(name).to_str().expect("a plain path").to_owned();
        let mut command = Command::new(program("fencepost"));
        command.stdin(Stdio::null());
        command.args(["serve", "--config", &path("fencepost.toml")]);
        for (key, value) in [
            ("database.url_file", path("database.url")),
            ("artifacts.dir", path("artifacts")),
            ("artifacts.signing_key_file", path("signing.key")),
        ] {
            // What a test sets itself comes once.
            if !settings.iter().any(|(set, _)| *set == key) {
                command.args(["--set", &format!("{key}={value}")]);
            }
        }
        for (key, value) in settings {
            command.args(["--set", &format!("{key}={value}")]);
        }
        command
    }

    /// What a command of the operators says, as JSON.
    pub async fn operate(&self, words: &[&str]) -> Value {
        let output = self.operator(&[words, &["--json"]].concat()).await;
        assert!(output.status.success(), "{words:?}: {output:?}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// What an operator's command says, and how it ends.
    pub async fn operator(&self, words: &[&str]) -> Output {
        let folder = self.folder.path();
        let path = |name: &str| folder.join(name).to_str().expect("a plain path").to_owned();
        let (config, url) = (
            path("fencepost.toml"),
            format!("database.url_file={}", path("database.url")),
        );
        let mut arguments = words.to_vec();
        arguments.extend(["--config", &config, "--set", &url]);
        run("fencepost", &arguments, &[("USER", "olga")]).await
    }

    /// Where an object is on disk.
    pub fn object(&self, key: &str) -> PathBuf {
        self.folder.path().join("artifacts").join(key)
    }

    /// The names of files in the artifacts' folder, wherever in it, but for the one that says which
    /// folder it is.
    pub fn objects(&self) -> Vec<PathBuf> {
        let mut objects = files(&self.folder.path().join("artifacts"));
        objects.retain(|file| !file.ends_with("fencepost-store"));
        objects
    }

    /// A one-use code to pair a new device, or one again.
    pub async fn enrollment(&self, device: Option<DeviceId>) -> String {
        let new = NewEnrollment {
            provider: self.provider,
            device,
            own_org: None,
            labels: Vec::new(),
            valid_for: LeaseDuration::seconds(900),
        };
        let code = self.store.create_enrollment(new).await.expect("a code");
        code.expect("the provider exists").expose().to_owned()
    }

    /// The site's buyer at a gateway.
    pub fn buyer(&self, gateway: &TestGateway) -> Buyer {
        Buyer::new(gateway, &self.api_key)
    }

    /// A device of four slots that was paired over HTTP; not connected.
    pub async fn device(&self, gateway: &TestGateway, name: &str) -> Device {
        let code = self.enrollment(None).await;
        Device::pair(gateway, &code, name).await
    }

    /// A real agent that was paired by its own command; not running.
    pub async fn agent(&self, url: &str, name: &str) -> AgentProcess {
        let code = self.enrollment(None).await;
        AgentProcess::paired(url, &code, name).await
    }

    /// Another org, with credit, and its buyer.
    pub async fn other_buyer(&self, gateway: &TestGateway) -> Buyer {
        let org = self.store.create_org("other", None).await.expect("an org");
        self.store.add_credit(org, CREDIT).await.expect("credit");
        Buyer::new(gateway, &new_key(&self.store, org).await)
    }

    /// Every row that decides about jobs, attempts and money, but for when the sweeper looks again.
    pub async fn rows(&self) -> Vec<String> {
        let mut all = Vec::new();
        for table in ["jobs", "attempts", "postings", "outbox", "org_accounts"] {
            let query = format!("select to_jsonb(t) - 'check_after' from {table} t order by 1");
            all.extend(self.db.texts(&query).await);
        }
        all
    }

    /// The status of a job and those of its attempts in order, as in `queued: lost`.
    pub async fn statuses(&self, job: &str) -> String {
        let query = format!(
            "select j.status || ': ' || coalesce(
                 (select string_agg(a.status::text, ', ' order by a.attempt_number)
                  from attempts a where a.job_id = j.id), 'none')
             from jobs j where j.id = '{job}'"
        );
        self.db.text(&query).await
    }

    /// Says that the clock is right, however far it has just moved: a gateway takes that for a leap, by which
    /// nothing is deleted that somebody may come back to.
    pub async fn believe_the_clock(&self) {
        let believed = "update authority_state set marked_at = authority_now()";
        assert_eq!(self.db.execute(believed).await, 1);
    }

    /// Lets time pass as it is lived: in steps that no gateway takes for a leap of the clock, each
    /// seen by a sweep.
    pub async fn pass(&self, mut time: Duration) {
        while !time.is_zero() {
            let step = time.min(Duration::from_secs(4));
            time -= step;
            self.clock.advance(step).await;
            until("a sweep", || async {
                let swept = "select swept_at > authority_now() - interval '2 seconds'
                    from authority_state";
                let swept: bool = sqlx::query_scalar(swept)
                    .fetch_one(&self.db.pool)
                    .await
                    .expect("it is read");
                swept
            })
            .await;
        }
    }

    /// Waits until the job and its attempts are so, as in `succeeded: lost, succeeded`.
    pub async fn becomes(&self, job: &str, statuses: &str) {
        until_some(&format!("the job to be {statuses}"), || async {
            (self.statuses(job).await == statuses).then_some(())
        })
        .await;
    }
}

async fn new_key(store: &Store, org: OrgId) -> String {
    let key = store.create_api_key(org, true).await.expect("a key");
    key.expect("the org exists").1.expose().to_owned()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

impl Drop for Site {
    /// What buyers are served is, byte for byte, what was verified.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for (key, sha256) in Server::get().wait_for(outputs(self.db.url())) {
            let bytes = std::fs::read(self.object(&key)).expect("an output is there");
            assert_eq!(hex_sha256(&bytes), sha256, "{key} is not what was verified");
        }
    }
}

/// Keys and digests of all outputs. On a connection of its own, since those of the test belong to
/// its runtime, which stands still while it waits for us.
async fn outputs(url: &str) -> Vec<(String, String)> {
    let mut conn = PgConnection::connect(url)
        .await
        .expect("the database lets us in");
    let query = "select output_key, encode(output_sha256, 'hex') from jobs
                 where status = 'succeeded' and files_deleted_at is null";
    let outputs = sqlx::query_as(query).fetch_all(&mut conn).await;
    outputs.expect("outputs can be listed")
}

/// SHA-256 in lower-case hexadecimal.
pub fn hex_sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}
