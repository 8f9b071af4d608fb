//! What an ended attempt left on its device: handed over by whoever held the lease, reaped when its
//! time is over, and never mistaken for somebody else's.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::failure::FailureCode;
use fencepost_store::StoreError;
use fencepost_store::fence::FenceMode;
use fencepost_store::tx::begin_session::SessionAnswer;
use fencepost_store::tx::begin_verification::CommitAnswer;
use fencepost_store::tx::end_by_agent::AgentEndAnswer;
use fencepost_store::tx::hand_off::HandOffAnswer;
use fencepost_store::tx::reap_workspaces::Reap;
use fencepost_store::tx::write_events::JournalAnswer;
use fencepost_tests::world::foreign_token;
use fencepost_tests::{Device, Lease, World};
use serde_json::json;

const DONE: HandOffAnswer = HandOffAnswer::Done { replayed: false };
const AGAIN: HandOffAnswer = HandOffAnswer::Done { replayed: true };

fn is_refused(answer: &HandOffAnswer) -> bool {
    matches!(answer, HandOffAnswer::Refused(_))
}

fn is_invalid(answer: &HandOffAnswer, field: &str) -> bool {
    matches!(answer, HandOffAnswer::Invalid(problem) if problem.field == field)
}

async fn failed(world: &World, mac: &Device) -> Lease {
    let lease = world.in_phase(mac, Phase::Running).await;
    world.end(lease.fail(FailureCode::RunnerFailed)).await;
    lease
}

/// A lease whose attempt was ended over its head: the job was cancelled and nobody confirmed.
async fn forced(world: &World, mac: &Device) -> Lease {
    let lease = world.in_phase(mac, Phase::Running).await;
    world.cancel(lease.job).await;
    world.clock.advance(Duration::from_secs(15)).await;
    world.sweep().await;
    assert_eq!(world.statuses(&lease).await, "cancelled, cancelled");
    assert_eq!(
        world.attempt_column(lease.attempt, "lease_epoch").await,
        "2"
    );
    lease
}

async fn resumed(world: &World, mac: &mut Device, lease: &Lease) -> Lease {
    let answer = world.reconnect(mac, vec![lease.held()]).await;
    let SessionAnswer::Current { resumed, .. } = answer else {
        panic!("{answer:?}");
    };
    let mut lease = lease.clone();
    (lease.0.epoch, lease.0.token) = (resumed[0].epoch, resumed[0].token.clone());
    lease
}

async fn gone(world: &World, mac: &Device, handle: &str) -> bool {
    let reap = Reap {
        device: mac.id,
        handle: handle.to_owned(),
    };
    let known = world.store.reaped(vec![reap]).await;
    known.expect("reaping runs")[0]
}

#[tokio::test]
async fn an_end_clears_the_expiry_only_and_the_hand_off_consumes_the_digest() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = failed(&world, &mac).await;
    let column = async |name: &str| world.attempt_column(lease.attempt, name).await;
    assert_eq!(column("lease_expires_at").await, "");
    assert_ne!(column("token_digest").await, "");
    assert_eq!(world.hand_off(&lease.hand_off("")).await, DONE);
    assert_eq!(column("token_digest").await, "");
    let kept = "select handle || ' ' || (reap_after - recorded_at) from workspaces";
    assert_eq!(
        world.db.text(kept).await,
        format!("{} 00:15:00", lease.attempt)
    );
    let before = world.db.rows().await;
    assert_eq!(world.hand_off(&lease.hand_off("")).await, AGAIN);
    let mut other = lease.hand_off("");
    other.retain_for = LeaseDuration::seconds(60);
    for other in [other, lease.hand_off(".vm")] {
        assert!(is_refused(&world.hand_off(&other).await));
    }
    assert_eq!(world.db.rows().await, before);
}

#[tokio::test]
async fn only_the_lease_under_which_it_ended_hands_over_and_only_its_own_workspace() {
    let world = World::new().await;
    let (mac, other) = (world.device("mac").await, world.device("other").await);
    let live = world.in_phase(&mac, Phase::Running).await;
    let lease = failed(&world, &mac).await;
    let before = world.db.rows().await;
    assert!(
        is_refused(&world.hand_off(&live.hand_off("")).await),
        "not ended"
    );
    let mut wrong = vec![lease.hand_off(""); 5];
    wrong[0].claim.device = other.id;
    wrong[1].claim.job = live.job;
    wrong[2].claim.epoch += 1;
    wrong[3].token = foreign_token().digest();
    wrong[4].token = live.digest();
    let where_alone = world.store.with_fence(FenceMode::OnlyWhere);
    for wrong in &wrong {
        let answer = world.hand_off(wrong).await;
        assert!(is_refused(&answer), "{wrong:?}: {answer:?}");
        // The WHERE alone is never asked, and says that it contradicts.
        let answer = where_alone.hand_off(vec![wrong.clone()]).await;
        assert!(
            matches!(answer, Err(StoreError::Inconsistency { .. })),
            "{wrong:?}: {answer:?}"
        );
    }
    for name in ["x", "/../etc", &".".repeat(200)] {
        let answer = world.hand_off(&lease.hand_off(name)).await;
        assert!(is_invalid(&answer, "handle"), "{answer:?}");
    }
    let mut theirs = lease.hand_off("");
    theirs.handle = live.attempt.to_string();
    assert!(is_invalid(&world.hand_off(&theirs).await, "handle"));
    assert_eq!(world.db.rows().await, before);
    assert_eq!(world.hand_off(&lease.hand_off(".vm-1")).await, DONE);
}

#[tokio::test]
async fn every_ended_attempt_can_be_handed_over_by_its_last_holder() {
    for end in ["fail", "release", "commit", "expire", "stopped"] {
        let world = World::new().await;
        let mac = world.device("mac").await;
        let lease = world.in_phase(&mac, Phase::Uploading).await;
        match end {
            "fail" => drop(world.end(lease.fail(FailureCode::DeviceFault)).await),
            "release" => drop(world.end(lease.release()).await),
            "commit" => drop(world.win(&lease).await),
            "expire" => world.expire(&lease).await,
            _ => {
                world.cancel(lease.job).await;
                world.end(lease.stopped()).await;
            }
        }
        let before = world.statuses(&lease).await;
        assert_eq!(world.hand_off(&lease.hand_off("")).await, DONE, "{end}");
        assert_eq!(world.statuses(&lease).await, before, "{end}");
    }
}

#[tokio::test]
async fn stored_answers_outlive_the_hand_off_and_a_new_session() {
    for end in ["fail", "release", "commit"] {
        let world = World::new().await;
        let mut mac = world.device("mac").await;
        let lease = world.in_phase(&mac, Phase::Uploading).await;
        let event = lease.event(0);
        world.event(&event).await;
        let say = async || {
            if end == "commit" {
                return match world.commit(&lease).await {
                    CommitAnswer::Final { replayed, .. } => replayed,
                    other => panic!("{other:?}"),
                };
            }
            let word = if end == "fail" {
                lease.fail(FailureCode::RunnerFailed)
            } else {
                lease.release()
            };
            match world.end(word).await {
                AgentEndAnswer::Final { replayed, .. } => replayed,
                other => panic!("{other:?}"),
            }
        };
        if end == "commit" {
            world.win(&lease).await;
        } else {
            assert!(!say().await);
        }
        world.hand_off(&lease.hand_off("")).await;
        world.reconnect(&mut mac, vec![lease.held()]).await;
        let before = world.db.rows().await;
        assert!(say().await, "{end} was not answered from what is stored");
        assert_eq!(world.hand_off(&lease.hand_off("")).await, AGAIN);
        let again = world.event(&event).await;
        let stored = matches!(
            again,
            JournalAnswer::Stored {
                replayed: true,
                lease_live: false,
                ..
            }
        );
        assert!(stored, "{end}: {again:?}");
        let other = lease.fail(FailureCode::DownloadFailed);
        let other = world.end(other).await;
        assert!(
            matches!(other, AgentEndAnswer::Refused(_)),
            "{end}: {other:?}"
        );
        assert_eq!(world.db.rows().await, before, "{end}");
    }
}

#[tokio::test]
async fn a_commit_after_a_cancel_is_answered_also_when_the_hand_off_used_up_the_token() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    world.cancel(lease.job).await;
    world.end(lease.stopped()).await;
    world.hand_off(&lease.hand_off("")).await;
    let answer = world.commit(&lease).await;
    let CommitAnswer::Final {
        end,
        replayed: true,
    } = answer
    else {
        panic!("{answer:?}");
    };
    assert_eq!(end.status().as_str(), "cancelled");
}

#[tokio::test]
async fn a_stale_hand_off_changes_nothing_of_the_replacements() {
    let world = World::new().await;
    let (mac, other) = (world.device("mac").await, world.device("other").await);
    let lost = world.in_phase(&mac, Phase::Running).await;
    world.expire(&lost).await;
    let lease = world.lease(&other).await;
    assert_eq!(lease.job, lost.job);
    world.progress(&lease, Phase::Running).await;
    let mut stale = lost.hand_off("");
    stale.handle = lease.attempt.to_string();
    // Under its own attempt it may not name the other's workspace, under the other's it holds nothing.
    let before = world.db.rows().await;
    assert!(is_invalid(&world.hand_off(&stale).await, "handle"));
    stale.claim.attempt = lease.attempt;
    assert!(is_refused(&world.hand_off(&stale).await));
    assert_eq!(world.db.rows().await, before);

    world.end(lease.fail(FailureCode::RunnerFailed)).await;
    assert_eq!(world.hand_off(&lease.hand_off("")).await, DONE);
    let before = world.db.rows().await;
    assert!(is_refused(&world.hand_off(&stale).await));
    assert_eq!(world.db.rows().await, before);
    assert!(
        world.reaps(&[&mac, &other]).await.is_empty(),
        "reaped too early"
    );
}

#[tokio::test]
async fn an_older_lease_of_the_same_attempt_changes_nothing_of_the_newer_ones_hand_off() {
    let world = World::new().await;
    let mut mac = world.device("mac").await;
    let first = world.in_phase(&mac, Phase::Running).await;
    let second = resumed(&world, &mut mac, &first).await;
    let before = world.db.rows().await;
    assert!(
        is_refused(&world.hand_off(&first.hand_off(".old")).await),
        "it is live"
    );
    assert_eq!(world.db.rows().await, before);
    world.end(second.fail(FailureCode::RunnerFailed)).await;
    assert_eq!(world.hand_off(&second.hand_off("")).await, DONE);
    let before = world.db.rows().await;
    for name in ["", ".old"] {
        assert!(is_refused(&world.hand_off(&first.hand_off(name)).await));
    }
    assert_eq!(world.db.rows().await, before);
}

#[tokio::test]
async fn a_workspace_that_would_be_left_for_ever_is_reaped_at_once_and_nothing_else_is_written() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = forced(&world, &mac).await;
    let attempt = "select a::text from attempts a";
    let before = world.db.text(attempt).await;
    assert!(is_refused(&world.hand_off(&lease.hand_off("")).await));
    assert_eq!(
        world.db.text(attempt).await,
        before,
        "the attempt was touched"
    );
    assert_eq!(world.reaps(&[&mac]).await, [lease.attempt.to_string()]);
    let before = world.db.rows().await;
    assert!(is_refused(&world.hand_off(&lease.hand_off("")).await));
    assert_eq!(world.db.rows().await, before, "it is recorded once");
}

#[tokio::test]
async fn what_is_known_already_is_not_recorded_as_a_leak() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let left = "select count(*) from workspaces where leaked";
    // An event of the attempt carried a handle.
    let lease = world.in_phase(&mac, Phase::Running).await;
    let mut event = lease.event(0);
    event.payload = json!({"handle": lease.attempt.to_string()});
    world.event(&event).await;
    world.cancel(lease.job).await;
    world.clock.advance(Duration::from_secs(15)).await;
    world.sweep().await;
    assert!(is_refused(&world.hand_off(&lease.hand_off("")).await));
    assert_eq!(world.db.text(left).await, "0");
    // The attempt's epoch is not newer: the token is wrong, and that is all.
    let lease = failed(&world, &mac).await;
    let mut wrong = lease.hand_off("");
    wrong.token = foreign_token().digest();
    assert!(is_refused(&world.hand_off(&wrong).await));
    assert_eq!(world.db.text(left).await, "0");
    // It is still live.
    let live = world.in_phase(&mac, Phase::Running).await;
    let mut old = live.hand_off("");
    old.claim.epoch = 0;
    assert!(is_refused(&world.hand_off(&old).await));
    assert_eq!(world.db.text(left).await, "0");
}

#[tokio::test]
async fn a_handle_that_was_reaped_is_never_handed_back() {
    let world = World::new().await;
    let mut mac = world.device("mac").await;
    let first = world.in_phase(&mac, Phase::Running).await;
    let second = resumed(&world, &mut mac, &first).await;
    world.end(second.fail(FailureCode::RunnerFailed)).await;
    assert!(is_refused(&world.hand_off(&first.hand_off("")).await));
    assert_eq!(world.reaps(&[&mac]).await, [first.attempt.to_string()]);
    assert!(!gone(&world, &mac, &first.attempt.to_string()).await);
    let before = world.db.rows().await;
    let answer = world.hand_off(&second.hand_off("")).await;
    assert!(is_invalid(&answer, "handle"), "{answer:?}");
    assert_eq!(world.db.rows().await, before);
    assert_eq!(world.hand_off(&second.hand_off(".2")).await, DONE);
}

#[tokio::test]
async fn a_device_is_told_when_the_time_is_over_and_until_it_says_that_it_is_gone() {
    let world = World::new().await;
    let (mut mac, other) = (world.device("mac").await, world.device("other").await);
    let lease = failed(&world, &mac).await;
    world.hand_off(&lease.hand_off("")).await;
    let handle = lease.attempt.to_string();
    let almost = Duration::from_mins(15) - Duration::from_micros(1);
    world.clock.advance(almost).await;
    assert!(world.reaps(&[&mac, &other]).await.is_empty(), "too early");
    world.clock.advance(Duration::from_micros(1)).await;
    assert!(world.reaps(&[&other]).await.is_empty(), "it is away");
    assert_eq!(world.reaps(&[&mac, &other]).await, [handle.as_str()]);
    assert!(world.reaps(&[&mac]).await.is_empty(), "told already");
    world.reconnect(&mut mac, Vec::new()).await;
    assert_eq!(
        world.reaps(&[&mac]).await,
        [handle.as_str()],
        "a new session"
    );
    world.clock.advance(Duration::from_secs(30)).await;
    assert_eq!(
        world.reaps(&[&mac]).await,
        [handle.as_str()],
        "no answer came"
    );
    let before = world.db.rows().await;
    assert!(
        !gone(&world, &other, &handle).await,
        "another device's word"
    );
    assert!(!gone(&world, &mac, "nobody-knows").await);
    assert_eq!(world.db.rows().await, before);
    assert!(!gone(&world, &mac, &handle).await);
    assert!(gone(&world, &mac, &handle).await, "said again");
    world.clock.advance(Duration::from_hours(1)).await;
    assert!(world.reaps(&[&mac]).await.is_empty());
    assert_eq!(
        world.hand_off(&lease.hand_off("")).await,
        AGAIN,
        "a repeat brings nothing back"
    );
    assert!(world.reaps(&[&mac]).await.is_empty());
}

#[tokio::test]
async fn the_database_keeps_nothing_for_more_than_a_day_or_under_anothers_name() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = failed(&world, &mac).await;
    world.hand_off(&lease.hand_off("")).await;
    for (change, constraint) in [
        (
            "reap_after = recorded_at + interval '25 hours'",
            "kept_for_a_day_at_most",
        ),
        ("handle = 'x' || handle", "handle_begins_with_its_attempt"),
    ] {
        let change = format!("update workspaces set {change}");
        let (_, refused) = world.db.refusal(&change).await;
        assert_eq!(refused.as_deref(), Some(constraint));
    }
}
