//! What is written down about objects in a bucket: uploads in parts, and buyers' files.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::ids::UploadId;
use fencepost_store::StoreError;
use fencepost_store::admin::NewUpload;
use fencepost_store::artifacts::{OpenUpload, Stored};
use fencepost_store::fence::FenceMode;
use fencepost_store::tx::Refusal;
use fencepost_store::tx::complete_upload::Completed;
use fencepost_tests::World;
use fencepost_tests::world::TTL;

fn named(id: &str) -> OpenUpload {
    OpenUpload {
        id: id.to_owned(),
        part_bytes: 5,
    }
}

fn found(byte: u8) -> Stored {
    Stored {
        size_bytes: 10,
        sha256: [byte; 32],
    }
}

#[tokio::test]
async fn the_first_upload_in_parts_that_is_written_down_stays() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    let store = &world.store;
    let asked = store.grant_parts(lease.claim(), 5).await.unwrap().unwrap();
    assert_eq!((asked.part_bytes, asked.upload_id), (5, None));
    for name in ["first", "second"] {
        let begun = store.parts_begun(lease.claim(), named(name)).await.unwrap();
        assert_eq!(begun.unwrap().upload_id.as_deref(), Some("first"));
    }
    let asked = store.grant_parts(lease.claim(), 7).await.unwrap().unwrap();
    assert_eq!(asked.part_bytes, 5, "parts of two sizes make no object");
    assert_eq!(asked.upload_id.as_deref(), Some("first"));
    let ticket = world.begin_verification(&lease).await;
    assert_eq!(ticket.parts, Some(named("first")));
}

#[tokio::test]
async fn parts_are_granted_to_the_holder_of_a_live_lease_only() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let other = world.device("other").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    let right = lease.claim();
    let mut wrong = vec![right; 2];
    wrong[0].epoch += 1;
    wrong[1].device = other.id;
    let before = world.db.rows().await;
    let refused = async |claim| {
        let asked = world.store.grant_parts(claim, 5).await.unwrap();
        assert!(matches!(asked, Err(Refusal::Fence(_))), "{asked:?}");
        let begun = world
            .store
            .parts_begun(claim, named("stale"))
            .await
            .unwrap();
        assert!(matches!(begun, Err(Refusal::Fence(_))), "{begun:?}");
    };
    for claim in wrong {
        refused(claim).await;
    }
    assert_eq!(world.db.rows().await, before);
    world.clock.advance(TTL).await;
    refused(right).await;
    let mac = world.device("third").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    world.begin_verification(&lease).await;
    refused(lease.claim()).await;
}

#[tokio::test]
async fn one_copy_is_the_upload_and_none_after_its_time() {
    let world = World::new().await;
    let new = |id| NewUpload {
        id,
        max_bytes: 10,
        sha256: None,
        in_bucket: true,
    };
    let (upload, late) = (UploadId::new(), UploadId::new());
    for id in [upload, late] {
        let created = world.store.create_declared_upload(world.org, new(id)).await;
        created.unwrap();
    }
    let complete = async |id, key: &str, byte| {
        let completed = world.store.complete_upload(id, key.to_owned(), found(byte));
        completed.await.unwrap()
    };
    assert_eq!(complete(upload, "a", 1).await, Completed::Done);
    assert_eq!(complete(upload, "b", 2).await, Completed::Before(found(1)));
    assert_eq!(complete(upload, "a", 1).await, Completed::Done);
    assert!(world.store.collect_uploads(10).await.unwrap().is_empty());
    // A quarter of an hour for the link, six hours for the longest transfer, one for good measure.
    world.clock.advance(Duration::from_mins(375)).await;
    world.mark().await;
    assert_eq!(complete(late, "c", 3).await, Completed::TooLate);
    // The WHERE alone is never asked, and says that it contradicts.
    let where_alone = world.store.with_fence(FenceMode::OnlyWhere);
    let answer = where_alone.complete_upload(late, "c".to_owned(), found(3));
    let answer = answer.await;
    assert!(
        matches!(answer, Err(StoreError::Inconsistency { .. })),
        "{answer:?}"
    );
    assert!(world.store.collect_uploads(10).await.unwrap().is_empty());
    world.clock.advance(Duration::from_hours(1)).await;
    world.mark().await;
    for _ in 0..2 {
        let mut due = world.store.collect_uploads(10).await.unwrap();
        due.sort_by_key(|one| one.upload.0);
        let kept: Vec<_> = due.iter().map(|one| one.kept.as_deref()).collect();
        assert_eq!(kept, [Some("a"), None]);
        assert!(world.store.collect_uploads(10).await.unwrap().is_empty());
        let all = due.iter().map(|one| one.upload).collect();
        world.store.uploads_collected(all).await.unwrap();
        world.clock.advance(Duration::from_hours(1)).await;
        world.mark().await;
    }
    assert!(world.store.collect_uploads(10).await.unwrap().is_empty());
}
