//! Events and artifacts: whoever wrote a row is answered from it for ever; nobody else learns
//! anything about it without holding the lease.

use fencepost_domain::attempt::Phase;
use fencepost_domain::failure::FailureCode;
use fencepost_domain::ids::EventId;
use fencepost_domain::journal::{MAX_ARTIFACTS, MAX_EVENTS, MAX_PAYLOAD_BYTES};
use fencepost_store::tx::Refusal;
use fencepost_store::tx::begin_session::SessionAnswer;
use fencepost_store::tx::begin_verification::CommitAnswer;
use fencepost_store::tx::write_artifacts::NewArtifact;
use fencepost_store::tx::write_events::{JournalAnswer, JournalRefusal, NewEvent};
use fencepost_tests::world::{TTL, foreign_token};
use fencepost_tests::{Device, Lease, World};
use serde_json::json;

/// What is written: an event or an artifact, with the same rules.
#[derive(Debug, Clone)]
enum Item {
    Event(NewEvent),
    Artifact(NewArtifact),
}

impl Item {
    async fn both(world: &World, lease: &Lease) -> [Self; 2] {
        let key = world.grant_artifact(lease, "encoder.log").await;
        [
            Self::Event(lease.event(0)),
            Self::Artifact(lease.artifact("encoder.log", &key)),
        ]
    }

    async fn write(&self, world: &World) -> JournalAnswer {
        match self {
            Self::Event(event) => world.event(event).await,
            Self::Artifact(artifact) => world.artifact(artifact).await,
        }
    }

    /// The same thing, presented with another lease.
    fn with(&self, lease: &Lease) -> Self {
        let mut item = self.clone();
        match &mut item {
            Self::Event(event) => {
                (event.claim, event.token) = (lease.claim(), lease.digest());
            }
            Self::Artifact(artifact) => {
                (artifact.claim, artifact.token) = (lease.claim(), lease.digest());
            }
        }
        item
    }

    /// The same name for something else.
    fn others(&self) -> Vec<Self> {
        match self {
            Self::Event(event) => {
                let mut changed = vec![event.clone(); 3];
                "another".clone_into(&mut changed[0].kind);
                changed[1].seq = 77;
                changed[2].payload = json!({"code": 2});
                changed.into_iter().map(Self::Event).collect()
            }
            Self::Artifact(artifact) => {
                let mut changed = vec![artifact.clone(); 3];
                changed[0].sha256 = [4; 32];
                changed[1].size_bytes += 1;
                changed[2].object_key.push('x');
                changed.into_iter().map(Self::Artifact).collect()
            }
        }
    }

    /// The same for something that was never written.
    fn renamed(&self) -> Self {
        let mut item = self.clone();
        match &mut item {
            Self::Event(event) => (event.event_id, event.seq) = (EventId::new(), 500),
            Self::Artifact(artifact) => "another.log".clone_into(&mut artifact.name),
        }
        item
    }
}

fn is_written(answer: &JournalAnswer) -> bool {
    matches!(
        answer,
        JournalAnswer::Stored {
            replayed: false,
            lease_live: true,
            ..
        }
    )
}

/// Whether the answer is the stored row; says also whether the lease is live.
fn replayed(answer: &JournalAnswer) -> Option<bool> {
    match answer {
        JournalAnswer::Stored {
            replayed: true,
            lease_live,
            ..
        } => Some(*lease_live),
        _ => None,
    }
}

fn is_lease_conflict(answer: &JournalAnswer) -> bool {
    matches!(answer, JournalAnswer::Refused(JournalRefusal::Lease(_)))
}

fn is_content_conflict(answer: &JournalAnswer) -> bool {
    matches!(answer, JournalAnswer::Refused(JournalRefusal::Content))
}

/// An attempt that its device lost by expiry, and the one that another device has instead.
async fn replaced(world: &World, mac: &Device, lost: &Lease) -> Lease {
    let other = world.device("other").await;
    world.expire(lost).await;
    let lease = world.lease(&other).await;
    assert_eq!(lease.job, lost.job);
    assert_ne!(lease.device, mac.id);
    world.progress(&lease, Phase::Running).await;
    lease
}

/// The lease of the same attempt after a reconnect: a new epoch and a new secret.
async fn resumed(world: &World, mac: &mut Device, lease: &Lease) -> Lease {
    let answer = world.reconnect(mac, vec![lease.held()]).await;
    let SessionAnswer::Current { resumed, .. } = answer else {
        panic!("{answer:?}");
    };
    let mut lease = lease.clone();
    (lease.0.epoch, lease.0.token) = (resumed[0].epoch, resumed[0].token.clone());
    lease
}

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
