//! On a real disk, and once more against a store that is not a folder.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use object_store::memory::InMemory;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::*;

fn on_disk() -> (TempDir, ArtifactStore) {
    let folder = TempDir::new().unwrap();
    let store = ArtifactStore::on_disk(folder.path()).unwrap();
    (folder, store)
}

fn bytes(parts: &[&'static str]) -> impl Stream<Item = Result<Bytes, Infallible>> + Unpin + use<> {
    let parts: Vec<_> = parts
        .iter()
        .map(|part| Ok(Bytes::from_static(part.as_bytes())))
        .collect();
    stream::iter(parts)
}

async fn put(store: &ArtifactStore, key: &str, text: &'static str) {
    let staged = store
        .put_stream(key, 1_000, None, bytes(&[text]))
        .await
        .unwrap();
    staged.commit().await.unwrap();
}

async fn read(store: &ArtifactStore, key: &str) -> Result<String, ArtifactError> {
    let object = store.get_range(key, None).await?;
    let parts: Vec<Bytes> = object.stream.try_collect().await?;
    Ok(String::from_utf8(parts.concat()).unwrap())
}

fn aside(folder: &TempDir) -> usize {
    std::fs::read_dir(folder.path().join(ASIDE))
        .unwrap()
        .count()
}

#[test]
fn a_folder_that_we_make_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = TempDir::new().unwrap();
    let made = folder.path().join("artifacts");
    ArtifactStore::on_disk(&made).unwrap();
    let mode = made.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[tokio::test]
async fn nothing_is_visible_before_the_commit_and_all_of_it_after() {
    let (folder, store) = on_disk();
    let staged = store
        .put_stream("a/b", 10, Some(5), bytes(&["he", "llo"]))
        .await
        .unwrap();
    assert!(matches!(
        read(&store, "a/b").await,
        Err(ArtifactError::NotFound(_))
    ));
    let stored = staged.commit().await.unwrap();
    assert_eq!(staged.commit().await.unwrap(), stored);
    drop(staged);
    assert_eq!(read(&store, "a/b").await.unwrap(), "hello");
    assert_eq!(stored.size_bytes, 5);
    assert_eq!(stored.sha256, <[u8; 32]>::from(Sha256::digest(b"hello")));
    assert_eq!(store.digest("a/b").await.unwrap(), stored);
    assert_eq!(aside(&folder), 0);
}

#[tokio::test]
async fn a_transaction_can_put_bytes_in_place_without_waiting_and_twice() {
    let (folder, store) = on_disk();
    let staged = store
        .put_stream("outputs/j/a/output.mp4", 10, None, bytes(&["x"]))
        .await
        .unwrap();
    staged.place().unwrap();
    staged.place().unwrap();
    drop(staged);
    assert_eq!(read(&store, "outputs/j/a/output.mp4").await.unwrap(), "x");
    assert_eq!(aside(&folder), 0);
}

#[tokio::test]
async fn what_is_dropped_or_discarded_leaves_nothing_behind() {
    let (folder, store) = on_disk();
    drop(
        store
            .put_stream("a", 10, None, bytes(&["x"]))
            .await
            .unwrap(),
    );
    let staged = store
        .put_stream("a", 10, None, bytes(&["x"]))
        .await
        .unwrap();
    assert_eq!(aside(&folder), 1);
    staged.discard().await.unwrap();
    assert_eq!(aside(&folder), 0);
    assert!(matches!(
        store.size("a").await,
        Err(ArtifactError::NotFound(_))
    ));
}

#[tokio::test]
async fn too_much_too_little_and_a_broken_stream_keep_nothing() {
    let (folder, store) = on_disk();
    let too_large = store.put_stream("a", 4, None, bytes(&["12", "345"])).await;
    assert!(matches!(
        too_large,
        Err(ArtifactError::TooLarge { max_bytes: 4 })
    ));
    let declared_too_large = store.put_stream("a", 4, Some(5), bytes(&[])).await;
    assert!(matches!(
        declared_too_large,
        Err(ArtifactError::TooLarge { .. })
    ));
    for (declared, parts) in [(4, ["1", "2"]), (1, ["1", "2"])] {
        let wrong = store
            .put_stream("a", 9, Some(declared), bytes(&parts))
            .await;
        assert!(matches!(wrong, Err(ArtifactError::WrongLength { .. })));
    }
    let broken = stream::iter([Ok(Bytes::from_static(b"1")), Err("cable pulled")]);
    let broken = store.put_stream("a", 9, None, broken).await;
    assert!(matches!(broken, Err(ArtifactError::Sender(why)) if why == "cable pulled"));
    assert_eq!(aside(&folder), 0);
}

#[tokio::test]
async fn an_upload_that_is_abandoned_in_the_middle_is_cleared_away() {
    let (folder, store) = on_disk();
    let endless = bytes(&["x"]).chain(stream::pending());
    let put = store.put_stream("a", 9, None, endless);
    let cut = tokio::time::timeout(std::time::Duration::from_millis(50), put).await;
    assert!(cut.is_err());
    for _ in 0..100 {
        if aside(&folder) == 0 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("the abandoned bytes are still there");
}

#[tokio::test]
async fn a_copy_does_not_change_when_its_source_is_overwritten_or_deleted() {
    let (_folder, store) = on_disk();
    put(&store, "outputs/1", "verified").await;
    store.copy("outputs/1", "verified/1/1").await.unwrap();
    put(&store, "outputs/1", "swapped!").await;
    assert_eq!(read(&store, "verified/1/1").await.unwrap(), "verified");
    store.copy("outputs/1", "verified/1/1").await.unwrap();
    store.delete("outputs/1").await.unwrap();
    store.delete("outputs/1").await.unwrap();
    assert_eq!(read(&store, "verified/1/1").await.unwrap(), "swapped!");
    let missing = store.copy("outputs/1", "verified/1/2").await;
    assert!(matches!(missing, Err(ArtifactError::NotFound(_))));
}

#[tokio::test]
async fn an_open_download_goes_on_with_the_bytes_it_began_with() {
    let (_folder, store) = on_disk();
    put(&store, "a", "old").await;
    let object = store.get_range("a", None).await.unwrap();
    put(&store, "a", "new").await;
    let parts: Vec<Bytes> = object.stream.try_collect().await.unwrap();
    assert_eq!(parts.concat(), b"old");
}

#[tokio::test]
async fn ranges_are_exact_and_must_lie_within_the_object() {
    let (_folder, store) = on_disk();
    put(&store, "a", "0123456789").await;
    let object = store.get_range("a", Some(2..5)).await.unwrap();
    assert_eq!((object.size_bytes, object.range.clone()), (10, 2..5));
    let parts: Vec<Bytes> = object.stream.try_collect().await.unwrap();
    assert_eq!(parts.concat(), b"234");
    for (start, end) in [(0, 11), (10, 11), (3, 3)] {
        let outside = store.get_range("a", Some(start..end)).await;
        assert!(matches!(
            outside,
            Err(ArtifactError::OutOfRange { size_bytes: 10 })
        ));
    }
}

#[tokio::test]
async fn names_that_lead_out_of_the_folder_are_refused() {
    let (_folder, store) = on_disk();
    for key in ["../a", "a/../../b", "/etc/passwd/..", "a//b"] {
        let refused = store.size(key).await;
        assert!(
            matches!(refused, Err(ArtifactError::BadKey(_))),
            "{key}: {refused:?}"
        );
    }
}

#[tokio::test]
async fn an_empty_object_can_be_stored_and_read() {
    let (_folder, store) = on_disk();
    put(&store, "empty", "").await;
    assert_eq!(store.size("empty").await.unwrap(), 0);
    assert_eq!(read(&store, "empty").await.unwrap(), "");
}

#[tokio::test]
async fn files_larger_than_a_part_survive_in_both_kinds_of_store() {
    let (_folder, disk) = on_disk();
    for store in [disk, ArtifactStore::remote(Arc::new(InMemory::new()))] {
        let chunk = Bytes::from(vec![7; 1 << 20]);
        let chunks: Vec<Result<_, Infallible>> = vec![Ok(chunk); 12];
        let staged = store
            .put_stream("big", 12 << 20, None, stream::iter(chunks))
            .await
            .unwrap();
        let stored = staged.commit().await.unwrap();
        assert_eq!(stored.size_bytes, 12 << 20);
        assert_eq!(store.digest("big").await.unwrap(), stored);
        let copy = store.local_copy("big").await.unwrap();
        let local = std::fs::read(copy.path()).unwrap();
        assert_eq!(<[u8; 32]>::from(Sha256::digest(&local)), stored.sha256);
    }
}

#[tokio::test]
async fn a_store_is_known_by_what_is_in_it_and_not_by_its_path() {
    let (folder, store) = on_disk();
    let first = store.identity().await.unwrap();
    assert_eq!(store.identity().await.unwrap(), first);
    let elsewhere = TempDir::new().unwrap();
    let moved = elsewhere.path().join("mounted");
    std::os::unix::fs::symlink(folder.path(), &moved).unwrap();
    let moved = ArtifactStore::on_disk(&moved).unwrap();
    assert_eq!(moved.identity().await.unwrap(), first);
    let (_other_folder, other) = on_disk();
    assert_ne!(other.identity().await.unwrap(), first);
}

#[tokio::test]
async fn those_who_ask_a_new_store_at_once_are_told_the_same() {
    let (_folder, disk) = on_disk();
    for store in [disk, ArtifactStore::remote(Arc::new(InMemory::new()))] {
        let asked = (0..16).map(|_| {
            let store = store.clone();
            async move { tokio::spawn(async move { store.identity().await.unwrap() }).await }
        });
        let told = futures_util::future::join_all(asked).await;
        let first = *told[0].as_ref().unwrap();
        assert!(told.into_iter().all(|told| told.unwrap() == first));
    }
}

#[tokio::test]
async fn a_marker_that_is_no_id_is_said_to_be_damaged() {
    let (folder, store) = on_disk();
    std::fs::write(folder.path().join("fencepost-store"), "?").unwrap();
    let refused = store.identity().await.unwrap_err();
    assert!(refused.to_string().contains("damaged"), "{refused}");
}
