//! What a failure makes of the job: the agent reports, the control plane decides.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::failure::FailureCode;
use fencepost_store::tx::end_by_agent::AgentEndAnswer;
use fencepost_tests::World;
use fencepost_tests::world::{OFFER, TTL};

#[tokio::test]
async fn a_retryable_failure_queues_the_job_again() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    world.end(lease.fail(FailureCode::UploadFailed)).await;
    assert_eq!(world.statuses(&lease).await, "queued, failed");
    assert_eq!(world.job_column(lease.job, "charged_attempts").await, "1");
    assert_eq!(world.postings(lease.job).await, "hold 6000");
    assert!(world.pull(&mac, 1).await.is_empty(), "there was no delay");
    world.clock.advance(Duration::from_secs(5)).await;
    world.sweep().await;
    assert_eq!(world.lease(&mac).await.attempt_number, 2);
}

#[tokio::test]
async fn a_failure_that_would_come_again_fails_the_job() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    world.end(lease.fail(FailureCode::RunnerFailed)).await;
    assert_eq!(world.statuses(&lease).await, "failed, failed");
    let job = world.job(lease.job).await;
    assert_eq!(job.failure_code.as_deref(), Some("runner_failed"));
    assert_eq!(job.failure_message.as_deref(), Some("it did not work"));
    assert_eq!(world.postings(lease.job).await, "hold 6000, release 6000");
    assert_eq!(world.events(lease.job).await, "job.failed");
}

#[tokio::test]
async fn the_last_charged_attempt_fails_the_job_by_report_and_by_expiry() {
    for by_report in [true, false] {
        let world = World::new().await;
        let mac = world.device("mac").await;
        let job = world.submit().await;
        for number in 1..=3 {
            world.clock.advance(Duration::from_mins(5)).await;
            world.sweep().await;
            let lease = world.lease(&mac).await;
            world.progress(&lease, Phase::Uploading).await;
            assert_eq!((lease.job, lease.attempt_number), (job, number));
            if by_report {
                world.end(lease.fail(FailureCode::UploadFailed)).await;
            } else {
                world.expire(&lease).await;
            }
        }
        let view = world.job(job).await;
        assert_eq!((view.status.as_str(), view.charged_attempts), ("failed", 3));
        let code = if by_report {
            "upload_failed"
        } else {
            "lease_expired"
        };
        assert_eq!(view.failure_code.as_deref(), Some(code));
    }
}

#[tokio::test]
async fn what_is_uncharged_uses_up_no_budget() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let job = world.submit_with(|job| job.max_attempts = 1).await;
    for how in ["release", "no_capacity", "offer", "return"] {
        world.clock.advance(Duration::from_secs(301)).await;
        world.sweep().await;
        let lease = world.lease(&mac).await;
        match how {
            "offer" => {
                world.clock.advance(OFFER).await;
                world.sweep().await;
            }
            "return" => drop(
                world
                    .store
                    .return_offers(vec![lease.claim()])
                    .await
                    .unwrap(),
            ),
            _ => {
                world.progress(&lease, Phase::Running).await;
                let no_capacity = lease.fail(FailureCode::NoCapacity);
                world
                    .end(if how == "release" {
                        lease.release()
                    } else {
                        no_capacity
                    })
                    .await;
            }
        }
        assert_eq!(world.statuses(&lease).await, "queued, lost", "{how}");
    }
    assert_eq!(world.job_column(job, "charged_attempts").await, "0");
}

#[tokio::test]
async fn the_buyers_budget_and_deadline_are_kept_and_not_the_defaults() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let chosen = |job: &mut fencepost_store::tx::submit_job::NewJob| {
        job.max_attempts = 1;
        job.deadline = LeaseDuration::seconds(6 * 3_600);
    };
    let lease = world.in_phase_with(&mac, Phase::Running, chosen).await;
    let view = world.job(lease.job).await;
    assert_eq!(view.max_attempts, 1);
    assert_eq!(
        view.admission_deadline,
        view.created_at + Duration::from_hours(6)
    );
    world.expire(&lease).await;
    assert_eq!(world.statuses(&lease).await, "failed, lost");
    assert_eq!(world.events(lease.job).await, "job.failed");
}

#[tokio::test]
async fn nothing_is_retried_after_the_admission_deadline() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    for how in ["fail", "expire", "release"] {
        let soon = |job: &mut fencepost_store::tx::submit_job::NewJob| {
            job.deadline = LeaseDuration::seconds(30);
        };
        let lease = world.in_phase_with(&mac, Phase::Running, soon).await;
        world.clock.advance(Duration::from_secs(30)).await;
        world.sweep().await;
        assert_eq!(
            world.statuses(&lease).await,
            "active, running",
            "what runs may finish"
        );
        match how {
            "fail" => drop(world.end(lease.fail(FailureCode::DownloadFailed)).await),
            "release" => drop(world.end(lease.release()).await),
            _ => {
                world.clock.advance(TTL).await;
                world.sweep().await;
            }
        }
        let view = world.job(lease.job).await;
        assert_eq!(view.status, "failed", "{how}");
        assert_eq!(
            view.failure_code.as_deref(),
            Some("deadline_exceeded"),
            "{how}"
        );
    }
}

#[tokio::test]
async fn a_job_that_nobody_took_fails_at_its_deadline_and_is_not_leased_at_it() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let job = world
        .submit_with(|job| job.deadline = LeaseDuration::seconds(30))
        .await;
    world.clock.advance(Duration::from_secs(30)).await;
    assert!(
        world.pull(&mac, 1).await.is_empty(),
        "leased at its deadline"
    );
    world.sweep().await;
    let view = world.job(job).await;
    assert_eq!(view.failure_code.as_deref(), Some("deadline_exceeded"));
    assert_eq!(world.postings(job).await, "hold 6000, release 6000");
    assert_eq!(world.events(job).await, "job.failed");
}

#[tokio::test]
async fn every_code_is_retried_or_not_as_the_table_says() {
    let world = World::new().await;
    for &code in FailureCode::ALL {
        // A Mac for each, so that none fails often enough to be backed off.
        let mac = world.device(code.as_str()).await;
        let lease = world.in_phase(&mac, Phase::Running).await;
        world.end(lease.fail(code)).await;
        let expected = if code == FailureCode::NoCapacity {
            "queued, lost"
        } else if code.is_retryable() {
            "queued, failed"
        } else {
            "failed, failed"
        };
        assert_eq!(world.statuses(&lease).await, expected, "{}", code.as_str());
        let charged = code.is_retryable() && code != FailureCode::NoCapacity;
        let column = world.job_column(lease.job, "charged_attempts").await;
        assert_eq!(column, i32::from(charged).to_string(), "{}", code.as_str());
        world.cancel(lease.job).await;
        world.store.disable_device(mac.id, None).await.unwrap();
    }
    assert_eq!(
        FailureCode::parse_lenient("please_retry_me"),
        FailureCode::InternalError
    );
}

#[tokio::test]
async fn the_same_fail_again_is_answered_from_what_is_stored_and_another_is_refused() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    let AgentEndAnswer::Final {
        end,
        replayed: false,
    } = world.end(lease.fail(FailureCode::DeviceFault)).await
    else {
        panic!("it did not end");
    };
    let before = world.db.rows().await;
    let again = world.end(lease.fail(FailureCode::DeviceFault)).await;
    assert_eq!(
        again,
        AgentEndAnswer::Final {
            end,
            replayed: true
        }
    );
    let other = world.end(lease.fail(FailureCode::RunnerFailed)).await;
    assert!(matches!(other, AgentEndAnswer::Refused(_)), "{other:?}");
    assert_eq!(world.db.rows().await, before);
}

#[tokio::test]
async fn twenty_offers_that_came_back_make_a_job_undeliverable() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let job = world.submit().await;
    for offer in 1..=20 {
        // Past the job's delay, the device's own and the time for which it is quarantined.
        world.clock.advance(Duration::from_secs(3_601)).await;
        world.sweep().await;
        let lease = world.lease(&mac).await;
        assert_eq!(lease.attempt_number, offer);
        world
            .store
            .return_offers(vec![lease.claim()])
            .await
            .unwrap();
    }
    let view = world.job(job).await;
    assert_eq!(view.failure_code.as_deref(), Some("undeliverable"));
    assert_eq!(view.charged_attempts, 0);
}
