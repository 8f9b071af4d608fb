//! Webhooks when things go wrong around them: gateways that die at every point around an end, and
//! receivers that do not behave.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt as _;
use std::time::{Duration, Instant};

use fencepost_tests::agent_frames::commit;
use fencepost_tests::gateway::TO_THIS_MACHINE;
use fencepost_tests::receiver::{Act, Receiver};
use fencepost_tests::stage::start;
use fencepost_tests::wait::until;
use fencepost_tests::{Site, TestGateway};
use rustix::process::Signal;
use tokio::task::JoinSet;

use crate::work::{OUTPUT, commit_until_final, lease};

const POINTS: [&str; 4] = ["begun", "locked", "written", "committed"];
/// Longer than a claim lasts, and than the time of a verification's pick-up.
const LATER: Duration = Duration::from_secs(31);

/// A gateway that will die at a point of a transaction.
async fn doomed(site: &Site, transaction: &str, point: &str) -> TestGateway {
    let mut command = site.command(&[TO_THIS_MACHINE]);
    command.env(
        "FENCEPOST_TEST_FAULT",
        format!("{transaction}:{point}=abort"),
    );
    let log_file = site.folder.path().join("doomed.log");
    start(&mut command, &log_file).await
}

async fn died(gateway: &mut TestGateway) {
    let status = gateway.process.wait().await;
    let log = gateway.process.log();
    assert_eq!(
        status.signal(),
        Some(Signal::ABORT.as_raw()),
        "{status}:\n{log}"
    );
}

/// Runs a scenario for each point, all at once.
async fn at_each_point<F: Future<Output = ()> + Send + 'static>(
    transaction: &'static str,
    scenario: fn(&'static str, &'static str) -> F,
) {
    let mut running = JoinSet::new();
    for point in POINTS {
        running.spawn(async move {
            let outcome = tokio::spawn(scenario(transaction, point)).await;
            (point, outcome.is_ok())
        });
    }
    let ended = running.join_all().await;
    let failed: Vec<_> = ended.iter().filter(|(_, is_ok)| !is_ok).collect();
    assert!(failed.is_empty(), "{transaction}: {failed:?}");
}

/// There is one event of the job's end, and whatever came more than once is it again.
async fn one_event_arrives(site: &Site, receiver: &Receiver, job: &str) {
    site.clock.advance(LATER).await;
    let heard = receiver.until_heard(1).await;
    assert_eq!(heard[0].json()["data"]["job_id"], *job);
    until("the delivery to be over", || async {
        site.db
            .text("select min(state) from webhook_deliveries")
            .await
            == "succeeded"
    })
    .await;
    let heard = receiver.heard();
    let ids: BTreeSet<_> = heard.iter().map(|one| one.header("webhook-id")).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    let events = format!("select count(*) from outbox where job_id = '{job}'");
    assert_eq!(site.db.text(&events).await, "1");
}

async fn cancel_on_a_doomed_one(transaction: &'static str, point: &'static str) {
    // A cancel of a job that waits locks no pair; its end is written at the same place.
    if point == "locked" {
        return;
    }
    let site = Site::new().await;
    let mut gateway = doomed(&site, transaction, point).await;
    let buyer = site.buyer(&gateway);
    let receiver = Receiver::good().await;
    buyer.endpoint(&receiver.url).await;
    let job = buyer.submit_noop().await;
    let path = format!("/v1/jobs/{job}/cancel");
    let asked = buyer.request(reqwest::Method::POST, &path).send().await;
    assert!(asked.is_err(), "{asked:?}");
    died(&mut gateway).await;
    let is_committed = point == "committed";
    let events = "select count(*) from outbox";
    assert_eq!(site.db.text(events).await == "1", is_committed);
    let gateway = site.gateway_for_webhooks().await;
    if !is_committed {
        // The end was rolled back: there is nothing to tell of, however long one waits.
        site.clock.advance(LATER).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(receiver.heard().is_empty());
        assert_eq!(buyer.at(&gateway).cancel(&job).await.0, "cancelled");
    }
    one_event_arrives(&site, &receiver, &job).await;
}

#[tokio::test]
async fn a_gateway_may_die_anywhere_in_a_cancel_and_its_event_arrives_if_there_is_one() {
    at_each_point("cancel_job", cancel_on_a_doomed_one).await;
}

async fn commit_on_a_doomed_one(transaction: &'static str, point: &'static str) {
    let site = Site::new().await;
    let mut gateway = doomed(&site, transaction, point).await;
    let buyer = site.buyer(&gateway);
    let receiver = Receiver::good().await;
    buyer.endpoint(&receiver.url).await;
    let device = site.device(&gateway, "mac").await;
    let job = buyer.submit_noop().await;
    let mut session = device.connect(&gateway).await;
    let (offer, output) = session.lease_and_upload(&gateway, OUTPUT).await;
    session.say(commit(&offer, &output)).await;
    died(&mut gateway).await;
    let events = "select count(*) from outbox";
    assert_eq!(site.db.text(events).await == "1", point == "committed");
    let gateway = site.gateway_for_webhooks().await;
    let mut session = device.dial(&gateway).await;
    session.hello(&[&offer]).await;
    site.clock.advance(LATER).await;
    site.becomes(&job, "succeeded: succeeded").await;
    assert!(commit_until_final(&mut session, &offer).await, "not stored");
    one_event_arrives(&site, &receiver, &job).await;
}

#[tokio::test]
async fn a_gateway_may_die_anywhere_in_settling_and_its_event_arrives_if_there_is_one() {
    at_each_point("settle_commit", commit_on_a_doomed_one).await;
}

async fn deliver_on_a_doomed_one(transaction: &'static str, point: &'static str) {
    let site = Site::new().await;
    // It would die at its first look, were nothing to be seen: so the event comes first.
    let mut first = site.gateway_with(&[TO_THIS_MACHINE]).await;
    let buyer = site.buyer(&first);
    let receiver = Receiver::good().await;
    let (endpoint, _) = buyer.endpoint(&receiver.url).await;
    let rest = "update webhook_endpoints set rest_until = authority_now() + interval '1 hour'";
    site.db.execute(rest).await;
    let job = buyer.submit_and_cancel().await;
    first.kill();
    site.db
        .execute("update webhook_endpoints set rest_until = null")
        .await;
    let mut command = site.command(&[TO_THIS_MACHINE]);
    command.env(
        "FENCEPOST_TEST_FAULT",
        format!("{transaction}:{point}=abort"),
    );
    let log_file = site.folder.path().join("doomed.log");
    let mut process = fencepost_tests::processes::Process::start(&mut command, &log_file);
    let status = process.wait().await;
    assert_eq!(status.signal(), Some(Signal::ABORT.as_raw()), "{status}");
    let gateway = site.gateway_for_webhooks().await;
    one_event_arrives(&site, &receiver, &job).await;
    // What was sent and not recorded is sent again; nothing else is.
    let sent_before = transaction == "record_deliveries";
    let unrecorded = sent_before && point != "committed";
    let expected = if unrecorded { 2 } else { 1 };
    assert_eq!(receiver.heard().len(), expected, "{transaction}:{point}");
    assert_eq!(buyer.at(&gateway).deliveries(&endpoint).await.len(), 1);
}

#[tokio::test]
async fn a_gateway_may_die_anywhere_in_claiming_deliveries() {
    at_each_point("claim_deliveries", deliver_on_a_doomed_one).await;
}

#[tokio::test]
async fn a_gateway_may_die_anywhere_in_recording_deliveries() {
    at_each_point("record_deliveries", deliver_on_a_doomed_one).await;
}

#[tokio::test]
async fn two_gateways_deliver_every_event_once_between_them() {
    let site = Site::new().await;
    let one = site.gateway_for_webhooks().await;
    let other = site.gateway_for_webhooks().await;
    let receiver = Receiver::good().await;
    let buyer = site.buyer(&one);
    buyer.endpoint(&receiver.url).await;
    let (mine, its) = (buyer.clone(), buyer.at(&other));
    for _ in 0..15 {
        tokio::join!(mine.submit_and_cancel(), its.submit_and_cancel());
    }
    receiver.until_heard(30).await;
    until("everything to be recorded", || async {
        let left = "select count(*) from webhook_deliveries where state <> 'succeeded'";
        site.db.text(left).await == "0"
    })
    .await;
    let heard = receiver.heard();
    let ids: BTreeSet<_> = heard.iter().map(|one| one.header("webhook-id")).collect();
    assert_eq!((heard.len(), ids.len()), (30, 30));
}

/// Transactions that have been open for two seconds with no statement running.
async fn waiting_transactions(site: &Site) -> Vec<String> {
    let query = "select query from pg_stat_activity where datname = current_database()
        and state like 'idle in transaction%' and state_change < clock_timestamp() - interval '2 s'";
    site.db.texts(query).await
}

#[tokio::test]
async fn receivers_that_do_not_behave_delay_nobody_and_hold_no_transaction_open() {
    let site = Site::new().await;
    let gateway = site.gateway_for_webhooks().await;
    let buyer = site.buyer(&gateway);
    let mut bad = Vec::new();
    for act in [Act::Hang, Act::Drip, Act::EndlessBody, Act::EndlessHead] {
        for _ in 0..5 {
            let receiver = Receiver::start(std::slice::from_ref(&act)).await;
            buyer.endpoint(&receiver.url).await;
            bad.push(receiver);
        }
    }
    let good = Receiver::good().await;
    buyer.endpoint(&good.url).await;
    // All of them are at it before anything is measured.
    buyer.submit_and_cancel().await;
    good.until_heard(1).await;
    until("all of them to be stuck", || async {
        bad.iter().all(|receiver| !receiver.heard().is_empty())
    })
    .await;
    let mut latest = Duration::ZERO;
    for number in 0..100 {
        let asked = Instant::now();
        buyer.submit_and_cancel().await;
        let heard = good.until_heard(number + 2).await;
        latest = latest.max(heard[number + 1].at.saturating_duration_since(asked));
        let waiting = waiting_transactions(&site).await;
        assert!(waiting.is_empty(), "they are open meanwhile: {waiting:?}");
    }
    // Sooner than a single one that hangs is given up.
    assert!(latest < Duration::from_secs(15), "{latest:?}");
    let (_, troubles) = gateway.readiness().await;
    assert!(!troubles.contains("dispatcher"), "{troubles}");
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    buyer.submit_noop().await;
    lease(&mut session).await;
    let errors = "select distinct coalesce(error, status::text) from webhook_tries t
        join webhook_endpoints e on e.id = t.endpoint_id where t.status is distinct from 204";
    until("those that hang to be given up", || async {
        let errors = site.db.texts(errors).await;
        errors
            .iter()
            .any(|error| error.contains("no complete answer"))
            && errors.len() > 1
    })
    .await;
    let longest = "select max(length(answer)) from webhook_tries";
    assert!(site.db.text(longest).await.parse::<i64>().unwrap() <= 1_000);
}
