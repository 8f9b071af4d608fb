//! Whole lives: buyers post, devices work, and what it took is divided by the number of jobs.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fencepost_domain::ids::JobId;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::buyer::Buyer;
use crate::ceiling::Ceiling;
use crate::cli::{Cli, LifecycleArgs};
use crate::database::Database;
use crate::device::Device;
use crate::error::LoadError;
use crate::figures::{Percentiles, per, round};
use crate::gateways::{self, Gateway};
use crate::observe::{self, Snapshot};
use crate::people::{self, People};
use crate::report::{Report, shown};
use crate::sockets::Socket;

const BUYERS: u32 = 32;
/// Nothing settled for this long means that something hangs.
const PATIENCE: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(20);

/// A life as its device saw it.
pub(crate) struct Life {
    /// The job.
    pub(crate) job: JobId,
    /// When its offer came.
    pub(crate) offered: Instant,
    /// When its commit was sent.
    pub(crate) committed: Instant,
    /// When the commit was answered.
    pub(crate) settled: Instant,
}

/// Where buyers and devices note what happened.
pub(crate) struct Board {
    room: Semaphore,
    settled: AtomicU64,
    again: AtomicU64,
    submitted: Mutex<HashMap<JobId, Instant>>,
    lives: Mutex<Vec<Life>>,
}

impl Board {
    fn new(in_flight: u32) -> Self {
        Self {
            room: Semaphore::new(usize::try_from(in_flight).unwrap_or(1)),
            settled: AtomicU64::new(0),
            again: AtomicU64::new(0),
            submitted: Mutex::default(),
            lives: Mutex::default(),
        }
    }

    /// Waits until one more job may be under way; it is until it is settled.
    pub(crate) async fn wait_for_room(&self) {
        // The semaphore is never closed.
        if let Ok(permit) = self.room.acquire().await {
            permit.forget();
        }
    }

    /// A job was posted, which was begun at `asked`.
    pub(crate) fn submitted(&self, job: JobId, asked: Instant) {
        lock(&self.submitted).insert(job, asked);
    }

    /// A life is over.
    pub(crate) fn settled(&self, life: Life) {
        lock(&self.lives).push(life);
        self.settled.fetch_add(1, Ordering::Relaxed);
        self.room.add_permits(1);
    }

    /// The gateway asked for patience.
    pub(crate) fn said_again(&self) {
        self.again.fetch_add(1, Ordering::Relaxed);
    }

    /// Forgets the lives so far, which were for warming up.
    fn begin(&self) {
        lock(&self.submitted).clear();
        lock(&self.lives).clear();
        self.settled.store(0, Ordering::Relaxed);
        self.again.store(0, Ordering::Relaxed);
    }
}

/// Nobody panics while holding one of these.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Everything that runs during the scenario.
struct Scene {
    board: Arc<Board>,
    people: People,
    gateways: Vec<Gateway>,
    devices: JoinSet<Result<(), LoadError>>,
    http: reqwest::Client,
}

/// Runs the scenario.
pub(crate) async fn run(
    cli: &Cli,
    args: &LifecycleArgs,
    database: &Database,
) -> Result<Report, LoadError> {
    let ceiling = Ceiling::prepare(database, args.ceiling_seconds)?;
    let before_lives = measure(ceiling.as_ref(), "before").await?;
    let mut scene = Scene::set_up(cli, args, database).await?;
    scene.live(args.warm_up(), "warming up").await?;
    scene.board.begin();
    let before = Snapshot::take(database, &scene.gateways, &scene.http).await?;
    let elapsed = scene.live(args.jobs, "measuring").await?;
    let after = Snapshot::take(database, &scene.gateways, &scene.http).await?;
    let dead_tuples = observe::dead_tuples(&database.pool).await?;
    check_rows(database, args.warm_up() + args.jobs).await?;
    let board = Arc::clone(&scene.board);
    drop(scene);
    let after_lives = measure(ceiling.as_ref(), "after").await?;
    let ceilings = before_lives.zip(after_lives);
    let measured = Measured {
        before,
        after,
        elapsed,
        dead_tuples,
        ceilings,
    };
    Ok(measured.report(args, &board))
}

async fn measure(ceiling: Option<&Ceiling>, when: &str) -> Result<Option<f64>, LoadError> {
    let Some(ceiling) = ceiling else {
        return Ok(None);
    };
    eprintln!("measuring the ceiling, {when} …");
    ceiling.measure().await.map(Some)
}

impl Scene {
    async fn set_up(
        cli: &Cli,
        args: &LifecycleArgs,
        database: &Database,
    ) -> Result<Self, LoadError> {
        eprintln!(
            "starting {} gateways, pairing {} devices …",
            args.gateways, args.devices
        );
        let people = people::set_up(database, args.orgs, args.devices).await?;
        observe::prepare(&database.pool).await;
        let gateways = gateways::start(cli, database, args.gateways).await?;
        let addresses: Vec<SocketAddr> = gateways.iter().map(|gateway| gateway.http).collect();
        let board = Arc::new(Board::new(args.in_flight()));
        let http = reqwest::Client::builder()
            .no_proxy()
            // Shorter than the gateway keeps an idle connection.
            .pool_idle_timeout(Duration::from_secs(2))
            .tcp_nodelay(true)
            .timeout(PATIENCE)
            .build()?;
        let mut devices = JoinSet::new();
        for (token, gateway) in people.devices.iter().zip(addresses.iter().cycle()) {
            let socket = Socket::open(*gateway, token, args.slots).await?;
            let board = Arc::clone(&board);
            let device = Device::new(socket, *gateway, http.clone(), args.slots, board);
            devices.spawn(device.run());
        }
        Ok(Self {
            board,
            people,
            gateways,
            devices,
            http,
        })
    }

    /// Lets so many jobs live and waits until all are settled.
    async fn live(&mut self, jobs: u64, what: &'static str) -> Result<Duration, LoadError> {
        let started = Instant::now();
        let target = self.board.settled.load(Ordering::Relaxed) + jobs;
        let mut buyers = self.buyers(jobs);
        let bar = progress_bar(jobs, what);
        let (mut last, mut last_moved) = (0, Instant::now());
        loop {
            let settled = self.board.settled.load(Ordering::Relaxed);
            bar.set_position((settled + jobs).saturating_sub(target));
            if settled >= target {
                break;
            }
            if settled > last {
                (last, last_moved) = (settled, Instant::now());
            } else if last_moved.elapsed() > PATIENCE {
                return Err(LoadError::Stuck(PATIENCE.as_secs(), settled, target));
            }
            tokio::select! {
                Some(ended) = self.devices.join_next() => ended.map_err(|error| panicked(&error))??,
                Some(ended) = buyers.join_next(), if !buyers.is_empty() => {
                    ended.map_err(|error| panicked(&error))??;
                }
                () = tokio::time::sleep(POLL) => {}
            }
            for gateway in &mut self.gateways {
                gateway.check()?;
            }
        }
        let elapsed = started.elapsed();
        bar.finish_and_clear();
        Ok(elapsed)
    }

    fn buyers(&self, jobs: u64) -> JoinSet<Result<(), LoadError>> {
        let left = Arc::new(AtomicU64::new(jobs));
        let mut buyers = JoinSet::new();
        let addresses = self.gateways.iter().map(|gateway| gateway.http).cycle();
        let keys = self.people.keys.iter().cycle();
        for (_, (gateway, key)) in (0..BUYERS).zip(addresses.zip(keys)) {
            let buyer = Buyer {
                http: self.http.clone(),
                gateway,
                key: key.clone(),
                left: Arc::clone(&left),
                board: Arc::clone(&self.board),
            };
            buyers.spawn(buyer.run());
        }
        buyers
    }
}

fn panicked(error: &tokio::task::JoinError) -> LoadError {
    LoadError::Unexpected(error.to_string())
}

fn progress_bar(jobs: u64, what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(jobs).with_message(what);
    // The template is ours; a bar in the standard style is as good.
    let style = ProgressStyle::with_template("{msg:<12} {bar:40} {pos}/{len} {per_sec}");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}

/// Every job must have been published, paid and announced: a fast run that loses one is worthless.
async fn check_rows(database: &Database, jobs: u64) -> Result<(), LoadError> {
    let counts: (i64, i64, i64) = sqlx::query_as(
        "-- fencepost-load\nselect (select count(*) from jobs where status = 'succeeded'), \
         (select count(*) from outbox where terminal), \
         (select count(distinct job_id) from postings where kind = 'capture_provider')",
    )
    .fetch_one(&database.pool)
    .await?;
    let expected = i64::try_from(jobs).unwrap_or(i64::MAX);
    if counts == (expected, expected, expected) {
        return Ok(());
    }
    let what = format!(
        "of {jobs} jobs {} succeeded, {} were announced and {} were paid",
        counts.0, counts.1, counts.2
    );
    Err(LoadError::Unexpected(what))
}

struct Measured {
    before: Snapshot,
    after: Snapshot,
    elapsed: Duration,
    dead_tuples: u64,
    ceilings: Option<(f64, f64)>,
}

impl Measured {
    fn report(&self, args: &LifecycleArgs, board: &Board) -> Report {
        let jobs = args.jobs;
        let rate = round(per(jobs, 1) / self.elapsed.as_secs_f64(), 1);
        let ceiling = self
            .ceilings
            .map(|(before, after)| round(f64::midpoint(before, after), 1));
        let ratio = ceiling.map(|ceiling| round(rate / ceiling, 3));
        let (pickup, settle) = times(board);
        let transactions = self.after.transactions_since(&self.before);
        let statements = self.after.statements_since(&self.before);
        let transactions_per_job = round(per(transactions.values().sum(), jobs), 3);
        let statements_per_job = statements
            .as_ref()
            .map(|all| round(per(all.values().map(|one| one.calls).sum(), jobs), 3));
        let wal = round(
            per(
                self.after.wal_bytes.saturating_sub(self.before.wal_bytes),
                jobs,
            ),
            0,
        );
        let cpu = self.after.cpu.since(self.before.cpu, per(1_000, jobs));
        let title = format!(
            "{jobs} lives of noop.v1 on {} gateways and {} devices, {} under way",
            args.gateways,
            args.devices,
            args.in_flight()
        );
        let mut report = Report::new(
            &title,
            json!({
                "jobs_per_second": rate,
                "ceiling_per_second": ceiling,
                "ratio": ratio,
                "pickup_ms": pickup,
                "settle_ms": settle,
                "transactions_per_job": transactions_per_job,
                "statements_per_job": statements_per_job,
                "wal_bytes_per_job": wal,
                "dead_tuples": self.dead_tuples,
                "cpu_seconds_per_1000": cpu,
            }),
        );
        let percentiles = |of: Percentiles| format!("{} / {} / {}", of.p50, of.p95, of.p99);
        report.line("jobs per second", rate);
        report.line("ceiling per second", shown(ceiling));
        if let Some((before, after)) = self.ceilings {
            report.line("  before / after", format!("{before:.1} / {after:.1}"));
        }
        report.line("ratio", shown(ratio));
        report.line("pick-up ms, p50 / p95 / p99", percentiles(pickup));
        report.line("settle ms, p50 / p95 / p99", percentiles(settle));
        report.line("transactions per job", transactions_per_job);
        report.line("statements per job", shown(statements_per_job));
        report.line("WAL bytes per job", wal);
        report.line("dead tuples at the end", self.dead_tuples);
        report.line("CPU s per 1,000 jobs: postgres", shown(cpu.postgres));
        report.line("CPU s per 1,000 jobs: gateways", shown(cpu.gateway));
        report.line("CPU s per 1,000 jobs: load", shown(cpu.load));
        report.line(
            "said again (asked for patience)",
            board.again.load(Ordering::Relaxed),
        );
        report.transactions(&transactions, ("per job", jobs));
        if let Some(statements) = &statements {
            report.statements(statements, ("per job", jobs));
        }
        report
    }
}

/// From the POST to the offer, and from the commit to its answer.
fn times(board: &Board) -> (Percentiles, Percentiles) {
    let (submitted, lives) = (lock(&board.submitted), lock(&board.lives));
    let pickup = lives.iter().filter_map(|life| {
        let asked = submitted.get(&life.job)?;
        Some(life.offered.saturating_duration_since(*asked))
    });
    let settle = lives
        .iter()
        .map(|life| life.settled.saturating_duration_since(life.committed));
    (
        Percentiles::of(pickup.collect()),
        Percentiles::of(settle.collect()),
    )
}
