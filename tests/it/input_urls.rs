//! Inputs on hosts of the buyers' choice: their addresses are sealed, kept while somebody may fetch from
//! there, and no longer.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::failure::FailureCode;
use fencepost_domain::ids::{JobId, RequestId};
use fencepost_domain::matcher::input_url_word;
use fencepost_domain::secret_url::SecretUrl;
use fencepost_store::tx::Asked;
use fencepost_store::tx::end_by_agent::AgentEndKind;
use fencepost_store::tx::record_progress::ProgressAnswer;
use fencepost_store::tx::submit_job::{Elsewhere, NewInput, NewJob};
use fencepost_store::vault::{Sealed, Vault};
use fencepost_tests::World;
use fencepost_tests::claims::key;
use fencepost_tests::lease::Device;
use fencepost_tests::world::good;
use serde_json::{Value, json};

const URL: &str = "https://files.example/film.mp4?sig=abc";

fn vault() -> Vault {
    Vault::new(&[b"a secret of the configuration"])
}

/// The job's input is elsewhere, and its lane says so.
pub(crate) fn elsewhere(job: &mut NewJob) {
    let input = Elsewhere {
        url: vault().seal_url(job.id, "source", &SecretUrl::new(URL)),
        host: "files.example".to_owned(),
        sha256: None,
        size_bytes: Some(7),
    };
    job.inputs = vec![("source".to_owned(), NewInput::Elsewhere(input))];
    job.lane = format!("encode.h264 {} transcode.v1", input_url_word().0);
}

pub(crate) async fn device(world: &World) -> Device {
    let words = ["transcode.v1", "encode.h264", "input.url"];
    world.device_with("mac", 4, &words).await
}

/// The inputs of a job as they are stored.
async fn inputs(world: &World, job: JobId) -> Value {
    let stored = format!("select inputs from jobs where id = '{}'", job.0);
    serde_json::from_str(&world.db.text(&stored).await).expect("JSON")
}

/// The address in these inputs, opened.
fn opened(job: JobId, inputs: &Value) -> Option<String> {
    let sealed = Sealed::from_hex(inputs[0]["sealed_url"].as_str()?)?;
    let url = vault().open_url(job, "source", &sealed)?;
    Some(url.expose().to_owned())
}

/// The inputs of a job that has ended.
fn forgotten() -> Value {
    json!([{ "name": "source", "host": "files.example", "sha256": null, "size_bytes": 7 }])
}

#[tokio::test]
async fn an_address_is_leased_again_and_again_and_forgotten_when_its_job_has_ended() {
    let world = World::new().await;
    let mac = device(&world).await;
    let stored = "select stored_bytes from org_accounts";
    let before = world.db.text(stored).await;
    let job = world.submit_with(elsewhere).await;
    let lease = world.lease(&mac).await;
    assert_eq!(opened(job, &lease.inputs).as_deref(), Some(URL));
    world.progress(&lease, Phase::Running).await;
    world.expire(&lease).await;
    world.sweep().await;
    let lease = world.lease(&mac).await;
    assert_eq!(lease.attempt_number, 2);
    assert_eq!(opened(job, &lease.inputs).as_deref(), Some(URL));
    world.progress(&lease, Phase::Uploading).await;
    let ticket = world.begin_verification(&lease).await;
    assert!(opened(job, &inputs(&world, job).await).is_some());
    let verdict = good(30.0);
    world.settle(&ticket, verdict).await;
    assert_eq!(inputs(&world, job).await, forgotten());
    let view = world.store.job(world.org, job).await.expect("it is read");
    assert_eq!(view.expect("it is there").inputs, forgotten());
    // The upload of the world's usual job is not read by this one, and counts as it did.
    let read = "select count(*) from job_inputs";
    assert_eq!(world.db.text(read).await, "0");
    let now: i64 = world.db.text(stored).await.parse().expect("a number");
    let before: i64 = before.parse().expect("a number");
    assert_eq!(now - before, 500_000 + 1_000, "the upload and the output");
}

#[tokio::test]
async fn whatever_ends_a_job_forgets_its_addresses() {
    let world = World::new().await;
    let mac = device(&world).await;
    let cancelled = world.submit_with(elsewhere).await;
    world.cancel(cancelled).await;
    let failed = world.submit_with(elsewhere).await;
    let lease = world.lease(&mac).await;
    world.end(lease.fail(FailureCode::InputInvalid)).await;
    let overdue = world
        .submit_with(|job| {
            elsewhere(job);
            job.deadline = LeaseDuration::seconds(5);
        })
        .await;
    world.clock.advance(Duration::from_secs(6)).await;
    world.sweep().await;
    for job in [cancelled, failed, overdue] {
        let ended = format!(
            "select ended_at is not null from jobs where id = '{}'",
            job.0
        );
        assert_eq!(world.db.text(&ended).await, "t");
        assert_eq!(inputs(&world, job).await, forgotten());
    }
    let deleted = world.store.delete_job(world.org, failed).await;
    deleted.expect("it runs");
    assert_eq!(inputs(&world, failed).await, json!([]));
}

#[tokio::test]
async fn what_a_worker_says_of_its_work_is_kept_without_the_address_it_was_given() {
    let world = World::new().await;
    let mac = device(&world).await;
    let job = world.submit_with(elsewhere).await;
    let lease = world.lease(&mac).await;
    let mut progress = lease.progress(Phase::Downloading);
    progress.detail = Some(format!("fetching {URL}"));
    let answers = world.store.record_progress(vec![progress]).await;
    assert!(matches!(
        answers.expect("it runs")[..],
        [ProgressAnswer::Renewed(_)]
    ));
    let mut end = lease.fail(FailureCode::InputInvalid);
    if let AgentEndKind::Fail { message, .. } = &mut end.kind {
        *message = format!("<{URL}>: HTTP 404");
    }
    world.end(end).await;
    let said = world.job(job).await.failure_message;
    assert_eq!(said.as_deref(), Some("<https://files.example/…>: HTTP 404"));
    for table in ["jobs", "attempts"] {
        let rows = format!("select coalesce(string_agg(t::text, ' '), '') from {table} t");
        let rows = world.db.text(&rows).await;
        assert!(!rows.contains("sig=abc"), "{table}: {rows}");
    }
}

#[tokio::test]
async fn an_upload_and_an_address_go_together_and_only_the_upload_is_counted_as_read() {
    let world = World::new().await;
    let mac = device(&world).await;
    let job = world
        .submit_with(|job| {
            let upload = job.inputs.remove(0).1;
            elsewhere(job);
            job.inputs.push(("captions".to_owned(), upload));
        })
        .await;
    let lease = world.lease(&mac).await;
    assert_eq!(opened(job, &lease.inputs).as_deref(), Some(URL));
    assert!(
        lease.inputs[1]["object_key"].is_string(),
        "{}",
        lease.inputs
    );
    let read = format!("select count(*) from job_inputs where job_id = '{}'", job.0);
    assert_eq!(world.db.text(&read).await, "1");
    world.progress(&lease, Phase::Uploading).await;
    world.win(&lease).await;
    let stored = inputs(&world, job).await;
    assert_eq!(stored[0], forgotten()[0]);
    assert_eq!(stored[1], lease.inputs[1]);
}

#[tokio::test]
async fn a_device_that_does_not_fetch_from_addresses_is_not_given_such_a_job() {
    let world = World::new().await;
    let old = world.device("old").await;
    world.submit_with(elsewhere).await;
    assert!(world.pull(&old, 1).await.is_empty());
    world.submit().await;
    assert_eq!(world.pull(&old, 4).await.len(), 1);
    let mac = device(&world).await;
    assert_eq!(world.pull(&mac, 4).await.len(), 1);
}

#[tokio::test]
async fn the_answer_to_a_wish_for_links_keeps_no_address() {
    let world = World::new().await;
    let mac = device(&world).await;
    world.submit_with(elsewhere).await;
    let lease = world.lease(&mac).await;
    world.progress(&lease, Phase::Downloading).await;
    let (id, claim) = (RequestId::new(), lease.claim());
    for _ in 0..2 {
        let request = key(&lease, "grant", id, "source");
        let asked = world.store.grant_objects_once(request, claim, None).await;
        let (Asked::First(granted) | Asked::Again(granted)) = asked.expect("it runs") else {
            panic!("it is the same request");
        };
        assert_eq!(granted.expect("it is granted").inputs, forgotten());
    }
    let kept = "select count(*) from device_requests r where r::text like '%files.example%'";
    assert_eq!(world.db.text(kept).await, "1");
    let kept = "select count(*) from device_requests r where r::text like '%sealed_url%'";
    assert_eq!(world.db.text(kept).await, "0");
}

#[tokio::test]
async fn the_database_takes_an_input_for_one_of_the_two_and_no_address_of_an_ended_job() {
    let world = World::new().await;
    let job = world.submit_with(elsewhere).await;
    let refused = async |inputs: Value, more: &str| {
        let id = job.0;
        let statement = format!("update jobs set inputs = '{inputs}'{more} where id = '{id}'");
        world.db.refusal(&statement).await.1.expect("a constraint")
    };
    let both = json!([{ "name": "source", "host": "files.example", "object_key": "uploads/x" }]);
    let either = "every_input_is_an_upload_or_elsewhere";
    assert_eq!(refused(both, "").await, either);
    assert_eq!(refused(json!([{ "name": "source" }]), "").await, either);
    let astray = json!([{ "name": "source", "object_key": "x", "sealed_url": "00" }]);
    let whose = refused(astray, "").await;
    assert_eq!(whose, "addresses_are_of_inputs_elsewhere");
    world.cancel(job).await;
    let late = json!([{ "name": "source", "host": "files.example", "sealed_url": "00" }]);
    assert_eq!(refused(late, "").await, "addresses_end_with_the_job");
}
