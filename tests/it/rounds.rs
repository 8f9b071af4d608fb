//! Rounds that meet others: whatever the plan, the number of gateways or the state they find, nothing
//! is leased twice.

use fencepost_domain::attempt::Phase;
use fencepost_store::StoreSettings;
use fencepost_store::tx::lease_round::Cursor;
use fencepost_tests::{TestDb, World, counters};

#[tokio::test]
async fn the_claim_takes_one_row_for_one_slot_whatever_plan_it_runs_by() {
    let db = TestDb::new().await;
    for join in ["hashjoin", "mergejoin", "hashagg"] {
        db.execute(&format!(
            "alter database {} set enable_{join} = off",
            db.name()
        ))
        .await;
    }
    let world = World::on(db, StoreSettings::default()).await;
    let mac = world.device("mac").await;
    world.submit().await;
    world
        .db
        .execute("alter table jobs set (autovacuum_enabled = off); analyze jobs")
        .await;
    world.submit_many(50).await;
    assert_eq!(world.pull(&mac, 1).await.len(), 1);
    let leased =
        "select count(*) from attempts union all select count(*) from jobs where status = 'active'";
    assert_eq!(world.db.texts(leased).await, ["1", "1"]);
    assert_eq!(world.pull(&mac, 3).await.len(), 3);
    assert!(world.pull(&mac, 4).await.is_empty(), "it has four slots");
}

#[tokio::test]
async fn a_round_leases_all_others_when_a_queued_job_still_has_a_live_attempt() {
    counters::install();
    let alarms = || {
        let name = "fencepost_invariant_violations_total";
        counters::count(name, "id", "queued_job_has_live_attempt")
    };
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    let break_it = format!(
        "update jobs set status = 'queued', queue_key = order_key where id = '{}'",
        lease.job
    );
    world.db.execute(&break_it).await;
    let others = world.submit_many(2).await;
    let before = alarms();
    let leases = world.pull(&mac, 3).await;
    let mut leased: Vec<_> = leases.iter().map(|lease| lease.job).collect();
    leased.sort();
    assert_eq!(leased, others);
    assert!(alarms() > before, "nobody was told");
    let mend_it = format!(
        "update jobs set status = 'active', queue_key = null where id = '{}'",
        lease.job
    );
    world.db.execute(&mend_it).await;
}

#[tokio::test]
async fn two_gateways_at_an_orgs_last_place_make_one_lease() {
    let world = World::new().await;
    let (one, two) = (world.device("one").await, world.device("two").await);
    let second_gateway = world.db.open_store(StoreSettings::default());
    world
        .db
        .execute("update orgs set max_live_attempts = 1")
        .await;
    for _ in 0..20 {
        world.submit_many(2).await;
        let (first, second) = tokio::join!(
            world
                .store
                .lease_round(vec![one.pull(1)], Cursor::default()),
            second_gateway.lease_round(vec![two.pull(1)], Cursor::default()),
        );
        let leases: Vec<_> = [first.unwrap().leased, second.unwrap().leased].concat();
        assert_eq!(leases.len(), 1);
        for job in world
            .db
            .texts("select id from jobs where ended_at is null")
            .await
        {
            world.cancel(job.parse().unwrap()).await;
        }
    }
}

#[tokio::test]
async fn one_free_slot_pulled_through_two_sessions_makes_one_lease() {
    let world = World::new().await;
    let second_gateway = world.db.open_store(StoreSettings::default());
    let mut mac = world
        .device_with("mac", 1, &["transcode.v1", "encode.h264"])
        .await;
    for _ in 0..20 {
        world.submit_many(2).await;
        let old = mac.clone();
        let minted = world.store.mint_session(&mac.token).await.unwrap().unwrap();
        mac.session = minted.1;
        let hello = world.hello(&mac, Vec::new());
        let (_, first, second) = tokio::join!(
            second_gateway.begin_session(hello),
            world
                .store
                .lease_round(vec![old.pull(1)], Cursor::default()),
            async {
                let session = second_gateway.lease_round(vec![mac.pull(1)], Cursor::default());
                session.await
            },
        );
        assert!(first.is_ok() && second.is_ok());
        // The hello may have returned the first one's offer before the second pulled.
        let live = "select count(*) from attempts where ended_at is null";
        assert!(["0", "1"].contains(&world.db.text(live).await.as_str()));
        // The same session twice, through two gateways.
        let (first, second) = tokio::join!(
            world
                .store
                .lease_round(vec![mac.pull(1)], Cursor::default()),
            second_gateway.lease_round(vec![mac.pull(1)], Cursor::default()),
        );
        assert!(first.is_ok() && second.is_ok());
        assert_eq!(world.db.text(live).await, "1");
        for job in world
            .db
            .texts("select id from jobs where ended_at is null")
            .await
        {
            world.cancel(job.parse().unwrap()).await;
        }
        assert_eq!(world.db.text(live).await, "0", "nobody accepted them");
    }
}
