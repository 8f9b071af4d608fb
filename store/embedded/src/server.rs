//! The server process: how it is started, and that it never stays behind by accident.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::binaries::Binaries;
use crate::error::EmbeddedError;
use crate::files;
use crate::home::Home;
use crate::options::StartOptions;
use crate::watchdog::Watchdog;

/// Postgres's own default, which we never take: it is where people look for their own server.
const WELL_KNOWN_PORT: u16 = 5432;
/// A log longer than this is set aside at the next start.
const LONGEST_LOG: u64 = 4 * 1024 * 1024;
/// Fast shutdown, then immediate, then by force: each with the longest wait for its effect.
const STEPS: [(Signal, Duration); 3] = [
    (Signal::INT, Duration::from_secs(20)),
    (Signal::QUIT, Duration::from_secs(8)),
    (Signal::KILL, Duration::from_secs(2)),
];
const POLL: Duration = Duration::from_millis(10);

/// A running server. Dropping it stops it, waiting for that.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    watchdog: Option<Watchdog>,
    /// The TCP port on 127.0.0.1.
    pub(crate) port: u16,
    /// Where its log is, and where in it this run begins.
    pub(crate) log: (PathBuf, u64),
    /// It is to survive us.
    detached: bool,
}

impl Server {
    /// Starts the process on `port`, or on a free one; whether it becomes ready is for the caller to
    /// see.
    pub(crate) fn spawn(
        home: &Home,
        binaries: &Binaries,
        options: &StartOptions,
        port: Option<u16>,
    ) -> Result<Self, EmbeddedError> {
        let port = port.map_or_else(free_port, Ok)?;
        let (file, start) = open_log(home)?;
        let second = file
            .try_clone()
            .map_err(EmbeddedError::io("open", &home.log()))?;
        let postgres = binaries.program("postgres");
        let mut command = home.account.command(&postgres);
        command.arg("-D").arg(home.cluster());
        for (name, value) in settings(port, &home.socket_dir(), binaries, options) {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        command.stdout(file).stderr(second);
        let child = command
            .spawn()
            .map_err(EmbeddedError::io("run", &postgres))?;
        let log = (home.log(), start);
        let mut server = Self {
            child,
            watchdog: None,
            port,
            log,
            detached: false,
        };
        if options.stop_with_parent {
            server.watchdog = Some(Watchdog::start(&home.account, &server.child)?);
        }
        Ok(server)
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Stops it without blocking the caller's thread. If the future is dropped, `Drop` goes on.
    pub(crate) async fn stop(mut self) {
        for (signal, patience) in STEPS {
            self.signal(signal);
            let deadline = Instant::now() + patience;
            while Instant::now() < deadline {
                if self.ended().is_some() {
                    return;
                }
                tokio::time::sleep(POLL).await;
            }
        }
    }

    /// Leaves it running when this value is dropped and when this process ends.
    pub(crate) fn detach(mut self) {
        self.detached = true;
    }

    fn signal(&mut self, signal: Signal) {
        // Once it has ended, its number may be somebody else's.
        if self.ended().is_none() {
            let _ = kill_process(Pid::from_child(&self.child), signal);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.detached {
            return;
        }
        for (signal, patience) in STEPS {
            self.signal(signal);
            let deadline = Instant::now() + patience;
            while Instant::now() < deadline {
                if self.ended().is_some() {
                    return;
                }
                std::thread::sleep(POLL);
            }
        }
    }
}

/// Given on the command line, where neither postgresql.conf nor ALTER SYSTEM overrules them.
/// Nothing here trades safety for speed: what a test shows must hold in production.
fn settings(
    port: u16,
    socket_dir: &Path,
    binaries: &Binaries,
    options: &StartOptions,
) -> Vec<(&'static str, String)> {
    let mut settings = vec![
        ("listen_addresses", "127.0.0.1".to_owned()),
        ("port", port.to_string()),
        ("unix_socket_directories", socket_dir.display().to_string()),
        ("unix_socket_permissions", "0700".to_owned()),
        ("max_connections", options.max_connections.to_string()),
        ("fsync", "on".to_owned()),
        ("full_page_writes", "on".to_owned()),
        ("synchronous_commit", "on".to_owned()),
        ("shared_buffers", "128MB".to_owned()),
        ("max_wal_size", "1GB".to_owned()),
        ("random_page_cost", "1.1".to_owned()),
        ("timezone", "UTC".to_owned()),
        ("log_timezone", "UTC".to_owned()),
        ("lc_messages", "C".to_owned()),
        ("logging_collector", "off".to_owned()),
        ("log_destination", "stderr".to_owned()),
        ("log_checkpoints", "off".to_owned()),
        ("cluster_name", "fencepost".to_owned()),
    ];
    if binaries.has_stat_statements {
        settings.push(("shared_preload_libraries", "pg_stat_statements".to_owned()));
    }
    settings
}

/// A port that was free a moment ago; should somebody be faster, the start is repeated.
fn free_port() -> Result<u16, EmbeddedError> {
    let loopback = Path::new("127.0.0.1:0");
    loop {
        let listener =
            TcpListener::bind("127.0.0.1:0").map_err(EmbeddedError::io("bind", loopback))?;
        let address = listener
            .local_addr()
            .map_err(EmbeddedError::io("bind", loopback))?;
        if address.port() != WELL_KNOWN_PORT {
            return Ok(address.port());
        }
    }
}

/// Opens the log for appending and tells its length.
fn open_log(home: &Home) -> Result<(File, u64), EmbeddedError> {
    let path = home.log();
    if std::fs::metadata(&path).is_ok_and(|found| found.len() > LONGEST_LOG) {
        let aside = path.with_extension("log.old");
        std::fs::rename(&path, &aside).map_err(EmbeddedError::io("rename to", &aside))?;
    }
    let file = files::open_append(&path)?;
    files::give_to_owner_of(home.dir(), &path)?;
    let length = file
        .metadata()
        .map_err(EmbeddedError::io("look at", &path))?
        .len();
    Ok((file, length))
}
