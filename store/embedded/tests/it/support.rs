//! Folders that the server's user can reach, a client, and another process that owns a server.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests: a failure here is the test's"
)]

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fencepost_embedded::{ConnectionUrl, EmbeddedPostgres, StartOptions};
use sqlx::{Connection as _, PgConnection};
use tempfile::TempDir;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_embedded-postgres");

/// A folder whose content other users may reach, and the data folder in it.
pub(crate) struct Scratch {
    root: TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let root = TempDir::new().unwrap();
        std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { root }
    }

    pub(crate) fn path(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.root.path().join("pg")
    }

    pub(crate) fn options(&self) -> StartOptions {
        StartOptions::new(self.data_dir())
    }

    pub(crate) async fn start(&self) -> EmbeddedPostgres {
        EmbeddedPostgres::start(self.options()).await.unwrap()
    }
}

pub(crate) async fn connect(url: &ConnectionUrl) -> PgConnection {
    PgConnection::connect(url.expose()).await.unwrap()
}

pub(crate) async fn setting(connection: &mut PgConnection, name: &str) -> String {
    let query = sqlx::query_scalar("select current_setting($1)").bind(name.to_owned());
    query.fetch_one(connection).await.unwrap()
}

/// Leaves a mark in the database, or finds it again.
pub(crate) async fn write_mark(url: &ConnectionUrl) {
    let mut connection = connect(url).await;
    sqlx::query("create table mark (word text)")
        .execute(&mut connection)
        .await
        .unwrap();
    sqlx::query("insert into mark values ('kept')")
        .execute(&mut connection)
        .await
        .unwrap();
}

pub(crate) async fn read_mark(url: &ConnectionUrl) -> String {
    let mut connection = connect(url).await;
    sqlx::query_scalar("select word from mark")
        .fetch_one(&mut connection)
        .await
        .unwrap()
}

/// One column of `ps` for a process; empty when it is gone or a zombie.
pub(crate) fn ps(pid: u32, column: &str) -> String {
    let pid = pid.to_string();
    let output = Command::new("ps")
        .args(["-o", "stat=", "-o", column, "-p", &pid])
        .output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    let (stat, value) = text
        .trim()
        .split_once(char::is_whitespace)
        .unwrap_or(("Z", ""));
    if stat.starts_with('Z') {
        String::new()
    } else {
        value.trim().to_owned()
    }
}

pub(crate) fn is_running(pid: u32) -> bool {
    !ps(pid, "pid=").is_empty()
}

/// Whether the process ends within ten seconds.
pub(crate) fn ends_soon(pid: u32) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(10) {
        if !is_running(pid) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// Another process that owns the server of a folder, and what it printed about it.
pub(crate) struct Owner {
    pub(crate) child: Child,
    pub(crate) facts: HashMap<String, String>,
}

impl Owner {
    pub(crate) fn start(data_dir: &Path, orphan: bool) -> Self {
        let mut command = Command::new(PROGRAM);
        command.arg(data_dir).args(orphan.then_some("--orphan"));
        Self::run(command)
    }

    /// Starts `command`, an embedded-postgres, and waits for its addresses.
    pub(crate) fn run(mut command: Command) -> Self {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut facts = HashMap::new();
        while !facts.contains_key("url") {
            let line = lines
                .next()
                .expect("the owner ended before it was ready")
                .unwrap();
            let (name, value) = line.split_once('=').unwrap();
            facts.insert(name.to_owned(), value.to_owned());
        }
        Self { child, facts }
    }

    pub(crate) fn server_pid(&self) -> u32 {
        self.facts["pid"].parse().unwrap()
    }

    /// `kill -9`, and reaped.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Closes its standard input and waits for it to end well.
    pub(crate) fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

pub(crate) fn we_are_root() -> bool {
    rustix::process::geteuid().is_root()
}
