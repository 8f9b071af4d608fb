//! What operators do: orgs, keys, providers, credit, enrollment, devices, schema.

pub(crate) mod audit;
mod buyers;
mod devices;
mod limits;

use sqlx::migrate::Migrator;

use crate::error::StoreError;
use crate::run::Store;

pub use audit::Actor;
pub use buyers::NewUpload;
pub use devices::NewEnrollment;
pub use limits::{NewLimits, OrgUse};

/// The migrations of this build.
pub static MIGRATIONS: Migrator = sqlx::migrate!("../migrations");

impl Store {
    /// Brings the schema to this build's version. Gateways may run meanwhile.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        let pool = self.pool().clone();
        self.on_runtime(async move { MIGRATIONS.run(&pool).await })
            .await?
            .map_err(|error| StoreError::Unavailable(error.to_string()))
    }

    /// Refuses a schema that is older or newer than this build knows.
    pub async fn check_schema(&self) -> Result<(), StoreError> {
        let needed = MIGRATIONS
            .iter()
            .map(|migration| migration.version)
            .max()
            .unwrap_or(0);
        let found: Result<Option<i64>, _> = self
            .read("check_schema", |mut conn| async move {
                // Unchecked SQL: the table is the migrator's, and may not be there.
                sqlx::query_scalar("-- check_schema\nselect max(version) from _sqlx_migrations")
                    .fetch_one(&mut *conn)
                    .await
            })
            .await;
        let found = match found {
            Ok(version) => version.unwrap_or(0),
            Err(StoreError::Database(_)) => 0,
            Err(error) => return Err(error),
        };
        if found == needed {
            return Ok(());
        }
        let found = if found == 0 {
            "empty".to_owned()
        } else {
            format!("version {found}")
        };
        Err(StoreError::Schema {
            found,
            needed: format!("version {needed}"),
        })
    }
}
