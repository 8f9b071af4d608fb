//! Gateways as processes of their own, each with a generated configuration.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::process::{Child, Command};

use crate::cli::Cli;
use crate::database::Database;
use crate::error::LoadError;

const UP_WITHIN: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(50);
const LOG_TAIL: usize = 2_000;

/// One gateway; its process ends with this value.
pub(crate) struct Gateway {
    child: Child,
    log: PathBuf,
    /// Where buyers and agents connect.
    pub(crate) http: SocketAddr,
    /// Where metrics are.
    pub(crate) admin: SocketAddr,
}

/// Starts `count` gateways on one database and one folder of artifacts.
pub(crate) async fn start(
    cli: &Cli,
    database: &Database,
    count: u32,
) -> Result<Vec<Gateway>, LoadError> {
    let binary = binary(cli)?;
    let key = fencepost_store::secrets::Credential::mint("");
    let mut gateways = Vec::new();
    for number in 0..count {
        gateways.push(Gateway::spawn(
            cli,
            database,
            &binary,
            (number, key.expose()),
        )?);
    }
    for gateway in &mut gateways {
        gateway.wait_until_up().await?;
    }
    Ok(gateways)
}

fn binary(cli: &Cli) -> Result<PathBuf, LoadError> {
    let binary = match &cli.gateway_binary {
        Some(binary) => binary.clone(),
        None => std::env::current_exe()?.with_file_name("fencepost"),
    };
    if binary.is_file() {
        Ok(binary)
    } else {
        Err(LoadError::NoGateway(binary))
    }
}

impl Gateway {
    fn spawn(
        cli: &Cli,
        database: &Database,
        binary: &Path,
        (number, key): (u32, &str),
    ) -> Result<Self, LoadError> {
        let (http, admin) = free_addresses()?;
        let folder = database.folder();
        let config = folder.join(format!("gateway-{number}.toml"));
        let text = format!(
            "[http]\nbind = \"{http}\"\nrequests_per_second = 1000000\nrequest_burst = 1000000\n[admin]\nbind = \"{admin}\"\n\
             [artifacts]\ndir = \"{artifacts}\"\n\
             [prices.\"noop.v1\"]\nbase_micros = 10000\nper_minute_micros = 20000\n",
            artifacts = folder.join("artifacts").display(),
        );
        std::fs::write(&config, text)?;
        let log = folder.join(format!("gateway-{number}.log"));
        let mut command = Command::new(binary);
        command.arg("serve").arg("--config").arg(&config);
        for set in &cli.set {
            command.arg("--set").arg(set);
        }
        let child = command
            .env("FENCEPOST_DATABASE__URL", database.url().as_str())
            .env("FENCEPOST_ARTIFACTS__SIGNING_KEY", key)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .kill_on_drop(true)
            .spawn()?;
        Ok(Self {
            child,
            log,
            http,
            admin,
        })
    }

    /// Its process; 0 once it has ended.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id().unwrap_or(0)
    }

    async fn wait_until_up(&mut self) -> Result<(), LoadError> {
        let deadline = Instant::now() + UP_WITHIN;
        while tokio::net::TcpStream::connect(self.admin).await.is_err() {
            self.check()?;
            if Instant::now() > deadline {
                return Err(self.failed("did not come up"));
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// An error if the process has ended.
    pub(crate) fn check(&mut self) -> Result<(), LoadError> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(self.failed(&format!("ended ({status})"))),
        }
    }

    fn failed(&self, what: &str) -> LoadError {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let from = log.len().saturating_sub(LOG_TAIL);
        let from = (from..log.len()).find(|at| log.is_char_boundary(*at));
        LoadError::Gateway {
            what: what.to_owned(),
            log: log[from.unwrap_or(log.len())..].to_owned(),
        }
    }
}

/// Two ports that were free a moment ago.
fn free_addresses() -> Result<(SocketAddr, SocketAddr), LoadError> {
    let any = (Ipv4Addr::LOCALHOST, 0);
    let (first, second) = (TcpListener::bind(any)?, TcpListener::bind(any)?);
    Ok((first.local_addr()?, second.local_addr()?))
}
