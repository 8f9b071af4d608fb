//! The operator's side of the demo: its folder, the gateway's configuration, and `fencepost`
//! commands as an operator would type them.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use fencepost_store::secrets::Credential;
use serde_json::Value;
use tokio::process::Command;

use super::child;
use super::error::DemoError;

/// Leases as short as the rules between the keys allow, so that nobody waits a minute to see one
/// lapse. All of it is plain configuration.
const CONFIG: &str = r#"# Written by `fencepost demo`.
[http]
bind = "127.0.0.1:0"
[admin]
bind = "127.0.0.1:0"
[database]
url_file = "{control}/database.url"
[artifacts]
dir = "{root}/artifacts"
signing_key_file = "{control}/signing.key"
[telemetry]
format = "json"
[leases]
ttl = "9s"
accept = "5s"
renew = "1s"
answer = "2s"
reconnect_max = "500ms"
heartbeat = "1s"
session_dead = "4s"
sweep = "250ms"
verification_takeover = "20s"
"#;

/// The folder of one demo and what is kept where in it.
#[derive(Debug, Clone)]
pub(super) struct Control {
    root: PathBuf,
    program: PathBuf,
}

impl Control {
    /// Lays out `root`, which exists and is empty.
    pub(super) fn prepare(root: &Path) -> Result<Self, DemoError> {
        let control = Self {
            root: root.to_owned(),
            program: std::env::current_exe()?,
        };
        for folder in [control.private(), control.temporary()] {
            fs::DirBuilder::new().mode(0o700).create(folder)?;
        }
        Ok(control)
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Where children put their temporary files.
    pub(super) fn temporary(&self) -> PathBuf {
        self.root.join("tmp")
    }

    /// Where the gateway keeps inputs and outputs.
    pub(super) fn artifacts(&self) -> PathBuf {
        self.root.join("artifacts")
    }

    pub(super) fn config(&self) -> PathBuf {
        self.private().join("fencepost.toml")
    }

    pub(super) fn log(&self, of: &str) -> PathBuf {
        self.private().join(format!("{of}.log"))
    }

    fn private(&self) -> PathBuf {
        self.root.join("control")
    }

    /// Writes the configuration and its secrets, for their owner alone.
    pub(super) fn configure(&self, database_url: &str) -> Result<(), DemoError> {
        let private = self.private();
        let text = CONFIG
            .replace("{control}", &private.to_string_lossy())
            .replace("{root}", &self.root.to_string_lossy());
        write_private(&self.config(), &text)?;
        write_private(&private.join("database.url"), database_url)?;
        write_private(&private.join("signing.key"), Credential::mint("").expose())
    }

    /// `fencepost <words>` with the demo's configuration.
    pub(super) fn command(&self) -> Command {
        let mut command = child::command(&self.program, &self.temporary());
        // Nobody's fencepost.toml in the current folder is meant.
        command
            .current_dir(&self.root)
            .arg("--config")
            .arg(self.config());
        command
    }

    /// Runs one command to its end and reads its JSON answer.
    pub(super) async fn run(&self, words: &[&str]) -> Result<Value, DemoError> {
        let mut command = self.command();
        command.arg("--json").args(words);
        answer(command, &format!("fencepost {}", words.join(" ")), None).await
    }
}

/// Runs a command to its end, with `input` on its stdin, and reads its JSON answer.
pub(super) async fn answer(
    mut command: Command,
    what: &str,
    input: Option<&str>,
) -> Result<Value, DemoError> {
    use tokio::io::AsyncWriteExt as _;
    let stuck = |why: String| DemoError::stuck(format!("`{what}` failed: {}", why.trim()));
    let mut running = command
        .stdin(if input.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| stuck(error.to_string()))?;
    if let (Some(text), Some(mut stdin)) = (input, running.stdin.take()) {
        stdin.write_all(text.as_bytes()).await?;
    }
    let output = running.wait_with_output().await?;
    if !output.status.success() {
        return Err(stuck(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| stuck(error.to_string()))
}

/// A text field of an answer.
pub(super) fn text(answer: &Value, field: &str) -> Result<String, DemoError> {
    let found = answer.get(field).and_then(Value::as_str);
    found
        .map(str::to_owned)
        .ok_or_else(|| DemoError::stuck(format!("an answer has no {field}")))
}

fn write_private(file: &Path, text: &str) -> Result<(), DemoError> {
    use std::io::Write as _;
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)?;
    Ok(file.write_all(text.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Origins, load};

    #[test]
    fn the_demos_configuration_is_one_that_the_gateway_takes() {
        let folder = tempfile::tempdir().unwrap();
        let control = Control::prepare(folder.path()).unwrap();
        control.configure("postgres://u@h/d").unwrap();
        let origins = Origins {
            file: Some(control.config()),
            ..Origins::default()
        };
        let config = load(&origins).unwrap();
        assert_eq!(config.database.url().unwrap().expose(), "postgres://u@h/d");
        assert!(config.artifacts.signing_key().is_ok());
    }
}
