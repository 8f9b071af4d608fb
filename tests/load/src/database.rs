//! The Postgres that is measured: one of our own, or one that was named.
//!
//! Either way the run gets two databases of its own, one for Fencepost and one for the ceiling, and
//! touches no other.

use std::path::{Path, PathBuf};

use fencepost_embedded::{EmbeddedPostgres, StartOptions};
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, PgPool};
use tempfile::TempDir;
use url::Url;

use crate::cli::{Cli, Scenario};
use crate::error::LoadError;

/// A server with the run's two databases.
pub(crate) struct Database {
    embedded: Option<EmbeddedPostgres>,
    /// Everything of the run that is on disk: artifacts, configurations, logs.
    folder: TempDir,
    admin: Url,
    names: [String; 2],
    /// To look at the measured database with.
    pub(crate) pool: PgPool,
}

impl Database {
    /// Starts or finds the server and makes the databases.
    pub(crate) async fn start(cli: &Cli) -> Result<Self, LoadError> {
        let folder = tempfile::Builder::new()
            .prefix("fencepost-load-")
            .tempdir()?;
        let (embedded, admin) = if let Some(url) = &cli.database {
            (None, url.clone())
        } else {
            let embedded = start_embedded(cli, folder.path()).await?;
            let url = embedded.admin_url().expose().to_owned();
            (Some(embedded), url)
        };
        let admin = Url::parse(&admin).map_err(|_| LoadError::DatabaseUrl)?;
        // The second half of such an id is random.
        let suffix = &uuid::Uuid::now_v7().simple().to_string()[20..];
        let names = [
            format!("fencepost_load_{suffix}"),
            format!("fencepost_ceiling_{suffix}"),
        ];
        let mut connection = PgConnection::connect(admin.as_str()).await?;
        for name in &names {
            execute(&mut connection, format!("create database {name}")).await?;
        }
        connection.close().await?;
        let pool = PgPoolOptions::new()
            .max_connections(2)
            .connect(of_database(&admin, &names[0]).as_str())
            .await?;
        Ok(Self {
            embedded,
            folder,
            admin,
            names,
            pool,
        })
    }

    /// Where the gateways connect.
    pub(crate) fn url(&self) -> Url {
        of_database(&self.admin, &self.names[0])
    }

    /// Where the ceiling is measured.
    pub(crate) fn ceiling_url(&self) -> Url {
        of_database(&self.admin, &self.names[1])
    }

    /// The run's folder.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The server's process, if it is ours.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.embedded.as_ref().map(EmbeddedPostgres::pid)
    }

    /// The folder of the server's programs, if it is ours.
    pub(crate) fn programs(&self) -> Option<PathBuf> {
        let program = std::fs::read_link(format!("/proc/{}/exe", self.pid()?)).ok()?;
        program.parent().map(Path::to_owned)
    }

    /// Stops a server of ours; drops the databases on another one.
    pub(crate) async fn clear_away(self) -> Result<(), LoadError> {
        self.pool.close().await;
        if let Some(embedded) = self.embedded {
            embedded.stop().await?;
            return Ok(());
        }
        let mut connection = PgConnection::connect(self.admin.as_str()).await?;
        for name in &self.names {
            execute(
                &mut connection,
                format!("drop database if exists {name} with (force)"),
            )
            .await?;
        }
        Ok(())
    }
}

async fn start_embedded(cli: &Cli, folder: &Path) -> Result<EmbeddedPostgres, LoadError> {
    let gateways = match &cli.scenario {
        Scenario::Lifecycle(args) => args.gateways,
        Scenario::Sessions(_) | Scenario::Pages(_) => 1,
    };
    let mut options = StartOptions::new(folder.join("postgres"));
    options.temporary = true;
    options.max_connections = u16::try_from(100 + gateways * 40).unwrap_or(u16::MAX);
    Ok(EmbeddedPostgres::start(options).await?)
}

/// Database names cannot be parameters; these are made of our own letters.
async fn execute(connection: &mut PgConnection, statement: String) -> Result<(), sqlx::Error> {
    sqlx::query(AssertSqlSafe(statement))
        .execute(connection)
        .await
        .map(drop)
}

fn of_database(server: &Url, name: &str) -> Url {
    let mut url = server.clone();
    url.set_path(name);
    url
}
