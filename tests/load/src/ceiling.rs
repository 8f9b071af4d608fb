//! The ceiling: what this Postgres does with the least that a life can be.
//!
//! The schema and the script are given (`tests/load/ceiling/`); they are run by pgbench with
//! sixteen clients, before and after the measured lives, since machines get warm and tired.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;
use url::Url;

use crate::database::Database;
use crate::error::LoadError;

const SCHEMA: &str = include_str!("../ceiling/schema.sql");
const SCRIPT: &str = include_str!("../ceiling/lifecycle.sql");
const CLIENTS: &str = "16";
/// Jobs that wait from the beginning. Without any, a client of the script sooner or later sees none
/// that nobody holds, and ends; fewer clients make another ceiling.
const SPARE: &str = "insert into mini_jobs (org, status, body) \
    select 1, 'queued', '{\"service\":\"transcode\",\"height\":720}' from generate_series(1, 200)";

/// A way to measure the ceiling.
pub(crate) struct Ceiling {
    pgbench: PathBuf,
    script: PathBuf,
    url: Url,
    seconds: u32,
}

impl Ceiling {
    /// Prepares the ceiling's database; `None`, with a word to people, where pgbench is missing.
    pub(crate) fn prepare(database: &Database, seconds: u32) -> Result<Option<Self>, LoadError> {
        if seconds == 0 {
            return Ok(None);
        }
        let Some(pgbench) = find_pgbench(database.programs().as_deref()) else {
            eprintln!(
                "pgbench was not found beside postgres or in PATH, so there is no ceiling and no \
                 ratio (Debian: it comes with the package postgresql; macOS: with \
                 `brew install postgresql`)"
            );
            return Ok(None);
        };
        let script = database.folder().join("ceiling.sql");
        std::fs::write(&script, SCRIPT)?;
        Ok(Some(Self {
            pgbench,
            script,
            url: database.ceiling_url(),
            seconds,
        }))
    }

    /// Lives per second, on fresh tables.
    pub(crate) async fn measure(&self) -> Result<f64, LoadError> {
        let pool = sqlx::postgres::PgPoolOptions::new()
            .max_connections(1)
            .connect(self.url.as_str())
            .await?;
        sqlx::raw_sql(SCHEMA).execute(&pool).await?;
        sqlx::raw_sql(SPARE).execute(&pool).await?;
        pool.close().await;
        let output = self
            .command()
            .arg("-n")
            .arg("-f")
            .arg(&self.script)
            .args(["-c", CLIENTS, "-T", &self.seconds.to_string()])
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await?;
        let said = String::from_utf8_lossy(&output.stdout);
        parse_tps(&said)
            .filter(|_| output.status.success())
            .ok_or_else(|| {
                let trouble = String::from_utf8_lossy(&output.stderr);
                LoadError::Ceiling(trouble.trim().to_owned())
            })
    }

    /// The connection goes by the environment: a password has no business among the arguments.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.pgbench);
        let text = |text: &str| {
            url::form_urlencoded::parse(format!("x={}", text.replace('+', "%2B")).as_bytes())
                .next()
                .map_or_else(String::new, |(_, value)| value.into_owned())
        };
        command.env("PGDATABASE", self.url.path().trim_start_matches('/'));
        if let Some(host) = self.url.host_str() {
            command.env("PGHOST", host);
        }
        if let Some(port) = self.url.port() {
            command.env("PGPORT", port.to_string());
        }
        if !self.url.username().is_empty() {
            command.env("PGUSER", text(self.url.username()));
        }
        if let Some(password) = self.url.password() {
            command.env("PGPASSWORD", text(password));
        }
        for (key, value) in self.url.query_pairs() {
            if key == "sslmode" {
                command.env("PGSSLMODE", value.as_ref());
            }
        }
        command
    }
}

/// Beside the server's own program, in PATH, or where Debian and Homebrew put it.
fn find_pgbench(beside: Option<&Path>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = beside.map(Path::to_owned).into_iter().collect();
    folders.extend(std::env::split_paths(&path));
    for parent in ["/usr/lib/postgresql", "/opt/homebrew/opt", "/usr/local/opt"] {
        let inside = std::fs::read_dir(parent).into_iter().flatten().flatten();
        folders.extend(inside.map(|entry| entry.path().join("bin")));
    }
    folders
        .into_iter()
        .map(|folder| folder.join("pgbench"))
        .find(|program| program.is_file())
}

/// The figure in `tps = 812.345 (without initial connection time)`.
fn parse_tps(said: &str) -> Option<f64> {
    let line = said.lines().find(|line| line.starts_with("tps = "))?;
    line.split_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figure_is_read_out_of_what_pgbench_says() {
        let said = "number of clients: 16\ntps = 812.345678 (without initial connection time)\n";
        assert_eq!(parse_tps(said), Some(812.345_678));
        assert_eq!(parse_tps("pgbench: error"), None);
    }
}
