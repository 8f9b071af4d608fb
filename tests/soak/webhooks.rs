//! How long a healthy receiver waits for its webhooks while twenty others do not behave.

use std::time::{Duration, Instant};

use fencepost_tests::receiver::{Act, Receiver};
use fencepost_tests::wait::until;
use fencepost_tests::{Site, TestGateway};

const EVENTS: usize = 100;
/// What is promised of the slowest of a hundred.
const PROMISED: Duration = Duration::from_secs(2);
/// How much longer it may take on a machine that is busy with other things.
const SLACK: u32 = 3;

/// From the buyer's cancel, which ends a job, until the receiver has the whole webhook; sorted.
async fn times(site: &Site, gateway: &TestGateway, receiver: &Receiver) -> Vec<Duration> {
    let buyer = site.buyer(gateway);
    let mut times = Vec::new();
    let before = receiver.heard().len();
    for number in 0..EVENTS {
        let job = buyer.submit_noop().await;
        let asked = Instant::now();
        buyer.cancel(&job).await;
        let heard = receiver.until_heard(before + number + 1).await;
        times.push(heard[before + number].at.saturating_duration_since(asked));
    }
    times.sort();
    times
}

fn shown(times: &[Duration]) -> String {
    let at = |percent: usize| times[(times.len() * percent).div_ceil(100) - 1].as_millis();
    format!(
        "p50 {} ms, p99 {} ms, longest {} ms",
        at(50),
        at(99),
        at(100)
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_receivers_that_do_not_behave_leave_a_healthy_one_its_two_seconds() {
    let site = Site::new().await;
    site.clock.run().await;
    let gateway = site.gateway_for_webhooks().await;
    let buyer = site.buyer(&gateway);
    let good = Receiver::good().await;
    buyer.endpoint(&good.url).await;
    let alone = times(&site, &gateway, &good).await;
    let mut bad = Vec::new();
    for act in [Act::Hang, Act::Drip, Act::EndlessBody, Act::EndlessHead] {
        for _ in 0..5 {
            let receiver = Receiver::start(std::slice::from_ref(&act)).await;
            buyer.endpoint(&receiver.url).await;
            bad.push(receiver);
        }
    }
    // All of them are at it before anything is measured.
    buyer.submit_and_cancel().await;
    until("all of them to be stuck", || async {
        bad.iter().all(|receiver| !receiver.heard().is_empty())
    })
    .await;
    good.until_heard(EVENTS + 1).await;
    let beside = times(&site, &gateway, &good).await;
    println!(
        "soak: {EVENTS} webhooks of short jobs: alone {}; beside {} bad receivers {}",
        shown(&alone),
        bad.len(),
        shown(&beside)
    );
    let p99 = beside[EVENTS - 2];
    assert!(p99 < PROMISED * SLACK, "{p99:?}");
}
