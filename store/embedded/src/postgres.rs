//! The whole of it: the steps of a start in their order, and the handle to the running server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::binaries::{self, Binaries};
use crate::cluster::{self, DATABASE, ROLE};
use crate::error::EmbeddedError;
use crate::home::{self, Home};
use crate::lock::Lock;
use crate::options::StartOptions;
use crate::secret::{ConnectionUrl, Password};
use crate::server::Server;
use crate::{files, orphan, ready};

/// Starts that fail at once are repeated: the port was taken meanwhile, or the last sessions of a
/// crashed server are still leaving.
const MOST_TRIES: u32 = 3;
/// How often a server that is kept running is looked after.
const LOOK: Duration = Duration::from_millis(250);

/// A running Postgres of our own. [`stop`](Self::stop) it; dropping it stops it too, but blocks
/// the thread meanwhile.
#[derive(Debug)]
pub struct EmbeddedPostgres {
    // The order matters: the server ends before its files and its lock go.
    server: Option<Server>,
    socket_dir: PathBuf,
    password: Password,
    home: Home,
    binaries: Binaries,
    options: StartOptions,
    temporary: bool,
    _lock: Lock,
}

impl EmbeddedPostgres {
    /// Starts the server of `options.data_dir`, making it the first time, and waits until it lets
    /// clients in. A server that an earlier process left behind in that folder is stopped first.
    ///
    /// # Errors
    /// [`EmbeddedError::InUse`] if another process holds the folder, [`EmbeddedError::NoServer`]
    /// with the command that installs one, [`EmbeddedError::NotReady`] with the end of its log.
    pub async fn start(options: StartOptions) -> Result<Self, EmbeddedError> {
        let data_dir = home::prepare_data_dir(&options.data_dir)?;
        let lock = Lock::acquire(&data_dir)?;
        let home = Home::find(&data_dir, options.temporary)?;
        orphan::stop(&home.cluster()).await?;
        let made_by = cluster::major_version(&home.cluster())?;
        let binaries = find_binaries(&home, made_by, options.bin_dir.as_deref()).await?;
        let password = cluster::load_password(&home)?;
        if made_by.is_none() {
            cluster::create(&home, &binaries, &password).await?;
        }
        let socket_dir = home.socket_dir();
        files::make_private_dir(&socket_dir, &home.account)?;
        let server = launch(&home, &binaries, &options, None).await?;
        tracing::info!(
            port = server.port, pid = server.id(), major = binaries.major,
            home = %home.dir().display(), "Postgres is ready"
        );
        Ok(Self {
            server: Some(server),
            socket_dir,
            password,
            home,
            binaries,
            temporary: options.temporary,
            options,
            _lock: lock,
        })
    }

    /// The URL of the database `fencepost`, which the first start made.
    pub fn url(&self) -> ConnectionUrl {
        self.url_for(DATABASE)
    }

    /// The URL of the database `postgres`, from which others are created and dropped.
    pub fn admin_url(&self) -> ConnectionUrl {
        self.url_for("postgres")
    }

    /// The URL of any database of this server; the role owns the server.
    pub fn url_for(&self, database: &str) -> ConnectionUrl {
        ConnectionUrl::new(ROLE, &self.password, self.port(), database)
    }

    /// The TCP port on 127.0.0.1. It differs from start to start.
    pub fn port(&self) -> u16 {
        self.running().port
    }

    /// The process id of the server.
    pub fn pid(&self) -> u32 {
        self.running().id()
    }

    /// The folder of the Unix socket, private to the user that runs the server.
    pub fn socket_dir(&self) -> &Path {
        &self.socket_dir
    }

    /// The server's log, for a person to read.
    pub fn log_file(&self) -> PathBuf {
        self.home.log()
    }

    /// The folder that really holds the data, if not the one that was asked for.
    pub fn home(&self) -> &Path {
        self.home.dir()
    }

    /// Whether `create extension pg_stat_statements` will work.
    pub fn has_stat_statements(&self) -> bool {
        self.binaries.has_stat_statements
    }

    /// Starts the server again, on the same port, whenever it ends without having been told to.
    /// Returns only when a start fails; cancelling it is safe.
    pub async fn keep_running(&mut self) -> EmbeddedError {
        loop {
            while self
                .server
                .as_mut()
                .is_some_and(|server| server.ended().is_none())
            {
                tokio::time::sleep(LOOK).await;
            }
            let port = self.port();
            tracing::warn!(port, "Postgres has ended by itself and is started again");
            match launch(&self.home, &self.binaries, &self.options, Some(port)).await {
                Ok(server) => self.server = Some(server),
                Err(error) => return error,
            }
            tracing::info!(port, pid = self.pid(), "Postgres is ready again");
        }
    }

    /// Stops the server: fast shutdown, after 20 s immediate, then by force. A temporary one's
    /// files are deleted.
    ///
    /// # Errors
    /// Only if the files of a temporary server cannot be deleted; the server is stopped.
    pub async fn stop(mut self) -> Result<(), EmbeddedError> {
        if let Some(server) = self.server.take() {
            server.stop().await;
        }
        self.remove_if_temporary()
    }

    /// Leaves the server running after this process; the next start on the folder stops it.
    pub fn detach(mut self) {
        self.temporary = false;
        if let Some(server) = self.server.take() {
            server.detach();
        }
    }

    fn running(&self) -> &Server {
        self.server
            .as_ref()
            .expect("only `stop`, `detach` and `drop`, which consume self, take it")
    }

    fn remove_if_temporary(&mut self) -> Result<(), EmbeddedError> {
        if std::mem::take(&mut self.temporary) {
            self.home.remove()
        } else {
            Ok(())
        }
    }
}

impl Drop for EmbeddedPostgres {
    fn drop(&mut self) {
        drop(self.server.take());
        if let Err(error) = self.remove_if_temporary() {
            tracing::warn!(%error, "the files of a temporary Postgres stay behind");
        }
    }
}

/// Starts the process and waits until it serves, a few times if it ends at once.
async fn launch(
    home: &Home,
    binaries: &Binaries,
    options: &StartOptions,
    port: Option<u16>,
) -> Result<Server, EmbeddedError> {
    let socket_dir = home.socket_dir();
    let mut tries = 0;
    loop {
        tries += 1;
        let mut server = Server::spawn(home, binaries, options, port)?;
        match ready::wait(&mut server, &socket_dir).await {
            Ok(()) => return Ok(server),
            Err(error) if tries >= MOST_TRIES || server.ended().is_none() => return Err(error),
            Err(error) => tracing::warn!(%error, "Postgres ended at its start: once more"),
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// An installed server, else a downloaded one: of the version that made the cluster, if any.
async fn find_binaries(
    home: &Home,
    made_by: Option<u16>,
    bin_dir: Option<&Path>,
) -> Result<Binaries, EmbeddedError> {
    let wanted = made_by.map_or_else(
        || format!("{} or newer", binaries::OLDEST_MAJOR),
        |major| format!("{major} (which made {})", home.cluster().display()),
    );
    let dirs = match bin_dir {
        Some(dir) => [dir.to_owned()].into(),
        None => binaries::candidates(&home.account).await,
    };
    let rejected = match binaries::find_installed(dirs, made_by, &home.account).await {
        Ok(found) => return Ok(found),
        Err(rejected) => rejected,
    };
    let download = match bin_dir {
        Some(_) => Vec::new(),
        None => match download(home, made_by).await {
            Ok(found) => return Ok(found),
            Err(reason) => vec![reason],
        },
    };
    Err(EmbeddedError::NoServer {
        wanted,
        rejected,
        download,
    })
}

#[cfg(feature = "download")]
async fn download(home: &Home, made_by: Option<u16>) -> Result<Binaries, String> {
    crate::download::fetch(home.dir(), made_by, &home.account).await
}

#[cfg(not(feature = "download"))]
#[expect(
    clippy::unused_async,
    reason = "the same shape as the one that downloads"
)]
async fn download(_home: &Home, _made_by: Option<u16>) -> Result<Binaries, String> {
    Err("not part of this build".to_owned())
}
