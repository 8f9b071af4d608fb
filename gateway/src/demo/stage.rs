//! Everything that the demo needs to be up: a Postgres of its own, a gateway, an org with money,
//! two Macs. Put up as users would, taken down in the opposite order.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fencepost_embedded::{EmbeddedPostgres, StartOptions};
use serde_json::Value;
use tempfile::TempDir;

use super::child::Child;
use super::control::{Control, text};
use super::error::DemoError;
use super::mac::Mac;
use super::report::Narrator;
use super::wait::until;

/// Begins the name of the demo's folder, which `--stop` checks.
pub(super) const PREFIX: &str = "fencepost-demo-";
/// What the buyer has to spend.
const CREDIT: &str = "100";
/// How long a program may take to end when asked.
const PATIENCE: Duration = Duration::from_secs(12);

/// The machinery. Dropping it stops and removes all of it, which [`strike`](Self::strike) does in
/// good order.
#[derive(Debug)]
pub(super) struct Stage {
    // The order of the fields is the order in which a drop takes them down.
    pub(super) macs: Vec<Mac>,
    gateway: Option<Child>,
    postgres: Option<EmbeddedPostgres>,
    pub(super) control: Control,
    folder: TempDir,
    pub(super) url: String,
    pub(super) admin_url: String,
    pub(super) api_key: String,
}

impl Stage {
    /// Makes the folder and starts Postgres. Not to be cancelled: a server that is just being made
    /// would leave files behind.
    pub(super) async fn with_postgres(keep: bool) -> Result<Self, DemoError> {
        use std::os::unix::fs::PermissionsExt as _;
        // Others may pass through, for Postgres runs as another user when we are root; everything
        // in it is private by itself.
        let folder = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(std::fs::Permissions::from_mode(0o711))
            .tempdir()?;
        let control = Control::prepare(&folder.path().canonicalize()?)?;
        let options = StartOptions {
            temporary: true,
            stop_with_parent: !keep,
            ..StartOptions::new(postgres_dir(control.root()))
        };
        let postgres = EmbeddedPostgres::start(options).await?;
        control.configure(postgres.url().expose())?;
        Ok(Self {
            macs: Vec::new(),
            gateway: None,
            postgres: Some(postgres),
            control,
            folder,
            url: String::new(),
            admin_url: String::new(),
            api_key: String::new(),
        })
    }

    /// Starts the rest: schema, gateway, accounts, Macs.
    pub(super) async fn set(&mut self, agent: &Path, say: Narrator) -> Result<(), DemoError> {
        if let Some(postgres) = &self.postgres {
            let port = postgres.port();
            say.step(&format!(
                "Postgres of its own on port {port}, empty, gone afterwards"
            ));
        }
        self.control.run(&["migrate"]).await?;
        self.start_gateway().await?;
        say.step(&format!(
            "a gateway at {} (leases of 9 s, not 60, by configuration)",
            self.url
        ));
        let org = self.control.run(&["org", "create", "Demo buyer"]).await?;
        let org = text(&org, "org_id")?;
        self.control
            .run(&["credit", "add", "--org", &org, CREDIT])
            .await?;
        let key = self
            .control
            .run(&["key", "create", "--test", "--org", &org])
            .await?;
        self.api_key = text(&key, "key")?;
        say.step(&format!(
            "a buyer with an API key and {CREDIT} units of credit"
        ));
        let provider = self
            .control
            .run(&["provider", "create", "Demo provider"])
            .await?;
        let provider = text(&provider, "provider_id")?;
        for name in ["Mac A", "Mac B"] {
            self.add_mac(name, agent, &provider).await?;
        }
        for mac in &mut self.macs {
            mac.connected().await?;
        }
        say.step("two agents, paired with one-use codes and connected: Mac A and Mac B");
        Ok(())
    }

    async fn start_gateway(&mut self) -> Result<(), DemoError> {
        let mut command = self.control.command();
        command.arg("serve");
        let mut gateway = Child::start("the gateway", command, self.control.log("gateway"))?;
        // Port 0 lets the system choose; the log says what it chose.
        let up = async || {
            gateway.id()?;
            Ok(addresses(&gateway.log()))
        };
        let found = until("the gateway is up", Duration::from_secs(30), up).await;
        self.gateway = Some(gateway);
        (self.url, self.admin_url) = found?;
        Ok(())
    }

    async fn add_mac(
        &mut self,
        name: &'static str,
        agent: &Path,
        provider: &str,
    ) -> Result<(), DemoError> {
        let enroll = ["device", "enroll", "--provider", provider];
        let code = text(&self.control.run(&enroll).await?, "code")?;
        let mut mac = Mac::pair(name, agent, &self.control, &self.url, &code).await?;
        mac.start()?;
        self.macs.push(mac);
        Ok(())
    }

    /// The end of every log, for whoever wants to know why something went wrong.
    pub(super) fn last_words(&self) -> Vec<(String, String)> {
        let gateway = self
            .gateway
            .iter()
            .map(|child| (child.name().to_owned(), child.log()));
        let macs = self
            .macs
            .iter()
            .map(|mac| (mac.name().to_owned(), mac.log()));
        gateway.chain(macs).collect()
    }

    /// Takes everything down and removes it. `in_order` asks each to end; otherwise all end at
    /// once, wherever they are.
    pub(super) async fn strike(mut self, in_order: bool) -> Result<(), DemoError> {
        let mut stubborn = Vec::new();
        for mut mac in self.macs.drain(..) {
            if in_order && !mac.stop(PATIENCE).await {
                stubborn.push(mac.name());
            }
        }
        if let Some(gateway) = self.gateway.take().filter(|_| in_order)
            && !gateway.stop(PATIENCE).await
        {
            stubborn.push("the gateway");
        }
        if let Some(postgres) = self.postgres.take() {
            postgres.stop().await?;
        }
        self.folder.close()?;
        if stubborn.is_empty() {
            Ok(())
        } else {
            let who = stubborn.join(", ");
            Err(DemoError::untrue(format!(
                "{who} did not stop in order when asked to"
            )))
        }
    }

    /// Leaves everything running and returns the folder that it lives in.
    pub(super) fn leave(mut self) -> PathBuf {
        for mac in &mut self.macs {
            mac.leave();
        }
        if let Some(gateway) = self.gateway.take() {
            gateway.leave();
        }
        if let Some(postgres) = self.postgres.take() {
            postgres.detach();
        }
        let root = self.control.root().to_owned();
        self.folder.disable_cleanup(true);
        root
    }
}

/// Where the demo in `root` keeps its Postgres.
pub(super) fn postgres_dir(root: &Path) -> PathBuf {
    root.join("postgres")
}

/// The two addresses that a gateway's log names once it listens.
fn addresses(log: &str) -> Option<(String, String)> {
    let lines = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let up = lines
        .into_iter()
        .find(|line| line["message"] == "the gateway is up")?;
    let address = |field: &str| Some(format!("http://{}", up[field].as_str()?));
    Some((address("http")?, address("admin")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_are_read_from_the_log_once_they_are_there() {
        let up = r#"{"message":"the gateway is up","http":"127.0.0.1:5","admin":"127.0.0.1:6"}"#;
        let log = format!("not JSON\n{{\"message\":\"x\"}}\n{up}\n");
        let expected = (
            "http://127.0.0.1:5".to_owned(),
            "http://127.0.0.1:6".to_owned(),
        );
        assert_eq!(addresses(&log), Some(expected));
        assert_eq!(addresses("not JSON\n"), None);
    }
}
