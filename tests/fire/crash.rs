//! A gateway dies at each point of each transaction: the next one and the client's repeat bring job,
//! attempt, hold, event and slot to one consistent end. The kit's checker judges the rows.
//!
//! The points are there only in a gateway that was built with the tests (`cargo build --workspace`).

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::ids::RequestId;
use fencepost_protocol::{GatewayFrame, LeaseOffer};
use fencepost_tests::agent_client::{Device, Session};
use fencepost_tests::agent_frames::{accept, commit, declared, decline, fail, resumed};
use fencepost_tests::gateway::TTL;
use fencepost_tests::processes::Process;
use fencepost_tests::stage::start;
use fencepost_tests::worker::{WORDS, Worker};
use fencepost_tests::{Site, TestGateway};
use reqwest::{Method, StatusCode};
use rustix::process::Signal;
use serde_json::json;
use tokio::task::JoinSet;

use crate::work::{OUTPUT, commit_until_final, finish, lease};

const EVERYWHERE: &[&str] = &["begun", "locked", "written", "committed"];
/// The points of transactions that lock no pair of job and attempt.
const WITHOUT_LOCK: &[&str] = &["begun", "written", "committed"];
/// Longer than any delay of a job or of a device, and than the time of a pick-up.
const LATER: Duration = Duration::from_secs(301);

/// One death: where, and the site that it happens in. Its clock stands still.
struct Crash {
    site: Site,
    transaction: &'static str,
    point: &'static str,
}

/// Runs a scenario for each point, all at once.
async fn at_each_point<F: Future<Output = ()> + Send + 'static>(
    transaction: &'static str,
    points: &[&'static str],
    scenario: fn(Crash) -> F,
) {
    let mut running = JoinSet::new();
    for &point in points {
        running.spawn(async move {
            let site = Site::new().await;
            site.clock.freeze().await;
            let crash = Crash {
                site,
                transaction,
                point,
            };
            let outcome = tokio::spawn(scenario(crash)).await;
            (point, outcome.is_ok())
        });
    }
    let ended = running.join_all().await;
    let failed: Vec<_> = ended.iter().filter(|(_, is_ok)| !is_ok).collect();
    assert!(failed.is_empty(), "{transaction}: {failed:?}");
}

impl Crash {
    /// A gateway that will die there.
    async fn doomed(&self) -> TestGateway {
        let log_file = self.site.folder.path().join("doomed.log");
        start(&mut self.doomed_command(), &log_file).await
    }

    fn doomed_command(&self) -> std::process::Command {
        let mut command = self.site.command(&[]);
        let fault = format!("{}:{}=abort", self.transaction, self.point);
        command.env("FENCEPOST_TEST_FAULT", fault);
        command
    }

    /// Whether the transaction was committed before the death.
    fn is_committed(&self) -> bool {
        self.point == "committed"
    }

    /// A device of one slot at a gateway, so that a leaked slot is noticed.
    async fn device(&self, gateway: &TestGateway) -> Device {
        self.site.device(gateway, "mac").await.with_slots(1)
    }

    /// The statuses are these, and the device's slot is free for another job.
    async fn ends(&self, gateway: &TestGateway, session: &mut Session, job: &str, statuses: &str) {
        self.site.becomes(job, statuses).await;
        let next = self.site.buyer(gateway).submit_noop().await;
        let offer = lease(session).await;
        assert_eq!(offer.job_id.to_string(), next);
        finish(gateway, session, &offer).await;
        assert_eq!(self.site.statuses(&next).await, "succeeded: succeeded");
    }
}

/// Waits until a gateway has died where it should.
async fn died(process: &mut Process) {
    let status = process.wait().await;
    let killed_by = status.signal();
    let log = process.log();
    assert_eq!(killed_by, Some(Signal::ABORT.as_raw()), "{status}:\n{log}");
}

#[tokio::test]
async fn a_gateway_may_die_anywhere_in_submitting_a_job() {
    at_each_point("submit_job", EVERYWHERE, |crash| async move {
        let mut doomed = crash.doomed().await;
        let order = json!({ "service": "noop.v1" });
        let request = crash.site.buyer(&doomed).request(Method::POST, "/v1/jobs");
        let answer = request.json(&order).send().await;
        assert!(answer.is_err(), "{answer:?}");
        died(&mut doomed.process).await;

        let gateway = crash.site.gateway().await;
        crash.site.buyer(&gateway).submit(&order).await;
        let jobs = crash.site.db.texts("select id from jobs").await;
        assert_eq!(jobs.len(), 1 + usize::from(crash.is_committed()));
        let mut session = crash.device(&gateway).await.connect(&gateway).await;
        for _ in &jobs {
            let offer = lease(&mut session).await;
            finish(&gateway, &mut session, &offer).await;
        }
        for job in &jobs {
            assert_eq!(crash.site.statuses(job).await, "succeeded: succeeded");
        }
    })
    .await;
}

#[tokio::test]
async fn a_gateway_may_die_anywhere_in_leasing() {
    at_each_point("lease_round", WITHOUT_LOCK, |crash| async move {
        let mut doomed = crash.doomed().await;
        let device = crash.device(&doomed).await;
        let session = device.connect(&doomed).await;
        let job = crash.site.buyer(&doomed).submit_noop().await;
        session.pull(1).await;
        died(&mut doomed.process).await;

        let gateway = crash.site.gateway().await;
        let mut session = device.connect(&gateway).await;
        // What was leased and never offered came back; nobody has to pay for it.
        crash.site.clock.advance(LATER).await;
        let offer = lease(&mut session).await;
        finish(&gateway, &mut session, &offer).await;
        let statuses = if crash.is_committed() {
            "succeeded: lost, succeeded"
        } else {
            "succeeded: succeeded"
        };
        crash.ends(&gateway, &mut session, &job, statuses).await;
        let charged = format!("select charged_attempts from jobs where id = '{job}'");
        assert_eq!(crash.site.db.text(&charged).await, "0");
    })
    .await;
}

#[tokio::test]
async fn a_gateway_may_die_anywhere_in_a_claim_outside_a_socket() {
    at_each_point("claim_lease", EVERYWHERE, |crash| async move {
        let mut doomed = crash.doomed().await;
        let device = crash.device(&doomed).await;
        let job = crash.site.buyer(&doomed).submit_noop().await;
        let claim = RequestId::new();
        let body = json!({ "request_id": claim, "capabilities": WORDS });
        let asked = Worker::new(&doomed, &device)
            .request("", &body)
            .send()
            .await;
        assert!(asked.is_err(), "{asked:?}");
        died(&mut doomed.process).await;

        let gateway = crash.site.gateway().await;
        let worker = Worker::new(&gateway, &device);
        let (status, lease) = worker.post("", &body).await;
        let back = json!({ "claim_request_id": claim });
        let ended = if crash.is_committed() {
            assert_eq!(status, StatusCode::OK, "{lease}");
            worker.say(&lease, "release", back).await
        } else {
            assert_eq!(status, StatusCode::CREATED, "{lease}");
            worker.end(&lease, "release", json!({})).await
        };
        assert_eq!(ended.0, StatusCode::OK, "{}", ended.1);
        assert_eq!(crash.site.statuses(&job).await, "queued: lost");
        crash.site.clock.advance(LATER).await;
        let mut session = device.connect(&gateway).await;
        let offer = crate::work::lease(&mut session).await;
        finish(&gateway, &mut session, &offer).await;
        let statuses = "succeeded: lost, succeeded";
        crash.ends(&gateway, &mut session, &job, statuses).await;
    })
    .await;
}

#[tokio::test]
async fn a_gateway_may_die_anywhere_in_recording_an_accept() {
    at_each_point("record_progress", WITHOUT_LOCK, |crash| async move {
        let mut doomed = crash.doomed().await;
        let device = crash.device(&doomed).await;
        let job = crash.site.buyer(&doomed).submit_noop().await;
        let mut session = device.connect(&doomed).await;
        let offer = session.pull_offer().await;
        session.say(accept(&offer)).await;
        died(&mut doomed.process).await;
        go_on(&crash, &device, &job, &offer).await;
    })
    .await;
}

#[tokio::test]
async fn a_gateway_may_die_anywhere_in_a_hello() {
    at_each_point("begin_session", EVERYWHERE, |crash| async move {
        let mut first = crash.site.gateway().await;
        let device = crash.device(&first).await;
        let job = crash.site.buyer(&first).submit_noop().await;
        let offer = device.connect(&first).await.lease_in(Phase::Running).await;
        first.kill();
        let mut doomed = crash.doomed().await;
        let session = device.dial(&doomed).await;
        session.say(session.hello_frame(&[&offer])).await;
        died(&mut doomed.process).await;
        go_on(&crash, &device, &job, &offer).await;
    })
    .await;
}

/// The lease goes on elsewhere and its job succeeds.
async fn go_on(crash: &Crash, device: &Device, job: &str, offer: &LeaseOffer) {
    let gateway = crash.site.gateway().await;
    let mut session = device.dial(&gateway).await;
    let lease = resumed(offer, &session.hello(&[offer]).await);
    finish(&gateway, &mut session, &lease).await;
    let statuses = "succeeded: succeeded";
    crash.ends(&gateway, &mut session, job, statuses).await;
}

#[tokio::test]
async fn a_gateway_may_die_anywhere_in_accepting_a_commit() {
    at_each_point("begin_verification", EVERYWHERE, commit_on_a_doomed_one).await;
}

#[tokio::test]
async fn a_gateway_may_die_anywhere_in_settling_a_commit() {
    at_each_point("settle_commit", EVERYWHERE, commit_on_a_doomed_one).await;
}

async fn commit_on_a_doomed_one(crash: Crash) {
    let mut doomed = crash.doomed().await;
    let device = crash.device(&doomed).await;
    let job = crash.site.buyer(&doomed).submit_noop().await;
    let mut session = device.connect(&doomed).await;
    let (offer, output) = session.lease_and_upload(&doomed, OUTPUT).await;
    session.say(commit(&offer, &output)).await;
    died(&mut doomed.process).await;

    let gateway = crash.site.gateway().await;
    let mut session = device.dial(&gateway).await;
    let welcome = session.hello(&[&offer]).await;
    let is_settled = crash.transaction == "settle_commit" && crash.is_committed();
    if crash.transaction == "begin_verification" && !crash.is_committed() {
        // Nothing of it was recorded: it is said again with what the welcome gave.
        let lease = resumed(&offer, &welcome);
        assert_eq!(declared(&lease, OUTPUT), output);
        commit_until_final(&mut session, &lease).await;
    } else {
        let status = if is_settled {
            "succeeded"
        } else {
            "committing"
        };
        let recorded = (offer.attempt_id.to_string(), status.to_owned());
        assert_eq!(welcome.recorded, [recorded]);
        // The time of a pick-up passes for its successor to take the verification over.
        crash.site.clock.advance(LATER).await;
        crash.site.becomes(&job, "succeeded: succeeded").await;
        assert!(commit_until_final(&mut session, &offer).await, "not stored");
    }
    let statuses = "succeeded: succeeded";
    crash.ends(&gateway, &mut session, &job, statuses).await;
}

#[tokio::test]
async fn a_gateway_may_die_anywhere_in_recording_a_failure() {
    at_each_point("end_by_agent", EVERYWHERE, |crash| async move {
        let mut doomed = crash.doomed().await;
        let device = crash.device(&doomed).await;
        let job = crash.site.buyer(&doomed).submit_noop().await;
        let mut session = device.connect(&doomed).await;
        let offer = session.lease_in(Phase::Running).await;
        session.say(fail(&offer, "runner_failed")).await;
        died(&mut doomed.process).await;

        let gateway = crash.site.gateway().await;
        let mut session = device.dial(&gateway).await;
        let welcome = session.hello(&[&offer]).await;
        let lease = if crash.is_committed() {
            let recorded = (offer.attempt_id.to_string(), "failed".to_owned());
            assert_eq!(welcome.recorded, [recorded]);
            offer
        } else {
            resumed(&offer, &welcome)
        };
        let answer = session.ask(fail(&lease, "runner_failed")).await;
        let GatewayFrame::Done { replayed, .. } = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(replayed, crash.is_committed());
        let statuses = "failed: failed";
        crash.ends(&gateway, &mut session, &job, statuses).await;
    })
    .await;
}

#[tokio::test]
async fn a_gateway_may_die_anywhere_in_cancelling() {
    at_each_point("cancel_job", EVERYWHERE, |crash| async move {
        let mut doomed = crash.doomed().await;
        let device = crash.device(&doomed).await;
        let job = crash.site.buyer(&doomed).submit_noop().await;
        let mut session = device.connect(&doomed).await;
        let offer = session.lease_in(Phase::Running).await;
        let path = format!("/v1/jobs/{job}/cancel");
        let request = crash.site.buyer(&doomed).request(Method::POST, &path);
        let answer = request.json(&json!({})).send().await;
        assert!(answer.is_err(), "{answer:?}");
        died(&mut doomed.process).await;

        let gateway = crash.site.gateway().await;
        let cancelled = crash.site.buyer(&gateway).cancel(&job).await;
        let expected = ("cancelling".to_owned(), !crash.is_committed());
        assert_eq!(cancelled, expected);
        let mut session = device.dial(&gateway).await;
        let welcome = session.hello(&[&offer]).await;
        assert_eq!(welcome.lost, [offer.attempt_id.to_string()]);
        let statuses = "cancelled: cancelled";
        crash.ends(&gateway, &mut session, &job, statuses).await;
    })
    .await;
}

#[tokio::test]
async fn a_gateway_may_die_anywhere_in_a_sweep() {
    at_each_point("expire_due", EVERYWHERE, |crash| async move {
        let mut first = crash.site.gateway().await;
        let device = crash.device(&first).await;
        let job = crash.site.buyer(&first).submit_noop().await;
        device.connect(&first).await.lease_in(Phase::Running).await;
        first.kill();
        crash.site.clock.advance(TTL).await;
        let log_file = crash.site.folder.path().join("doomed.log");
        let mut doomed = Process::start(&mut crash.doomed_command(), &log_file);
        died(&mut doomed).await;

        let gateway = crash.site.gateway().await;
        crash.site.becomes(&job, "queued: lost").await;
        let mut session = device.connect(&gateway).await;
        let offer = lease(&mut session).await;
        finish(&gateway, &mut session, &offer).await;
        let statuses = "succeeded: lost, succeeded";
        crash.ends(&gateway, &mut session, &job, statuses).await;
        let charged = format!("select charged_attempts from jobs where id = '{job}'");
        assert_eq!(crash.site.db.text(&charged).await, "1");
    })
    .await;
}

#[tokio::test]
async fn a_gateway_may_die_anywhere_in_taking_an_offer_back() {
    at_each_point("return_offers", EVERYWHERE, |crash| async move {
        let mut doomed = crash.doomed().await;
        let device = crash.device(&doomed).await;
        let job = crash.site.buyer(&doomed).submit_noop().await;
        let mut session = device.connect(&doomed).await;
        let offer = session.pull_offer().await;
        session.say(decline(&offer)).await;
        died(&mut doomed.process).await;

        let gateway = crash.site.gateway().await;
        let mut session = device.connect(&gateway).await;
        crash.site.becomes(&job, "queued: lost").await;
        crash.site.clock.advance(LATER).await;
        let offer = lease(&mut session).await;
        finish(&gateway, &mut session, &offer).await;
        let statuses = "succeeded: lost, succeeded";
        crash.ends(&gateway, &mut session, &job, statuses).await;
        let counted =
            format!("select returned_offers, charged_attempts from jobs where id = '{job}'");
        assert_eq!(crash.site.db.text(&counted).await, "1,0");
    })
    .await;
}
