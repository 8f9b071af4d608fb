//! What is written: when, in what order, how much, and who may read it.

use super::*;

#[tokio::test]
async fn nothing_new_is_written_at_expiry_while_committing_or_while_cancelling() {
    for state in ["expired", "committing", "cancelling"] {
        let world = World::new().await;
        let mac = world.device("mac").await;
        let lease = world.in_phase(&mac, Phase::Uploading).await;
        let items = Item::both(&world, &lease).await;
        match state {
            "expired" => world.clock.advance(TTL).await,
            "committing" => {
                let answer = world.commit(&lease).await;
                assert!(matches!(answer, CommitAnswer::Verify(_)), "{answer:?}");
            }
            _ => drop(world.cancel(lease.job).await),
        }
        let before = world.db.rows().await;
        for item in &items {
            let answer = item.write(&world).await;
            assert!(is_lease_conflict(&answer), "{state}: {answer:?}");
            if state == "cancelling" {
                let not_active = JournalRefusal::Lease(Refusal::JobNotActive);
                assert_eq!(answer, JournalAnswer::Refused(not_active));
            }
        }
        assert_eq!(world.db.rows().await, before, "{state}");
    }
}

#[tokio::test]
async fn many_events_are_answered_each_and_numbered_in_the_order_of_the_job() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let (one, two) = (
        world.in_phase(&mac, Phase::Running).await,
        world.in_phase(&mac, Phase::Running).await,
    );
    let mut stale = one.event(9);
    stale.claim.epoch = 0;
    let events = vec![
        one.event(0),
        two.event(0),
        stale,
        one.event(1),
        one.event(0),
    ];
    let answers = world.store.write_events(events).await.unwrap();
    let seqs: Vec<_> = answers
        .iter()
        .map(|answer| match answer {
            JournalAnswer::Stored { job_seq, .. } => *job_seq,
            JournalAnswer::Refused(JournalRefusal::Lease(_)) => -1,
            JournalAnswer::Refused(_) => -2,
        })
        .collect();
    assert_eq!(seqs, [1, 1, -1, 2, -2]);
}

#[tokio::test]
async fn what_is_too_much_is_refused_with_its_field_and_limit() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    let problem = |answer: JournalAnswer| match answer {
        JournalAnswer::Refused(JournalRefusal::Invalid(problem)) => problem,
        other => panic!("{other:?}"),
    };
    let mut event = lease.event(0);
    event.payload = json!("x".repeat(MAX_PAYLOAD_BYTES));
    let refused = problem(world.event(&event).await);
    assert_eq!(refused.field, "payload");
    assert!(refused.problem.contains("16384"), "{refused}");
    let mut event = lease.event(0);
    event.kind = "k".repeat(65);
    assert_eq!(problem(world.event(&event).await).field, "kind");
    assert_eq!(problem(world.event(&lease.event(-1)).await).field, "seq");

    let fill = format!(
        "insert into attempt_events select '{}', 1, gen_random_uuid(), 10 + n, '{}', 10 + n, 'k',
            '{{}}', authority_now(), null from generate_series(1, {MAX_EVENTS}) n",
        lease.attempt, lease.job
    );
    world.db.execute(&fill).await;
    let refused = problem(world.event(&lease.event(0)).await);
    assert_eq!(refused.field, "events");
    assert!(refused.problem.contains("1000"), "{refused}");
    world.db.execute("delete from attempt_events").await;

    let mut artifact = lease.artifact("a.log", "artifacts/made-up");
    assert_eq!(problem(world.artifact(&artifact).await).field, "object_key");
    artifact.object_key = lease.output_key.clone();
    assert_eq!(problem(world.artifact(&artifact).await).field, "object_key");
    for number in 0..MAX_ARTIFACTS {
        world.grant_artifact(&lease, &format!("a{number}")).await;
    }
    world.grant_artifact(&lease, "a0").await;
    let one_more = world
        .store
        .grant_artifact(lease.claim(), "b")
        .await
        .unwrap();
    assert_eq!(one_more.unwrap_err(), Refusal::TooManyObjects);
}

#[tokio::test]
async fn text_of_tools_is_cleaned_and_the_event_kept() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    let mut event = lease.event(0);
    event.payload = json!({"stderr\0": ["\0\u{1b}[31mno\0"]});
    assert!(is_written(&world.event(&event).await));
    assert_eq!(replayed(&world.event(&event).await), Some(true));
    let stored = world.db.text("select payload from attempt_events").await;
    assert_eq!(stored, r#"{"stderr": ["[31mno"]}"#);
}

#[tokio::test]
async fn a_written_event_shows_that_the_welcome_arrived() {
    let world = World::new().await;
    let mut mac = world.device("mac").await;
    let first = world.in_phase(&mac, Phase::Running).await;
    let second = resumed(&world, &mut mac, &first).await;
    assert!(is_written(&world.event(&second.event(0)).await));
    // The replaced pair may be presented by a hello only until then.
    let answer = world.reconnect(&mut mac, vec![first.held()]).await;
    let SessionAnswer::Current { resumed, lost, .. } = answer else {
        panic!("{answer:?}");
    };
    assert_eq!((resumed.len(), lost), (0, vec![first.attempt]));
}

#[tokio::test]
async fn objects_of_a_losing_attempt_go_and_what_the_winner_named_stays() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let loser = world.in_phase(&mac, Phase::Running).await;
    let lost_key = world.grant_artifact(&loser, "a.log").await;
    world.artifact(&loser.artifact("a.log", &lost_key)).await;
    world.end(loser.fail(FailureCode::RunnerFailed)).await;
    world.clock.advance(std::time::Duration::from_mins(5)).await;
    let winner = world.in_phase(&mac, Phase::Uploading).await;
    let named = world.grant_artifact(&winner, "a.log").await;
    let unnamed = world.grant_artifact(&winner, "b.log").await;
    world.artifact(&winner.artifact("a.log", &named)).await;
    world.win(&winner).await;
    assert!(world.store.collect_garbage(10).await.unwrap().is_empty());
    world
        .clock
        .advance(std::time::Duration::from_hours(7))
        .await;
    let garbage = world.store.collect_garbage(10).await.unwrap();
    let keys_of = |lease: &Lease| {
        let mut garbage = garbage.iter();
        garbage
            .find(|one| one.attempt == lease.attempt)
            .unwrap()
            .keys
            .clone()
    };
    assert!(keys_of(&loser).contains(&lost_key));
    assert!(keys_of(&winner).contains(&unnamed));
    assert!(!keys_of(&winner).contains(&named));
}

#[tokio::test]
async fn no_answer_and_no_view_shows_who_wrote_a_row() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    let mut shown = Vec::new();
    for item in Item::both(&world, &lease).await {
        for answer in [item.write(&world).await, item.write(&world).await] {
            shown.push(format!("{answer:?}"));
        }
        for other in item.others() {
            shown.push(format!("{:?}", other.write(&world).await));
        }
    }
    world.win(&lease).await;
    let (store, org, job) = (&world.store, world.org, lease.job);
    let events = store.attempt_events(org, job).await.unwrap();
    let artifacts = store.artifacts(org, job).await.unwrap();
    let attempts = store.attempts(org, job).await.unwrap();
    shown.push(format!("{events:?} {artifacts:?} {attempts:?}"));
    let shown = shown.concat();
    assert!(shown.contains("encoder.log") && shown.contains("encoder.exit"));
    let digests = "select encode(writer_digest, 'hex') from attempt_events";
    let digest = world.db.text(digests).await;
    assert_eq!(digest.len(), 64);
    let bytes = format!("{:?}", lease.digest().as_bytes());
    for secret in [
        digest.as_str(),
        bytes.trim_matches(['[', ']']),
        &lease.token.expose(),
        "writer",
    ] {
        assert!(!shown.contains(secret), "{secret} is shown: {shown}");
    }
}

#[tokio::test]
async fn events_and_artifacts_are_shown_to_their_buyer_alone() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    for item in Item::both(&world, &lease).await {
        item.write(&world).await;
    }
    let events = world
        .store
        .attempt_events(world.org, lease.job)
        .await
        .unwrap();
    assert_eq!(events[&lease.attempt.0][0].kind, "encoder.exit");
    let artifacts = world
        .store
        .artifacts(world.org, lease.job)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (artifacts[0].name.as_str(), artifacts[0].is_kept),
        ("encoder.log", false)
    );
    let stranger = world.store.create_org("stranger", None).await.unwrap();
    assert!(
        world
            .store
            .attempt_events(stranger, lease.job)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(
        world
            .store
            .artifacts(stranger, lease.job)
            .await
            .unwrap()
            .is_none()
    );
    world.end(lease.fail(FailureCode::RunnerFailed)).await;
    let artifacts = world
        .store
        .artifacts(world.org, lease.job)
        .await
        .unwrap()
        .unwrap();
    assert!(artifacts[0].is_kept);
}
