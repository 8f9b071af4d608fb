//! What is new about watched jobs: complete, in order, and never more than is asked for.

use fencepost_domain::attempt::Phase;
use fencepost_domain::failure::FailureCode;
use fencepost_domain::ids::JobId;
use fencepost_store::views::{JobNews, NEWS_PAGE, NewsAfter};
use fencepost_tests::World;
use fencepost_tests::world::TTL;

async fn news(world: &World, job: JobId, after: i64) -> JobNews {
    let asked = vec![NewsAfter { job, after }];
    let news = world.store.job_news(asked).await.expect("reading runs");
    news.into_iter()
        .flatten()
        .next()
        .expect("there is such a job")
}

#[tokio::test]
async fn pages_read_while_others_write_have_no_gaps() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    let job = lease.job;
    let (store, writer) = (world.store.clone(), lease.clone());
    let writing = tokio::spawn(async move {
        for seq in 0..150 {
            store
                .write_events(vec![writer.event(seq)])
                .await
                .expect("writing runs");
        }
    });
    let (mut seen, mut after) = (Vec::new(), 0);
    while seen.len() < 150 {
        let news = news(&world, job, after).await;
        assert!(news.events.len() <= NEWS_PAGE as usize);
        seen.extend(news.events.iter().map(|event| event.seq));
        after = news.through;
    }
    writing.await.unwrap();
    assert_eq!(seen, (1..=150).collect::<Vec<_>>());
}

#[tokio::test]
async fn one_call_answers_so_many_who_are_behind_and_tells_the_others_that_there_is_more() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    let job = lease.job;
    for seq in 0..2 {
        world.event(&lease.event(seq)).await;
    }
    let unknown = NewsAfter {
        job: JobId::new(),
        after: 0,
    };
    let up_to_date = NewsAfter { job, after: 2 };
    let behind = NewsAfter { job, after: 0 };
    let mut asked = vec![unknown, up_to_date];
    asked.extend([behind; 40]);
    let answers = world.store.job_news(asked).await.unwrap();
    assert!(answers[0].is_none());
    let known = answers[1].as_ref().unwrap();
    assert_eq!(
        (known.events.len(), known.through, known.has_more),
        (0, 2, false)
    );
    let told = |answer: &&Option<JobNews>| {
        let answer = answer.as_ref().unwrap();
        assert_eq!(answer.has_more, answer.events.is_empty());
        !answer.events.is_empty()
    };
    let (told, later): (Vec<_>, Vec<_>) = answers[2..].iter().partition(told);
    assert_eq!((told.len(), later.len()), (32, 8));
    assert!(
        later
            .iter()
            .all(|answer| answer.as_ref().unwrap().through == 0)
    );
}

#[tokio::test]
async fn a_job_whose_lease_has_run_out_waits_also_before_a_sweep_has_seen_it() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    let job = lease.job;
    let state = news(&world, job, 0).await.state;
    assert_eq!(
        (state.status.as_str(), state.phase.as_deref()),
        ("active", Some("running"))
    );
    world.clock.advance(TTL).await;
    let state = news(&world, job, 0).await.state;
    assert_eq!((state.status.as_str(), state.phase), ("queued", None));
    drop(lease);
}

#[tokio::test]
async fn a_hole_in_the_numbers_is_no_news() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    let job = lease.job;
    world.event(&lease.event(0)).await;
    // Something of another kind had a number too, and was pruned since.
    world
        .db
        .execute("update jobs set event_counter = event_counter + 1")
        .await;
    let before = news(&world, job, 0).await;
    assert_eq!((before.through, before.has_more), (2, false));
    world.end(lease.fail(FailureCode::RunnerFailed)).await;
    let after = news(&world, job, before.through).await;
    assert_eq!(after.events[0].seq, 3);
    assert!(after.events[0].terminal && !after.has_more);
    assert_eq!(after.last_seq, 3);
    // Of ours there is no hole, which the checker looks for.
    world
        .db
        .execute("update outbox set seq = seq - 1; update jobs set event_counter = 2")
        .await;
}
