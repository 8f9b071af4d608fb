//! A crowd that uses up the connections costs no lease.

use fencepost_domain::attempt::Phase;
use fencepost_store::tx::begin_session::SessionAnswer;
use fencepost_store::tx::begin_verification::CommitAnswer;
use fencepost_store::tx::record_progress::ProgressAnswer;
use fencepost_store::{Store, StoreError, StoreSettings};
use fencepost_tests::world::commit_on;
use fencepost_tests::{Blocker, World};

#[tokio::test]
async fn when_buyers_hold_all_connections_others_are_told_at_once_and_leases_go_on() {
    let world = World::new().await;
    let mac = world
        .device_with("mac", 2, &["transcode.v1", "encode.h264"])
        .await;
    let running = world.in_phase(&mac, Phase::Running).await;
    let uploading = world.in_phase(&mac, Phase::Uploading).await;
    let settings = StoreSettings {
        max_connections: 4,
        ..StoreSettings::default()
    };
    let store = Store::open(world.db.url(), settings).expect("the URL is readable");
    // An upload counts against the org's quota, so it would wait too.
    let mut jobs = Vec::new();
    for _ in 0..4 {
        jobs.push(world.new_job().await);
    }
    // Every submit of the org waits for its account, and holds a connection while it does.
    let account = format!(
        "select 1 from org_accounts where org_id = '{}' for update",
        world.org
    );
    let blocker = Blocker::hold(&world.db, &account).await;
    let late = jobs.pop().expect("four were made");
    let mut crowd = Vec::new();
    for job in jobs {
        let store = store.clone();
        crowd.push(tokio::spawn(async move { store.submit_job(job).await }));
    }
    blocker.until_waiting(&world.db, 3).await;

    let one_more = store.submit_job(late).await;
    assert!(matches!(one_more, Err(StoreError::Busy)), "{one_more:?}");
    let reader = store.balance(world.org).await;
    assert!(matches!(reader, Err(StoreError::Busy)), "{reader:?}");

    let renewed = store
        .record_progress(vec![running.progress(Phase::Running)])
        .await;
    let renewed = renewed.unwrap().pop();
    assert!(
        matches!(renewed, Some(ProgressAnswer::Renewed(_))),
        "{renewed:?}"
    );
    let committed = commit_on(&store, uploading.commit()).await;
    assert!(
        matches!(committed, CommitAnswer::Verify(_)),
        "{committed:?}"
    );
    let mut again = mac.clone();
    again.session = store.mint_session(&mac.token).await.unwrap().unwrap().1;
    let hello = store
        .begin_session(world.hello(&again, vec![running.held()]))
        .await;
    assert!(
        matches!(hello, Ok(SessionAnswer::Current { .. })),
        "{hello:?}"
    );
    store.ping().await.unwrap();

    blocker.release().await;
    for submit in crowd {
        submit.await.unwrap().unwrap();
    }
}
