//! Buyers who watch: what they are told, in what order, and what becomes of their streams.

use std::collections::BTreeSet;
use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::ids::EventId;
use fencepost_protocol::GatewayFrame;
use fencepost_tests::Site;
use fencepost_tests::agent_frames::{artifact, commit, event, fail, grant, progress};
use fencepost_tests::buyer::answer;
use fencepost_tests::event_stream::StreamEvent;
use fencepost_tests::gateway::TTL;
use fencepost_tests::wait::until;
use reqwest::{Method, StatusCode};
use rustix::process::Signal;
use serde_json::json;

fn short(events: &[StreamEvent]) -> Vec<String> {
    events.iter().map(StreamEvent::short).collect()
}

fn phase_of(event: &StreamEvent) -> Option<&str> {
    event.data["phase"].as_str()
}

#[tokio::test]
async fn a_watcher_is_told_everything_in_order_and_the_stream_ends_with_the_job() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut stream = buyer.watch(&job, None).await;
    assert_eq!(stream.headers()["cache-control"], "no-store");
    let first = stream.next().await.unwrap();
    assert_eq!(first.short(), "status queued");
    assert!(
        stream
            .retry_ms
            .is_some_and(|ms| (1_000..3_000).contains(&ms))
    );

    let mut mac = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = mac.lease_in(Phase::Running).await;
    let seen = stream
        .until(|event| phase_of(event) == Some("running"))
        .await;
    assert_eq!(seen.last().unwrap().data["status"], "active");
    assert_eq!(seen.last().unwrap().data["percent"], 50.0);
    assert_eq!(seen.last().unwrap().data["attempts"], 1);
    assert!(seen.iter().all(|event| event.id.is_none()), "{seen:?}");

    mac.ask(event(&offer, EventId::new(), 0)).await;
    let told = stream
        .until(|event| event.id == Some(1))
        .await
        .pop()
        .unwrap();
    assert_eq!(told.event, "attempt.event");
    assert_eq!(told.data["seq"], 1);
    assert_eq!(told.data["data"]["kind"], "encoder.exit");
    assert_eq!(told.data["data"]["attempt_number"], 1);

    let GatewayFrame::Granted {
        url, object_key, ..
    } = mac.ask(grant(&offer, "a.log", "put")).await
    else {
        panic!("no grant");
    };
    gateway.put(&url, b"a").await;
    mac.ask(artifact(&offer, "a.log", &object_key, b"a")).await;
    mac.ask(progress(&offer, Phase::Uploading)).await;
    gateway.put(&offer.output.url, b"the result").await;
    let output = fencepost_tests::agent_frames::declared(&offer, b"the result");
    mac.ask(commit(&offer, &output)).await;
    let rest = stream.rest().await;
    let numbered: Vec<_> = rest.iter().filter(|event| event.id.is_some()).collect();
    assert_eq!(numbered[0].short(), "2 attempt.artifact");
    assert_eq!(numbered[0].data["data"]["name"], "a.log");
    assert_eq!(numbered[1].short(), "3 job.succeeded");
    assert_eq!(numbered.len(), 2);
    let [.., state, end] = &rest[..] else {
        panic!("{rest:?}")
    };
    assert_eq!(
        (state.short().as_str(), end.id),
        ("status succeeded", Some(3))
    );
    assert_eq!(end.data["data"]["output"]["sha256"], output.sha256);
    assert_eq!(end.data["data"]["failure"], json!(null));
    // Nothing of who holds what.
    for told in rest {
        let text = told.data.to_string();
        assert!(
            !text.contains("digest") && !text.contains("epoch"),
            "{text}"
        );
        assert!(!text.contains(&offer.commit_token.expose()), "{text}");
    }
}

#[tokio::test]
async fn a_watcher_who_comes_again_or_late_is_told_the_rest_and_the_end() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut mac = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = mac.lease_in(Phase::Running).await;
    for seq in 0..70 {
        mac.ask(event(&offer, EventId::new(), seq)).await;
    }
    let mut cut = buyer.watch(&job, None).await;
    cut.until(|event| event.id == Some(40)).await;
    drop(cut);
    mac.ask(fail(&offer, "runner_failed")).await;
    let whole: Vec<i64> = (1..=71).collect();
    let ids = |events: &[StreamEvent]| {
        events
            .iter()
            .filter_map(|event| event.id)
            .collect::<Vec<_>>()
    };
    let mut late = buyer.watch(&job, Some("40")).await;
    let rest = late.rest().await;
    assert_eq!(ids(&rest), whole[40..]);
    assert_eq!(rest.last().unwrap().event, "job.failed");
    assert_eq!(
        rest.last().unwrap().data["data"]["failure"]["code"],
        "runner_failed"
    );
    assert_eq!(late.last_id.as_deref(), Some("71"));
    // Also when what was sent to webhooks is forgotten.
    site.db.execute("delete from outbox").await;
    let all = buyer.watch(&job, None).await.rest().await;
    assert_eq!(ids(&all), whole);
    // Who knows the end is told not to come again.
    let response = buyer.try_watch(&job, Some("71")).await;
    assert_eq!(response.status(), StatusCode::NO_CONTENT);
    assert_eq!(response.bytes().await.unwrap().len(), 0);
    site.db
        .execute(&format!(
            "insert into outbox (id, org_id, job_id, seq, kind, terminal, body, created_at)
         select gen_random_uuid(), org_id, id, event_counter, 'job.failed', true,
             jsonb_build_object('status', status), ended_at from jobs where id = '{job}'"
        ))
        .await;
}

#[tokio::test]
async fn retries_and_cancels_are_seen_as_they_happen() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut stream = buyer.watch(&job, None).await;
    let mut mac = site.device(&gateway, "mac").await.connect(&gateway).await;
    let lost = mac.lease_in(Phase::Running).await;
    stream.until_status("active").await;
    mac.ask(fail(&lost, "download_failed")).await;
    let seen = stream.until_status("queued").await;
    let waits = &seen.last().unwrap().data;
    assert_eq!(waits["waiting"]["reason"], "retry_delay");
    assert_eq!(
        (&waits["phase"], &waits["attempts"]),
        (&json!(null), &json!(1))
    );
    site.clock.advance(Duration::from_mins(6)).await;
    mac.lease_in(Phase::Running).await;
    let seen = stream.until_status("active").await;
    assert_eq!(seen.last().unwrap().data["attempts"], 2);
    // A lease that has run out is no running attempt, also before a sweep has seen it.
    buyer.cancel(&job).await;
    stream.until_status("cancelling").await;
    site.clock.advance(TTL).await;
    let rest = stream.rest().await;
    assert_eq!(
        short(&rest[rest.len() - 2..]),
        ["status cancelled", "1 job.cancelled"]
    );
}

#[tokio::test]
async fn what_is_not_yours_or_no_place_in_a_stream_is_refused() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let stranger = site.other_buyer(&gateway).await;
    for response in [
        stranger.try_watch(&job, None).await,
        stranger.try_watch(&job, Some("5")).await,
        buyer
            .try_watch("00000000-0000-0000-0000-000000000000", None)
            .await,
        buyer.try_watch("x", None).await,
    ] {
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
    }
    for id in ["x", "-1", "1", "9223372036854775807", "9223372036854775808"] {
        let (status, problem) = answer(buyer.try_watch(&job, Some(id)).await).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{id}: {problem}");
        assert_eq!(problem["field"], "Last-Event-ID", "{id}: {problem}");
    }
    let (status, problem) = buyer.get(&format!("/v1/jobs/{job}/events?after=x")).await;
    assert_eq!(
        (status, &problem["field"]),
        (StatusCode::BAD_REQUEST, &json!("after"))
    );
    let no_key = gateway.get(&format!("/v1/jobs/{job}/events")).await;
    assert_eq!(no_key.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn the_same_events_are_there_page_by_page_as_json() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut mac = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = mac.lease_in(Phase::Running).await;
    for seq in 0..40 {
        mac.ask(event(&offer, EventId::new(), seq)).await;
    }
    mac.ask(fail(&offer, "runner_failed")).await;
    let (mut after, mut seen) = (0, Vec::new());
    loop {
        let path = format!("/v1/jobs/{job}/events?after={after}");
        let request = buyer
            .request(Method::GET, &path)
            .header("accept", "application/json");
        let (status, page) = answer(request.send().await.unwrap()).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        assert_eq!(page["state"]["status"], "failed");
        assert_eq!(page["ended"], true);
        let events = page["events"].as_array().unwrap();
        seen.extend(events.iter().map(|event| event["seq"].as_i64().unwrap()));
        after = page["next_after"].as_i64().unwrap();
        if page["has_more"] == false {
            break;
        }
    }
    assert_eq!(seen, (1..=41).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_org_and_a_gateway_have_so_many_streams_and_who_hangs_up_makes_room() {
    let site = Site::new().await;
    let limits = [
        ("http.event_streams", "3"),
        ("http.event_streams_per_org", "2"),
    ];
    let gateway = site.gateway_with(&limits).await;
    let buyer = site.buyer(&gateway);
    let other = site.other_buyer(&gateway).await;
    let (mine, theirs) = (buyer.submit_noop().await, other.submit_noop().await);
    let one = buyer.watch(&mine, None).await;
    let _two = buyer.watch(&mine, None).await;
    let refused = buyer.try_watch(&mine, None).await;
    assert!(refused.headers().contains_key("retry-after"));
    let (status, problem) = answer(refused).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{problem}");
    let _three = other.watch(&theirs, None).await;
    let refused = other.try_watch(&theirs, None).await;
    assert!(refused.headers().contains_key("retry-after"));
    let (status, problem) = answer(refused).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{problem}");
    assert_eq!(problem["retryable"], true);
    // Everything else goes on.
    assert_eq!(buyer.job(&mine).await["status"], "queued");
    drop(one);
    until("room for another", || async {
        buyer.try_watch(&mine, None).await.status() == StatusCode::OK
    })
    .await;
}

#[tokio::test]
async fn a_gateway_that_stops_ends_its_streams_and_another_one_goes_on() {
    let site = Site::new().await;
    let (mut here, there) = (site.gateway().await, site.gateway().await);
    let buyer = site.buyer(&here);
    let job = buyer.submit_noop().await;
    let mut mac = site.device(&there, "mac").await.connect(&there).await;
    let offer = mac.lease_in(Phase::Running).await;
    let mut stream = buyer.watch(&job, None).await;
    mac.ask(event(&offer, EventId::new(), 0)).await;
    let mut seen = stream.until(|event| event.id == Some(1)).await;
    here.process.signal(Signal::TERM);
    seen.extend(stream.rest().await);
    assert!(here.process.wait().await.success());
    mac.ask(event(&offer, EventId::new(), 1)).await;
    mac.ask(fail(&offer, "runner_failed")).await;
    let mut stream = buyer
        .at(&there)
        .watch(&job, stream.last_id.as_deref())
        .await;
    seen.extend(stream.rest().await);
    let ids: Vec<_> = seen.iter().filter_map(|event| event.id).collect();
    assert_eq!(ids, [1, 2, 3]);
}

#[tokio::test]
async fn many_watchers_hold_no_connection_and_each_is_told() {
    let site = Site::new().await;
    let gateway = site
        .gateway_with(&[("database.max_connections", "4")])
        .await;
    let buyer = site.buyer(&gateway);
    let mut streams = Vec::new();
    for _ in 0..60 {
        let job = buyer.submit_noop().await;
        let stream = buyer.watch(&job, None).await;
        streams.push((job, stream));
    }
    for (_, stream) in &mut streams {
        stream.until_status("queued").await;
    }
    let open = "select count(*) from pg_stat_activity
        where datname = current_database() and xact_start is not null and pid <> pg_backend_pid()
            and state = 'idle in transaction'";
    assert_eq!(site.db.text(open).await, "0");
    let mut told = BTreeSet::new();
    for (job, stream) in &mut streams {
        buyer.cancel(job).await;
        let rest = stream.rest().await;
        assert_eq!(rest.last().unwrap().event, "job.cancelled");
        told.insert(rest.last().unwrap().data["data"]["job_id"].to_string());
    }
    assert_eq!(told.len(), 60);
    assert!(gateway.metrics().await.contains("fencepost_event_streams "));
}

#[tokio::test]
async fn a_stream_outlives_the_connections_to_the_database() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut stream = buyer.watch(&job, None).await;
    stream.until_status("queued").await;
    let terminate = "select count(pg_terminate_backend(pid)) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid()";
    for _ in 0..3 {
        site.db.execute(terminate).await;
    }
    buyer.until(&job, "queued").await;
    buyer.cancel(&job).await;
    let rest = stream.rest().await;
    assert_eq!(rest.last().unwrap().event, "job.cancelled");
}
