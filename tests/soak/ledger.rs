//! Ten thousand jobs at real gateways, whose lives are full of accidents: gateways and Postgres are
//! killed every few seconds, buyers repeat what was not answered and cancel when they like, devices do
//! what they like, and operators add credit. Afterwards every micro is where it belongs.
//!
//! `SOAK_JOBS` is how many (10000).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use fencepost_tests::buyer::text;
use fencepost_tests::chance::Chance;
use fencepost_tests::processes::run;
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::{CONFIG, World, chaos, setting};

const BUYERS: u64 = 4;
const DEVICES: u32 = 32;
/// Longer than an answer takes.
const PATIENCE: Duration = Duration::from_secs(8);
/// Buyers are told to wait while so many are open.
const OPEN: &str = "\n[quotas]\nopen_jobs = 120\n";

/// What all buyers share.
struct Orders {
    posted: AtomicUsize,
    count: usize,
}

/// One buyer, who takes no for an answer only when it is one.
struct Buyer {
    client: Client,
    ports: Vec<u16>,
    key: String,
    chance: Chance,
    orders: Arc<Orders>,
}

impl Buyer {
    fn request(&mut self, method: Method, path: &str) -> RequestBuilder {
        let port = self.ports[self.chance.below(self.ports.len())];
        let address = format!("http://127.0.0.1:{port}{path}");
        self.client.request(method, address).bearer_auth(&self.key)
    }

    /// Repeats it until it is done, however often nobody answers or the quota is used up.
    async fn insist(&mut self, path: &str, body: &Value, key: Option<&str>) -> Value {
        loop {
            let mut request = self.request(Method::POST, path).json(body);
            if let Some(key) = key {
                request = request.header("idempotency-key", key);
            }
            if let Ok(response) = request.send().await {
                let status = response.status();
                let answer: Option<Value> = response.json().await.ok();
                match answer {
                    Some(answer) if status.is_success() => return answer,
                    Some(answer) => {
                        let is_for_now = status == StatusCode::SERVICE_UNAVAILABLE
                            || answer["code"] == "quota_exceeded"
                            || answer["retryable"] == true;
                        assert!(is_for_now, "{path}: {status} {answer}");
                    }
                    // Killed in the middle of its answer.
                    None => {}
                }
            }
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
    }

    fn order(&mut self) -> Value {
        let mut order = json!({
            "service": "noop.v1",
            "max_attempts": 1 + self.chance.below(3),
        });
        if self.chance.percent(10) {
            // Most of these are not started in time.
            order["deadline_seconds"] = json!(1 + self.chance.below(4));
        }
        order
    }

    async fn buy(mut self) {
        let mut cancelling = JoinSet::new();
        loop {
            let number = self.orders.posted.fetch_add(1, Ordering::Relaxed);
            if number >= self.orders.count {
                break;
            }
            let (order, key) = (self.order(), format!("order-{number}"));
            let job = self.insist("/v1/jobs", &order, Some(&key)).await;
            let job = text(&job["id"]);
            if self.chance.percent(15) {
                let later = self.chance.millis(0, 8_000);
                let mut buyer = self.another();
                cancelling.spawn(async move {
                    tokio::time::sleep(later).await;
                    let path = format!("/v1/jobs/{job}/cancel");
                    buyer.insist(&path, &json!({}), None).await;
                });
            }
        }
        cancelling.join_all().await;
    }

    fn another(&mut self) -> Self {
        Self {
            client: self.client.clone(),
            ports: self.ports.clone(),
            key: self.key.clone(),
            chance: Chance::new(self.chance.below(1 << 30) as u64, 0),
            orders: Arc::clone(&self.orders),
        }
    }
}

/// Adds credit now and then; counts what was surely added.
async fn add_credit(credit: Credit, mut chance: Chance, added: Arc<AtomicI64>) {
    let Credit(store, org) = credit;
    loop {
        let pause = chance.millis(200, 2_000);
        tokio::time::sleep(pause).await;
        let amount = i64::try_from(1 + chance.below(50_000)).expect("it is small");
        if store.add_credit(org, amount).await.is_ok() {
            added.fetch_add(amount, Ordering::Relaxed);
        }
    }
}

/// Whose credit, and where.
struct Credit(fencepost_store::Store, fencepost_domain::ids::OrgId);

/// The operators' own check, by their own command.
async fn check(world: &World) -> Value {
    let path = |name: &str| world.stage.folder.path().join(name).display().to_string();
    let (config, url) = (
        path("fencepost.toml"),
        format!("database.url_file={}", path("database.url")),
    );
    let words = [
        "ledger", "check", "--json", "--config", &config, "--set", &url,
    ];
    let output = run("fencepost", &words, &[]).await;
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(output.status.success(), "{said}");
    said
}

/// How many jobs ended how: `failed upload_failed, budget used up: 7`.
async fn ends(world: &World) -> Vec<String> {
    let ends = "select string_agg(how || ': ' || jobs, '; ' order by how) from (
        select concat_ws(' ', status, failure_code)
            || case when status = 'cancelled' and attempt_counter > 0 then ' while it ran'
                when charged_attempts > 1 and charged_attempts = max_attempts
                    and status = 'failed' then ', budget used up'
                else '' end as how, count(*) as jobs
        from jobs group by how) ends";
    let ends = world.stage.texts(ends).await.concat();
    ends.split("; ").map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_jobs_among_kills_leave_a_clean_ledger() {
    let count = usize::try_from(setting("SOAK_JOBS", 10_000)).expect("a number");
    let seed = setting("SOAK_SEED", u64::from(std::process::id()));
    println!("soak: {count} jobs among kills, SOAK_SEED={seed}");
    let fast = "[http]\nrequests_per_second = 100000\nrequest_burst = 100000\n";
    let config = CONFIG.replacen("[http]\n", fast, 1) + OPEN;
    let mut world = World::new(&config).await;
    let began = Instant::now();
    let orders = Arc::new(Orders {
        posted: AtomicUsize::new(0),
        count,
    });
    let mut buying = JoinSet::new();
    for number in 0..BUYERS {
        let buyer = Buyer {
            client: Client::builder()
                .timeout(PATIENCE)
                .build()
                .expect("a client"),
            ports: world.ports(),
            key: world.stage.api_key.clone(),
            chance: Chance::new(seed, number),
            orders: Arc::clone(&orders),
        };
        buying.spawn(buyer.buy());
    }
    let mut working = world.set_to_work(DEVICES, seed).await;
    let added = Arc::new(AtomicI64::new(0));
    let credit = Credit(world.stage.store.clone(), world.stage.org);
    working.spawn(add_credit(
        credit,
        Chance::new(seed, 60),
        Arc::clone(&added),
    ));
    let is_over = || orders.posted.load(Ordering::Relaxed) >= count;
    chaos::reign(&mut world, Chance::new(seed, 50), is_over).await;
    while let Some(done) = buying.join_next().await {
        done.expect("a buyer got an answer that it should not have got");
    }
    let left = world.drain().await;
    assert!(working.try_join_next().is_none(), "a device gave up");
    working.shutdown().await;
    let (ends, violations) = (ends(&world).await, world.stage.violations().await);
    let check = check(&world).await;
    println!(
        "soak: {count} jobs: {} in {} s; {}; credit added {}; ledger check {check}; {} violations",
        ends.join(", "),
        began.elapsed().as_secs(),
        world.tally,
        added.load(Ordering::Relaxed),
        violations.len()
    );
    assert!(left.is_empty(), "never ended: {left:?}");
    assert!(violations.is_empty(), "{violations:#?}");
    assert_eq!(check["is_clean"], true, "{check}");
    // Each order is one job, however often it was sent.
    assert_eq!(check["jobs"], count, "{check}");
    assert_eq!(world.tally.stale_accepted(), 0);
    for end in [
        "succeeded",
        "cancelled:",
        "cancelled while it ran",
        "failed deadline_exceeded",
        "failed runner_failed",
        "failed upload_failed, budget used up",
    ] {
        assert!(
            ends.iter().any(|one| one.starts_with(end)),
            "no {end}: {ends:?}"
        );
    }
}
