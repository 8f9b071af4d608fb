//! Who may write, and who is answered from what is stored.

use super::*;

#[tokio::test]
async fn what_the_holder_writes_is_stored_once_and_its_repeat_is_answered_from_the_row() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    for item in Item::both(&world, &lease).await {
        let first = item.write(&world).await;
        assert!(is_written(&first), "{first:?}");
        let before = world.db.rows().await;
        let again = item.write(&world).await;
        assert_eq!(replayed(&again), Some(true), "{again:?}");
        let place = |answer: &JournalAnswer| match answer {
            JournalAnswer::Stored {
                job_seq,
                recorded_at,
                ..
            } => (*job_seq, *recorded_at),
            JournalAnswer::Refused(_) => panic!("{answer:?}"),
        };
        assert_eq!(place(&first), place(&again));
        assert_eq!(world.db.rows().await, before);
    }
}

#[tokio::test]
async fn the_writers_repeat_is_answered_after_every_end_of_its_lease_and_writes_nothing() {
    for end in [
        "fail", "commit", "release", "expire", "cancel", "force", "rotate",
    ] {
        let world = World::new().await;
        let mut mac = world.device("mac").await;
        let lease = world.in_phase(&mac, Phase::Uploading).await;
        let items = Item::both(&world, &lease).await;
        for item in &items {
            assert!(is_written(&item.write(&world).await));
        }
        match end {
            "fail" => drop(world.end(lease.fail(FailureCode::RunnerFailed)).await),
            "commit" => drop(world.win(&lease).await),
            "release" => drop(world.end(lease.release()).await),
            "expire" => world.expire(&lease).await,
            "cancel" => {
                world.cancel(lease.job).await;
                world.end(lease.stopped()).await;
            }
            "force" => {
                world.cancel(lease.job).await;
                world
                    .clock
                    .advance(std::time::Duration::from_secs(15))
                    .await;
                world.sweep().await;
            }
            _ => drop(resumed(&world, &mut mac, &lease).await),
        }
        let before = world.db.rows().await;
        for item in &items {
            let again = item.write(&world).await;
            assert_eq!(replayed(&again), Some(false), "{end}: {again:?}");
        }
        assert_eq!(world.db.rows().await, before, "{end}");
    }
}

#[tokio::test]
async fn a_repeat_after_a_commit_leaves_the_job_succeeded() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    let last = lease.event(1);
    world.event(&last).await;
    world.win(&lease).await;
    world.event(&last).await;
    assert_eq!(world.statuses(&lease).await, "succeeded, succeeded");
    let rows = "select count(*) from attempt_events";
    assert_eq!(world.db.text(rows).await, "1");
}

#[tokio::test]
async fn a_stale_holder_writes_nothing_new_while_the_replacement_holds_the_lease() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lost = world.in_phase(&mac, Phase::Running).await;
    let items = Item::both(&world, &lost).await;
    let lease = replaced(&world, &mac, &lost).await;
    for item in &items {
        let before = world.db.rows().await;
        let answer = item.write(&world).await;
        assert!(is_lease_conflict(&answer), "{answer:?}");
        assert_eq!(world.db.rows().await, before);
    }
    for item in Item::both(&world, &lease).await {
        assert!(
            is_written(&item.write(&world).await),
            "nor is it in the way"
        );
    }
}

#[tokio::test]
async fn a_stale_holder_cannot_tell_what_its_replacement_wrote_from_nothing() {
    let world = World::new().await;
    let mut mac = world.device("mac").await;
    let first = world.in_phase(&mac, Phase::Running).await;
    // Of the same attempt, so that only epoch and token tell the two apart.
    let second = resumed(&world, &mut mac, &first).await;
    for item in Item::both(&world, &second).await {
        assert!(is_written(&item.write(&world).await));
        let before = world.db.rows().await;
        // Under its own epoch there is no such row; under the new one it has another token.
        let mut guessed = second.clone();
        guessed.0.token = first.token.clone();
        for stale in [item.with(&first), item.with(&guessed)] {
            let known = stale.write(&world).await;
            let unknown = stale.renamed().write(&world).await;
            assert!(is_lease_conflict(&known), "{known:?}");
            assert_eq!(known, unknown, "the answer gives the row away");
        }
        assert_eq!(world.db.rows().await, before);
    }
}

#[tokio::test]
async fn an_old_leases_rows_are_not_in_the_way_of_the_next_ones() {
    let world = World::new().await;
    let mut mac = world.device("mac").await;
    let first = world.in_phase(&mac, Phase::Running).await;
    let items = Item::both(&world, &first).await;
    for item in &items {
        assert!(is_written(&item.write(&world).await));
    }
    let second = resumed(&world, &mut mac, &first).await;
    for item in &items {
        let answer = item.with(&second).write(&world).await;
        assert!(is_written(&answer), "{answer:?}");
        assert_eq!(replayed(&item.write(&world).await), Some(false));
    }
    let rows = "select count(*) from attempt_events";
    assert_eq!(world.db.text(rows).await, "2");
}

#[tokio::test]
async fn the_writer_gets_a_conflict_for_other_content_whether_it_holds_the_lease_or_not() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    let items = Item::both(&world, &lease).await;
    for item in &items {
        item.write(&world).await;
    }
    for held in [true, false] {
        let before = world.db.rows().await;
        for other in items.iter().flat_map(Item::others) {
            let answer = other.write(&world).await;
            assert!(is_content_conflict(&answer), "held {held}: {answer:?}");
        }
        assert_eq!(world.db.rows().await, before);
        if held {
            world.end(lease.fail(FailureCode::DeviceFault)).await;
        }
    }
}

#[tokio::test]
async fn a_row_without_a_writer_is_nobodys_to_repeat() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    let items = Item::both(&world, &lease).await;
    for item in &items {
        item.write(&world).await;
    }
    for table in ["attempt_events", "attempt_artifacts"] {
        let forget = format!("update {table} set writer_digest = null");
        assert_eq!(world.db.execute(&forget).await, 1);
    }
    let before = world.db.rows().await;
    for item in &items {
        let answer = item.write(&world).await;
        assert!(is_content_conflict(&answer), "{answer:?}");
    }
    assert_eq!(world.db.rows().await, before);
    world.end(lease.fail(FailureCode::DeviceFault)).await;
    for item in &items {
        let answer = item.write(&world).await;
        assert!(is_lease_conflict(&answer), "{answer:?}");
    }
}

#[tokio::test]
async fn order_of_keys_and_spelling_of_numbers_do_not_make_another_payload() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let mut event = lease.event(0);
    event.payload = parse(r#"{"a": 1, "b": [1.50, {"c": 0.00001, "d": null}]}"#);
    assert!(is_written(&world.event(&event).await));
    event.payload = parse(r#"{"b": [1.5, {"d": null, "c": 1e-5}], "a": 1.0}"#);
    assert_eq!(replayed(&world.event(&event).await), Some(true));
    event.payload = parse(r#"{"b": [{"d": null, "c": 1e-5}, 1.5], "a": 1}"#);
    assert!(
        is_content_conflict(&world.event(&event).await),
        "an array has an order"
    );
    let mut event = lease.event(1);
    event.payload = json!(null);
    assert!(is_written(&world.event(&event).await));
    assert_eq!(replayed(&world.event(&event).await), Some(true));
}

#[tokio::test]
async fn the_number_of_an_event_is_taken_once_per_epoch() {
    let world = World::new().await;
    let mut mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    world.event(&lease.event(3)).await;
    let answer = world.event(&lease.event(3)).await;
    assert!(is_content_conflict(&answer), "{answer:?}");
    assert!(is_written(&world.event(&lease.event(2)).await));
    let second = resumed(&world, &mut mac, &lease).await;
    assert!(is_written(&world.event(&second.event(3)).await));
}

#[tokio::test]
async fn strangers_get_the_one_answer_that_says_nothing() {
    let world = World::new().await;
    let (mac, other) = (world.device("mac").await, world.device("other").await);
    let neighbour = world.in_phase(&mac, Phase::Running).await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    for item in Item::both(&world, &lease).await {
        item.write(&world).await;
        let mut strangers = vec![lease.clone(); 4];
        strangers[0].0.device = other.id;
        strangers[1].0.job = neighbour.job;
        strangers[2].0.token = foreign_token();
        strangers[3].0.attempt = fencepost_domain::ids::AttemptId::new();
        let before = world.db.rows().await;
        for (position, stranger) in strangers.iter().enumerate() {
            let answer = item.with(stranger).write(&world).await;
            // A wrong token meets the holder's own row; holding nothing, it is told nothing.
            assert!(is_lease_conflict(&answer), "{position}: {answer:?}");
        }
        assert_eq!(world.db.rows().await, before);
    }
}
