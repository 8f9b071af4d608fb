//! When a key was last used, for whoever wants to revoke the old one.

use std::time::Duration;

use fencepost_domain::ids::ApiKeyId;
use fencepost_store::secrets::Credential;
use fencepost_tests::World;
use sqlx::{Connection as _, Executor as _, PgConnection};
use time::OffsetDateTime;

async fn key(world: &World) -> (ApiKeyId, Credential) {
    let made = world.store.create_api_key(world.org, true).await;
    made.expect("it runs").expect("there is the org")
}

async fn use_key(world: &World, key: &Credential) {
    let keys = vec![key.clone(), key.clone()];
    let orgs = world.store.orgs_of_keys(keys).await.expect("it runs");
    assert_eq!(orgs, [Some(world.org); 2]);
}

async fn last_use(world: &World, key: ApiKeyId) -> Option<OffsetDateTime> {
    let keys = world.store.api_keys(None, Some(key)).await;
    keys.expect("they are read")[0].last_used_at
}

#[tokio::test]
async fn the_last_use_of_a_key_is_remembered_to_the_hour() {
    let world = World::new().await;
    world.clock.freeze().await;
    let ((old, secret), (new, _)) = (key(&world).await, key(&world).await);
    assert_eq!(last_use(&world, old).await, None);
    let first = world.clock.now().await;
    use_key(&world, &secret).await;
    assert_eq!(last_use(&world, old).await, Some(first));
    world.clock.advance(Duration::from_hours(1)).await;
    use_key(&world, &secret).await;
    assert_eq!(
        last_use(&world, old).await,
        Some(first),
        "no row is written for every request"
    );
    world.clock.advance(Duration::from_mins(1)).await;
    use_key(&world, &secret).await;
    let later = last_use(&world, old).await;
    assert_eq!(later, Some(first + Duration::from_mins(61)));
    assert_eq!(last_use(&world, new).await, None);
    // One that opens nothing is not used.
    assert!(world.store.revoke_api_key(old).await.expect("it runs"));
    world.clock.advance(Duration::from_hours(2)).await;
    let orgs = world.store.orgs_of_keys(vec![secret]).await;
    assert_eq!(orgs.expect("it runs"), [None]);
    assert_eq!(last_use(&world, old).await, later);
}

#[tokio::test]
async fn whoever_holds_the_row_of_a_key_keeps_nobody_out() {
    let world = World::new().await;
    let (id, secret) = key(&world).await;
    let other = PgConnection::connect(world.db.url()).await;
    let mut other = other.expect("the database lets us in");
    let hold = "begin; select from api_keys for update";
    other.execute(hold).await.expect("the rows are free");
    let used = use_key(&world, &secret);
    let used = tokio::time::timeout(Duration::from_secs(10), used).await;
    used.expect("it does not wait for the row");
    assert_eq!(last_use(&world, id).await, None);
    other.execute("rollback").await.expect("it is ours");
    use_key(&world, &secret).await;
    assert!(last_use(&world, id).await.is_some());
}
