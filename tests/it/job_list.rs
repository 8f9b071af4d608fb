//! An org's jobs, page by page: what is found, and that a page costs the same among very many.

use fencepost_domain::ids::JobId;
use fencepost_store::views::{JobFilter, MOST_EXAMINED};
use fencepost_tests::World;
use fencepost_tests::plans::{explain, rows_read};
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

fn filter(metadata: &[(&str, &str)], limit: i64) -> JobFilter {
    let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    JobFilter {
        metadata: metadata.iter().map(pair).collect(),
        limit,
        ..JobFilter::default()
    }
}

async fn page(world: &World, filter: JobFilter) -> (Vec<JobId>, Option<JobId>) {
    let page = world.store.job_page(world.org, filter).await;
    let page = page.expect("a page");
    let ids = page.jobs.iter().map(|job| JobId(job.id));
    (ids.collect(), page.next)
}

async fn submit(world: &World, metadata: Value) -> JobId {
    world.submit_with(|job| job.metadata = metadata).await
}

#[tokio::test]
async fn jobs_are_found_by_their_texts_numbers_and_flags_and_by_several_at_once() {
    let world = World::new().await;
    let one = submit(&world, json!({ "order": "42", "shop": "a", "rush": true })).await;
    let two = submit(&world, json!({ "order": 42, "shop": "b", "lines": [1] })).await;
    submit(
        &world,
        json!({ "order": "421", "4": "order2", "none": null }),
    )
    .await;
    for (metadata, found) in [
        (&[("order", "42")][..], vec![two, one]),
        (&[("order", "42"), ("shop", "a")], vec![one]),
        (&[("shop", "b"), ("rush", "true")], vec![]),
        (&[("rush", "true")], vec![one]),
        (&[("lines", "[1]")], vec![]),
        (&[("none", "")], vec![]),
        (&[("order", "4")], vec![]),
        (&[("", "")], vec![]),
    ] {
        let (jobs, next) = page(&world, filter(metadata, 10)).await;
        assert_eq!((jobs, next), (found, None), "{metadata:?}");
    }
    let (first, next) = page(&world, filter(&[("order", "42")], 1)).await;
    assert_eq!((first, next), (vec![two], Some(two)));
    let rest = JobFilter {
        before: next,
        ..filter(&[("order", "42")], 1)
    };
    assert_eq!(page(&world, rest).await, (vec![one], None));
}

#[tokio::test]
async fn jobs_are_found_by_when_they_were_posted_and_for_which_service() {
    let world = World::new().await;
    let old = world.submit().await;
    let posted = world.store.job(world.org, old).await.expect("it runs");
    let at = posted.expect("the job").created_at;
    let asked = |after: Option<OffsetDateTime>, before: Option<OffsetDateTime>| JobFilter {
        created_after: after,
        created_before: before,
        ..filter(&[], 10)
    };
    let moment = Duration::microseconds(1);
    for (after, before, found) in [
        (None, None, vec![old]),
        (Some(at), None, vec![]),
        (Some(at - moment), None, vec![old]),
        (None, Some(at), vec![]),
        (None, Some(at + moment), vec![old]),
        (Some(at + Duration::days(400)), None, vec![]),
        (None, Some(OffsetDateTime::UNIX_EPOCH), vec![]),
    ] {
        let (jobs, _) = page(&world, asked(after, before)).await;
        assert_eq!(jobs, found, "{after:?} {before:?}");
    }
    for (service, found) in [("transcode.v1", 1), ("noop.v1", 0)] {
        let asked = JobFilter {
            service: Some(service.to_owned()),
            ..filter(&[], 10)
        };
        assert_eq!(page(&world, asked).await.0.len(), found, "{service}");
    }
}

/// As many queued jobs of the world's org, one a second; every tenth belongs to shop `b`.
async fn crowd(world: &World, jobs: u32) {
    world.submit().await;
    let copy = format!(
        "insert into jobs (id, org_id, service, params, inputs, metadata, lane,
            max_output_seconds, max_run_micros, max_attempts, admission_deadline, base_micros,
            per_minute_micros, provider_share_bps, held_micros, order_key, queue_key, created_at)
         select (lpad(to_hex(1700000000000 + n * 1000::bigint), 12, '0')
                 || '7000800000000' || lpad(to_hex(n), 7, '0'))::uuid,
            org_id, service, params, inputs,
            jsonb_build_object('shop', case when n % 10 = 0 then 'b' else 'a' end), lane,
            max_output_seconds, max_run_micros, max_attempts, admission_deadline, 0, 0, 0, 0,
            order_key, queue_key, to_timestamp(1700000000 + n)
         from jobs, generate_series(1, {jobs}) n where jobs.metadata = '{{}}'"
    );
    world.db.execute(&copy).await;
    let open = format!("update org_accounts set open_jobs = open_jobs + {jobs}");
    world.db.execute(&open).await;
    let words = "insert into job_words (org_id, word, job_id)
        select org_id, job_word('shop', metadata ->> 'shop'), id from jobs
        where metadata ? 'shop'";
    world.db.execute(words).await;
    world.db.execute("analyze jobs, job_words").await;
}

/// Runs a statement; no node of its plan may sort or read a table from end to end, nor touch more than
/// `most` rows.
async fn examines_at_most(conn: &mut PgConnection, name: &str, arguments: &str, most: i64) {
    let most = f64::from(i32::try_from(most).expect("not that many"));
    let plan = explain(conn, name, arguments).await;
    for node in &plan {
        let kind = node["Node Type"].as_str().expect("a kind");
        assert!(
            !["Sort", "Seq Scan", "Incremental Sort"].contains(&kind),
            "{name}: {plan:#?}"
        );
        let read = rows_read(node);
        assert!(read <= most, "{name} reads {read} rows: {plan:#?}");
    }
}

#[tokio::test]
async fn a_page_among_very_many_jobs_is_read_from_an_index_and_no_further_than_it_says() {
    const JOBS: u32 = 50_000;
    let world = World::new().await;
    crowd(&world, JOBS).await;
    let mut conn = PgConnection::connect(world.db.url())
        .await
        .expect("it lets us in");
    let org = world.org;
    let (nil, max) = (Uuid::nil(), Uuid::max());
    let middle = "018bd162-e040-7000-8000-000000000000";
    let all = MOST_EXAMINED;
    let none = "null, null, null, null";
    for before in [max.to_string().as_str(), middle] {
        let range = format!("'{org}', '{nil}', '{before}', {all}");
        // A page that everything fits is over when it is full, wherever it begins.
        let page = format!("{range}, {none}, 51");
        examines_at_most(&mut conn, "job_page: find", &page, 51).await;
        // What nothing fits ends at the bound.
        let nothing = format!("{range}, 'failed', null, null, null, 51");
        examines_at_most(&mut conn, "job_page: find", &nothing, all).await;
        let words = |shop: &str| format!("{range}, {none}, 51, '{{shop}}', '{{{shop}}}'");
        examines_at_most(&mut conn, "job_page: find by words", &words("b"), 51).await;
        examines_at_most(&mut conn, "job_page: find by words", &words("c"), 1).await;
    }
    let range = format!("'{org}', '{nil}', '{max}', {}", all - 1);
    examines_at_most(&mut conn, "job_page: edge", &range, all).await;
    let word = format!("{range}, 'shop', 'b'");
    examines_at_most(&mut conn, "job_page: edge of word", &word, all).await;
    conn.close().await.expect("it closes");

    // Pages that are empty but not the last lead to the end.
    let mut before = None;
    let mut pages = 0;
    loop {
        let asked = JobFilter {
            status: Some("failed".to_owned()),
            before,
            ..filter(&[], 10)
        };
        let (jobs, next) = page(&world, asked).await;
        assert!(jobs.is_empty());
        pages += 1;
        before = next;
        if next.is_none() {
            break;
        }
    }
    assert_eq!(pages, i64::from(JOBS) / MOST_EXAMINED + 1);
}
