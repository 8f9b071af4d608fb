//! Postgres goes away, stands still, cuts us off, answers late: gateways say so, lose nothing, and go
//! on by themselves.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_protocol::{GatewayFrame, LeaseOffer};
use fencepost_tests::agent_client::Session;
use fencepost_tests::agent_frames::{commit, declared, progress};
use fencepost_tests::processes::signal_tree;
use fencepost_tests::wait::until;
use fencepost_tests::{Stage, TestGateway};
use rustix::process::Signal;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::work::{OUTPUT, commit_until_final, finish, lease};

/// Leases outlive ten seconds without a database; offers do not.
const CONFIG: &str = r#"
[http]
bind = "127.0.0.1:0"
workers = 1
[admin]
bind = "127.0.0.1:0"
[database]
max_connections = 6
[leases]
ttl = "40s"
accept = "3s"
renew = "1s"
answer = "20s"
reconnect_max = "500ms"
heartbeat = "1s"
session_dead = "5s"
sweep = "200ms"
verification_takeover = "2s"
pull = "1s"
[prices."noop.v1"]
base_micros = 1000
per_minute_micros = 500
[telemetry]
format = "json"
level = "info"
"#;
/// Loops resume within ten seconds; five times that on a busy machine.
const RESUMED: Duration = Duration::from_secs(50);

/// A gateway with a running attempt, one whose output is uploaded, and an offer that nobody accepts.
struct Scene {
    stage: Stage,
    gateway: TestGateway,
    session: Session,
    running: LeaseOffer,
    uploaded: LeaseOffer,
    offered: LeaseOffer,
}

impl Scene {
    async fn new() -> Self {
        let stage = Stage::new(CONFIG).await;
        let gateway = stage.gateway("gateway", &[]).await;
        let buyer = stage.buyer(&gateway);
        let mut session = stage.device(&gateway, "mac").await.connect(&gateway).await;
        for _ in 0..3 {
            buyer.submit_noop().await;
        }
        let running = session.lease_in(Phase::Running).await;
        let (uploaded, _) = session.lease_and_upload(&gateway, OUTPUT).await;
        let offered = session.pull_offer().await;
        assert!(gateway.readiness().await.0);
        Self {
            stage,
            gateway,
            session,
            running,
            uploaded,
            offered,
        }
    }

    async fn becomes_unready(&self) {
        until("a gateway that is not ready", || async {
            !self.gateway.readiness().await.0
        })
        .await;
    }

    /// Every loop goes round again, and nothing was lost.
    async fn goes_on(mut self) {
        let began = Instant::now();
        until("a gateway that is ready again", || async {
            self.gateway.readiness().await.0
        })
        .await;
        assert!(began.elapsed() < RESUMED, "after {:?}", began.elapsed());
        // The socket has outlived it, and so has what was said meanwhile.
        commit_until_final(&mut self.session, &self.uploaded).await;
        let answer = self
            .session
            .ask(progress(&self.running, Phase::Uploading))
            .await;
        assert!(
            matches!(answer, GatewayFrame::ProgressOk { .. }),
            "{answer:?}"
        );
        finish(&self.gateway, &mut self.session, &self.running).await;
        // The sweeper takes the offer back; the matcher finds a new job at once.
        let job = self.offered.job_id;
        let returned = format!("select status from jobs where id = '{job}'");
        until("the offer to come back", || async {
            self.stage.texts(&returned).await == ["queued"]
        })
        .await;
        let buyer = self.stage.buyer(&self.gateway);
        let next = buyer.submit_noop().await;
        let offer = lease(&mut self.session).await;
        assert_eq!(offer.job_id.to_string(), next);
        finish(&self.gateway, &mut self.session, &offer).await;
        for lease in [&self.running, &self.uploaded, &offer] {
            let statuses = format!(
                "select string_agg(status::text, ', ') from attempts where job_id = '{}'",
                lease.job_id
            );
            assert_eq!(self.stage.texts(&statuses).await, ["succeeded"]);
        }
        let violations = self.stage.violations().await;
        assert!(violations.is_empty(), "{violations:#?}");
    }
}

#[tokio::test]
async fn after_an_immediate_restart_of_postgres_everything_goes_on() {
    let mut scene = Scene::new().await;
    scene.stage.stop_postgres().await;
    let output = declared(&scene.uploaded, OUTPUT);
    scene.session.say(commit(&scene.uploaded, &output)).await;
    scene.becomes_unready().await;
    scene.stage.start_postgres().await;
    scene.goes_on().await;
}

#[tokio::test]
async fn ten_seconds_of_a_postgres_that_stands_still_cost_nothing() {
    let scene = Scene::new().await;
    signal_tree(scene.stage.server(), Signal::STOP);
    let output = declared(&scene.uploaded, OUTPUT);
    scene.session.say(commit(&scene.uploaded, &output)).await;
    let began = Instant::now();
    scene.becomes_unready().await;
    tokio::time::sleep_until(began + Duration::from_secs(10)).await;
    signal_tree(scene.stage.server(), Signal::CONT);
    scene.goes_on().await;
}

#[tokio::test]
async fn backends_that_are_terminated_one_after_the_other_cost_nothing() {
    let mut scene = Scene::new().await;
    let backends = "select array_to_string(array_agg(pid), ' ') from pg_stat_activity
        where application_name = 'fencepost' and datname = current_database()";
    let mut terminated = 0;
    for _ in 0..3 {
        let pids = scene.stage.texts(backends).await.concat();
        for pid in pids.split_whitespace() {
            let kill = format!("select pg_terminate_backend({pid})");
            scene.stage.texts(&kill).await;
            terminated += 1;
            let progress = progress(&scene.running, Phase::Running);
            let answer = scene.session.ask(progress).await;
            assert!(
                matches!(answer, GatewayFrame::ProgressOk { .. }),
                "{answer:?}"
            );
        }
    }
    assert!(terminated >= 6, "only {terminated} were there");
    scene.goes_on().await;
}

const LATE: Duration = Duration::from_millis(300);
const REQUESTS: u64 = 100;

#[tokio::test]
async fn requests_that_are_dropped_anywhere_leave_no_transaction_open_and_no_half_of_a_job() {
    let stage = Stage::new(CONFIG).await;
    // As few as there may be.
    let settings = [("database.max_connections", "4")];
    let gateway = stage.gateway("gateway", &settings).await;
    let buyer = stage.buyer(&gateway);
    stage.line.delay(LATE);
    for batch in 0..REQUESTS / 10 {
        let mut requests = JoinSet::new();
        for number in 0..10 {
            let (path, order) = match number % 4 {
                0 => ("/v1/uploads", json!({})),
                _ => ("/v1/jobs", json!({ "service": "noop.v1" })),
            };
            let request = buyer.request(reqwest::Method::POST, path).json(&order);
            // From "at once" to "just before the end", another moment each time.
            let patience = Duration::from_millis((batch * 10 + number) * 37 % 2_000);
            requests.spawn(async move {
                // Its connection is closed when the time is over.
                let _ = tokio::time::timeout(patience, request.send()).await;
            });
        }
        requests.join_all().await;
    }
    stage.line.delay(Duration::ZERO);
    until("no open transaction", || async {
        let open = "select count(*) from pg_stat_activity
            where datname = current_database() and state like 'idle in transaction%'";
        stage.texts(open).await == ["0"]
    })
    .await;
    until("a gateway that is ready", || async {
        gateway.readiness().await.0
    })
    .await;
    let violations = stage.violations().await;
    assert!(violations.is_empty(), "{violations:#?}");
    // Every job that there is can be worked, and so can one more.
    buyer.submit_noop().await;
    let mut session = stage.device(&gateway, "mac").await.connect(&gateway).await;
    let queued = "select count(*) from jobs where status = 'queued'";
    let jobs: usize = stage
        .texts(queued)
        .await
        .concat()
        .parse()
        .expect("a number");
    for _ in 0..jobs {
        let offer = lease(&mut session).await;
        finish(&gateway, &mut session, &offer).await;
    }
    let left = "select count(*) from jobs where status <> 'succeeded'";
    assert_eq!(stage.texts(left).await, ["0"]);
    let violations = stage.violations().await;
    assert!(violations.is_empty(), "{violations:#?}");
}
