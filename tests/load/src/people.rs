//! Who takes part: orgs with credit and keys, a provider, paired devices.

use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::ids::ProviderId;
use fencepost_store::admin::NewEnrollment;
use fencepost_store::secrets::Credential;
use fencepost_store::{Store, StoreError, StoreSettings};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::database::Database;
use crate::error::LoadError;

/// More than any run can spend.
const CREDIT_MICROS: i64 = 1_000_000_000_000;
const AT_ONCE: usize = 8;

/// Everybody's credentials.
pub(crate) struct People {
    /// One API key of each org.
    pub(crate) keys: Vec<Credential>,
    /// The token of each device.
    pub(crate) devices: Vec<Credential>,
}

/// Makes the schema, and everybody.
pub(crate) async fn set_up(
    database: &Database,
    orgs: u32,
    devices: u32,
) -> Result<People, LoadError> {
    let settings = StoreSettings {
        max_connections: u32::try_from(AT_ONCE).unwrap_or(8),
        ..StoreSettings::default()
    };
    let store = Store::open(database.url().as_str(), settings)?;
    store.migrate().await?;
    let mut keys = Vec::new();
    for number in 0..orgs {
        keys.push(org(&store, number).await?);
    }
    let provider = store.create_provider("load").await?;
    let devices = stream::iter(0..devices)
        .map(|number| device(&store, provider, number))
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await?;
    store.close().await;
    Ok(People { keys, devices })
}

async fn org(store: &Store, number: u32) -> Result<Credential, LoadError> {
    let org = store.create_org(&format!("load-{number}"), None).await?;
    store.add_credit(org, CREDIT_MICROS).await?;
    let key = store.create_api_key(org, false).await?;
    key.map(|(_, key)| key).ok_or_else(gone)
}

async fn device(store: &Store, provider: ProviderId, number: u32) -> Result<Credential, LoadError> {
    let enrollment = NewEnrollment {
        provider,
        device: None,
        own_org: None,
        labels: Vec::new(),
        valid_for: LeaseDuration::seconds(900),
    };
    let code = store
        .create_enrollment(enrollment)
        .await?
        .ok_or_else(gone)?;
    let paired = store.pair_device(&code, &format!("load-{number}")).await?;
    paired.map(|paired| paired.token).ok_or_else(gone)
}

/// What was just made is not there.
fn gone() -> LoadError {
    LoadError::Store(StoreError::Unavailable(
        "somebody else uses the database".to_owned(),
    ))
}
