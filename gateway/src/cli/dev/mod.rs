//! `fencepost dev`: everything on this machine, with nothing to set up.
//!
//! The folder that it keeps is the whole installation: the database, the artifacts, the key that
//! signs links, and who was set up. Deleting it starts afresh.

mod account;

use std::path::{Path, PathBuf};

use clap::Args;
use fencepost_embedded::{EmbeddedPostgres, StartOptions};
use serde_json::json;

use super::serve::run_until_stopped;
use super::{CliError, Global, Report};
use crate::app::Gateway;
use crate::config::{Config, Secret};
use crate::telemetry;
use account::Account;

/// Where `dev` keeps everything.
#[derive(Debug, Args)]
pub(super) struct DevArgs {
    /// The folder for the database, the artifacts and the keys.
    #[arg(long, default_value = ".fencepost", value_name = "DIR")]
    state_dir: PathBuf,
}

pub(super) async fn dev(global: &Global, args: &DevArgs) -> Result<(), CliError> {
    let mut config = global.load()?;
    telemetry::init_logs(&config.telemetry)?;
    let folder = private_folder(&args.state_dir)?;
    let mut postgres = EmbeddedPostgres::start(StartOptions::new(folder.join("postgres"))).await?;
    let outcome = run(global, &mut config, &folder, &mut postgres).await;
    postgres.stop().await?;
    outcome
}

async fn run(
    global: &Global,
    config: &mut Config,
    folder: &Path,
    postgres: &mut EmbeddedPostgres,
) -> Result<(), CliError> {
    let gateway = start(global, config, folder, postgres).await?;
    tokio::select! {
        ended = run_until_stopped(gateway) => ended,
        gone = postgres.keep_running() => Err(gone.into()),
    }
}

async fn start(
    global: &Global,
    config: &mut Config,
    folder: &Path,
    postgres: &EmbeddedPostgres,
) -> Result<Gateway, CliError> {
    config.database.url = Some(Secret::new(postgres.url().expose()));
    config.database.url_file = None;
    config.artifacts.dir = folder.join("artifacts");
    config.artifacts.signing_key = Some(signing_key(folder)?);
    config.artifacts.signing_key_file = None;
    let store = crate::app::open_store(config)?;
    store.migrate().await?;
    let account = Account::load_or_create(&store, &folder.join("account.json")).await?;
    let code = account.enrollment_code(&store).await?;
    store.close().await;
    let operator = write_operator_config(folder, postgres)?;
    let gateway = Gateway::start(config.clone()).await?;
    global.show(&welcome(&gateway, &account, &code, &operator))?;
    Ok(gateway)
}

fn welcome(gateway: &Gateway, account: &Account, code: &str, operator: &Path) -> Report {
    let url = format!("http://{}", gateway.http_address());
    let admin = format!("http://{}", gateway.admin_address());
    let text = format!(
        "Fencepost runs at {url}  (metrics and health: {admin})\n\
         \n\
         A buyer's API key:     {key}\n\
         A Mac's pairing code:  {code}  (works once, within 15 minutes)\n\
         \n\
         Pair a Mac and let it work:\n\
         \x20 echo {code} | fencepost-agent pair --gateway {url} --state-dir ~/.fencepost --code-file -\n\
         \x20 fencepost-agent run --state-dir ~/.fencepost\n\
         \n\
         Submit a first job from another terminal, with any video of yours:\n\
         \x20 export FENCEPOST_API={url} FENCEPOST_KEY={key}\n\
         \x20 fencepost job submit --service transcode.v1 --param codec=h264 --param height=480 --input source=film.mp4 --output small.mp4\n\
         \x20 fencepost job list\n\
         \n\
         Webhooks to a receiver on this machine, and inputs from it, are refused unless its network is allowed:\n\
         \x20 fencepost dev --set 'egress.allow_cidrs=[\"127.0.0.0/8\"]'\n\
         \n\
         Operate it from another terminal, for instance:\n\
         \x20 fencepost --config {operator} device list\n\
         \n\
         Ctrl-C stops it; everything stays in the state folder.",
        key = account.api_key,
        operator = operator.display(),
    );
    let json = json!({
        "url": url,
        "admin_url": admin,
        "org_id": account.org_id,
        "provider_id": account.provider_id,
        "api_key": account.api_key,
        "pairing_code": code,
        "operator_config": operator,
    });
    Report::new(text, json)
}

/// What operators' commands need to find this installation: a configuration that names the database,
/// which listens on another port after each start.
fn write_operator_config(folder: &Path, postgres: &EmbeddedPostgres) -> Result<PathBuf, CliError> {
    let url_file = folder.join("database.url");
    write_private(&url_file, postgres.url().expose())?;
    let file = folder.join("operator.toml");
    let key = toml::Value::from(url_file.display().to_string());
    write_private(&file, &format!("[database]\nurl_file = {key}\n"))?;
    Ok(file)
}

/// The key that signs links, made the first time.
fn signing_key(folder: &Path) -> Result<Secret, CliError> {
    let file = folder.join("signing.key");
    if !file.exists() {
        let key = fencepost_store::secrets::Credential::mint("");
        write_private(&file, key.expose())?;
    }
    Ok(Secret::from_file("artifacts.signing_key_file", &file)?)
}

fn private_folder(folder: &Path) -> Result<PathBuf, CliError> {
    use std::os::unix::fs::DirBuilderExt as _;
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(folder);
    let folder = made.and_then(|()| folder.canonicalize());
    Ok(folder?)
}

/// Writes a file that only its owner can read, all at once.
fn write_private(file: &Path, text: &str) -> Result<(), CliError> {
    use std::io::Write as _;
    let folder = file.parent().unwrap_or(Path::new("."));
    // Temporary files are made readable for their owner alone.
    let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
    temporary.write_all(text.as_bytes())?;
    temporary.as_file().sync_all()?;
    temporary.persist(file).map_err(|error| error.error)?;
    Ok(())
}
