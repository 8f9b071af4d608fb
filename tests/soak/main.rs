//! Minutes of mixed load while gateways, agents and Postgres are killed at random; at the end every
//! job has ended, and what must always hold does. `make soak`.
//!
//! `SOAK_SECONDS` is how long (600), `SOAK_SEED` repeats the same choices (not the same moments).

mod buyers;
mod chaos;
mod connection;
mod device;
mod ledger;
mod money;
mod outage;
mod tally;
mod webhooks;

use std::sync::Arc;
use std::time::Duration;

use fencepost_tests::agent_process::AgentProcess;
use fencepost_tests::gateway::hex_sha256;
use fencepost_tests::{Line, Stage, TestGateway};
use tokio::task::JoinSet;
use tokio::time::Instant;

use fencepost_tests::chance::Chance;
use tally::Tally;

/// Short leases, so that much happens.
const CONFIG: &str = r#"
[http]
bind = "127.0.0.1:0"
workers = 1
[admin]
bind = "127.0.0.1:0"
[database]
max_connections = 6
[artifacts]
max_upload_bytes = 2000000
[leases]
ttl = "12s"
accept = "6s"
renew = "2s"
answer = "2s"
reconnect_max = "1s"
cancel_grace = "6s"
heartbeat = "1s"
session_dead = "5s"
sweep = "500ms"
verification_takeover = "6s"
pull = "2s"
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
const DEVICES: u32 = 8;
/// Every job has ended so long after the last one was posted: past every delay and back-off.
const DRAINED: Duration = Duration::from_mins(10);

/// A setting in the environment.
fn setting(name: &str, otherwise: u64) -> u64 {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty());
    text.map_or(otherwise, |text| text.parse().expect("a whole number"))
}

/// One of two gateways: the process is killed and replaced, its address stays.
struct Place {
    name: &'static str,
    starts: u32,
    line: Line,
    gateway: Option<TestGateway>,
}

impl Place {
    async fn new(stage: &Stage, name: &'static str) -> Self {
        let gateway = stage.gateway(&format!("{name}-0"), &[]).await;
        Self {
            name,
            starts: 1,
            line: Line::to(gateway.port()).await,
            gateway: Some(gateway),
        }
    }

    fn kill(&mut self) {
        self.gateway = None;
    }

    async fn start(&mut self, stage: &Stage) {
        let log = format!("{}-{}", self.name, self.starts);
        self.starts += 1;
        let gateway = stage.gateway(&log, &[]).await;
        self.line.lead_to(gateway.port());
        self.gateway = Some(gateway);
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.line.port())
    }
}

/// Everything that can be killed.
struct World {
    stage: Stage,
    places: [Place; 2],
    agents: Vec<AgentProcess>,
    tally: Arc<Tally>,
}

impl World {
    /// Two gateways of this configuration.
    async fn new(config: &str) -> Self {
        let stage = Stage::new(config).await;
        let places = [
            Place::new(&stage, "one").await,
            Place::new(&stage, "two").await,
        ];
        Self {
            stage,
            places,
            agents: Vec::new(),
            tally: Arc::default(),
        }
    }

    /// The same with a real agent at each.
    async fn with_agents(config: &str) -> Self {
        let mut world = Self::new(config).await;
        for place in &world.places {
            let code = world.stage.enrollment().await;
            let mut agent = AgentProcess::paired(&place.url(), &code, place.name).await;
            agent.start();
            world.agents.push(agent);
        }
        world
    }

    /// So many devices begin to work, for ever.
    async fn set_to_work(&self, devices: u32, seed: u64) -> JoinSet<()> {
        let mut working = JoinSet::new();
        let gateway = self.places[0].gateway.as_ref().expect("it was started");
        for number in 0..devices {
            let name = format!("device-{number}");
            let device = self.stage.device(gateway, &name).await;
            let chance = Chance::new(seed, 100 + u64::from(number));
            let tally = Arc::clone(&self.tally);
            working.spawn(device::work(device, self.ports(), chance, tally));
        }
        working
    }

    fn ports(&self) -> Vec<u16> {
        let ports = self.places.iter().map(|place| place.line.port());
        ports.collect()
    }

    /// Waits until every job has ended; gives those that have not.
    async fn drain(&self) -> Vec<String> {
        let open = "select array_to_string(array_agg(id || ' is ' || status), ', ') from jobs
            where ended_at is null";
        let deadline = Instant::now() + DRAINED;
        loop {
            let left = self.stage.texts(open).await;
            if left.iter().all(String::is_empty) || Instant::now() > deadline {
                return left.into_iter().filter(|text| !text.is_empty()).collect();
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Outputs whose bytes are not what was verified.
    async fn wrong_outputs(&self) -> Vec<String> {
        let outputs = "select string_agg(output_key || ' ' || encode(output_sha256, 'hex'), ',')
            from jobs where status = 'succeeded'";
        let artifacts = self.stage.folder.path().join("artifacts");
        let outputs = self.stage.texts(outputs).await.concat();
        let is_wrong = |output: &&str| {
            let (key, sha256) = output.split_once(' ').expect("two words");
            std::fs::read(artifacts.join(key)).is_ok_and(|bytes| hex_sha256(&bytes) != sha256)
                || !artifacts.join(key).is_file()
        };
        let wrong = outputs.split(',').filter(|text| !text.is_empty());
        wrong.filter(is_wrong).map(str::to_owned).collect()
    }

    async fn outcomes(&self) -> String {
        let outcomes = "select string_agg(count || ' ' || status, ', ' order by status) from (
            select count(*), status from jobs group by status) by_status";
        self.stage.texts(outcomes).await.concat()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_killed_every_job_ends_once_and_every_sum_is_right() {
    let seconds = setting("SOAK_SECONDS", 600);
    let seed = setting("SOAK_SEED", u64::from(std::process::id()));
    println!("soak: {seconds} s of load with random kills, SOAK_SEED={seed}");
    let mut world = World::with_agents(CONFIG).await;
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut buying = JoinSet::new();
    for number in 0..2 {
        let buyer = buyers::Buyer::new(&world, Chance::new(seed, number));
        buying.spawn(buyer.buy(until));
    }
    let mut working = world.set_to_work(DEVICES, seed).await;
    let is_over = || Instant::now() >= until;
    chaos::reign(&mut world, Chance::new(seed, 50), is_over).await;
    buying.join_all().await;
    let left = world.drain().await;
    assert!(working.try_join_next().is_none(), "a device gave up");
    working.shutdown().await;
    for agent in &mut world.agents {
        agent.is_idle().await;
    }
    let violations = world.stage.violations().await;
    let wrong = world.wrong_outputs().await;
    let outcomes = world.outcomes().await;
    println!(
        "soak: {seconds} s; jobs: {outcomes}; {}; {} violations, {} wrong outputs, {} never ended",
        world.tally,
        violations.len(),
        wrong.len(),
        left.len()
    );
    assert!(left.is_empty(), "never ended: {left:?}");
    assert!(violations.is_empty(), "{violations:#?}");
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(outcomes.contains("succeeded"), "nothing was done");
    assert!(
        world.tally.stale_accepted() == 0,
        "a stale commit was accepted"
    );
}
