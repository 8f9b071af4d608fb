//! Finds an installed server: the newest that serves, wherever this platform keeps it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::account::Account;
use crate::program::run;

/// The oldest server that Fencepost supports.
pub(crate) const OLDEST_MAJOR: u16 = 15;

/// Folders that hold one folder per version: parent, prefix of the name, rest of the path.
const VERSIONED: [(&str, &str, &str); 9] = [
    ("/usr/lib/postgresql", "", "bin"),
    ("/usr", "pgsql-", "bin"),
    ("/opt/homebrew/opt", "postgresql", "bin"),
    ("/usr/local/opt", "postgresql", "bin"),
    ("/home/linuxbrew/.linuxbrew/opt", "postgresql", "bin"),
    ("/Applications/Postgres.app/Contents/Versions", "", "bin"),
    ("/Library/PostgreSQL", "", "bin"),
    ("/opt/local/lib", "postgresql", "bin"),
    ("/usr/local", "pgsql", "bin"),
];

/// A folder with `postgres` and `initdb` of one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Binaries {
    dir: PathBuf,
    /// The major version, such as 17.
    pub(crate) major: u16,
    /// Whether the module pg_stat_statements is there to be preloaded.
    pub(crate) has_stat_statements: bool,
}

impl Binaries {
    /// The path of one of its programs.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Looks at one folder; the error is a reason for a person.
    pub(crate) async fn inspect(dir: &Path, account: &Account) -> Result<Self, String> {
        let postgres = dir.join("postgres");
        let mut command = account.command(&postgres);
        command.arg("--version");
        // The server's user must be able to run it, so that user is the one who asks.
        let printed = run(&postgres, command, "")
            .await
            .map_err(|error| error.to_string())?;
        let major = parse_major(&printed).ok_or_else(|| format!("{} is odd", dir.display()))?;
        let has_stat_statements = has_stat_statements(dir, account).await;
        Ok(Self {
            dir: dir.to_owned(),
            major,
            has_stat_statements,
        })
    }
}

/// The outcome of a search: what serves best, or why nothing does.
pub(crate) async fn find_installed(
    dirs: BTreeSet<PathBuf>,
    wanted: Option<u16>,
    account: &Account,
) -> Result<Binaries, Vec<String>> {
    let mut best: Option<Binaries> = None;
    let mut rejected = Vec::new();
    for dir in dirs {
        match Binaries::inspect(&dir, account).await {
            Ok(found) if wanted.map_or(found.major >= OLDEST_MAJOR, |w| found.major == w) => {
                if best.as_ref().is_none_or(|best| best.major < found.major) {
                    best = Some(found);
                }
            }
            Ok(found) => rejected.push(format!("{} is {}", dir.display(), found.major)),
            Err(reason) => rejected.push(reason),
        }
    }
    best.ok_or(rejected)
}

/// Every folder on this machine that may hold a server, resolved and once each.
pub(crate) async fn candidates(account: &Account) -> BTreeSet<PathBuf> {
    let mut dirs: Vec<PathBuf> = Vec::new();
    if let Some(path) = std::env::var_os("PATH") {
        dirs.extend(std::env::split_paths(&path));
    }
    for (parent, prefix, rest) in VERSIONED {
        let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
        let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
        dirs.extend(named.map(|entry| entry.path().join(rest)));
    }
    let pg_config = Path::new("pg_config");
    let mut command = account.command(pg_config);
    command.arg("--bindir");
    if let Ok(dir) = run(pg_config, command, "").await {
        dirs.push(PathBuf::from(dir.trim()));
    }
    dirs.iter().filter_map(|dir| server_dir(dir)).collect()
}

/// Where the programs behind `dir/postgres` really are; `None` if they are not both there. A link
/// in a PATH folder leads to its target, whose neighbours and libraries the server needs.
fn server_dir(dir: &Path) -> Option<PathBuf> {
    let target = dir.join("postgres").canonicalize().ok()?;
    let behind = target.parent()?.to_owned();
    let here = dir.canonicalize().ok()?;
    [behind, here].into_iter().find(|dir| {
        ["postgres", "initdb"]
            .iter()
            .all(|program| dir.join(program).is_file())
    })
}

/// The major version in a line like `postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)`.
fn parse_major(printed: &str) -> Option<u16> {
    let version = printed.split("(PostgreSQL) ").nth(1)?;
    let digits = version.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

async fn has_stat_statements(dir: &Path, account: &Account) -> bool {
    let mut libraries = vec![dir.join("../lib"), dir.join("../lib/postgresql")];
    let pg_config = dir.join("pg_config");
    let mut command = account.command(&pg_config);
    command.arg("--pkglibdir");
    if let Ok(printed) = run(&pg_config, command, "").await {
        libraries.push(PathBuf::from(printed.trim()));
    }
    let names = ["pg_stat_statements.so", "pg_stat_statements.dylib"];
    libraries
        .iter()
        .any(|library| names.iter().any(|name| library.join(name).is_file()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_is_read_from_what_real_servers_print() {
        let debian = "postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)\n";
        assert_eq!(parse_major(debian), Some(15));
        assert_eq!(
            parse_major("postgres (PostgreSQL) 17.5 (Homebrew)\n"),
            Some(17)
        );
        assert_eq!(parse_major("postgres (PostgreSQL) 18beta1\n"), Some(18));
        assert_eq!(parse_major("postgres (PostgreSQL) 9.6.24\n"), Some(9));
        assert_eq!(parse_major("hello\n"), None);
    }

    /// A folder with an `initdb` and a `postgres` that prints `version`.
    fn fake_server(root: &Path, name: &str, version: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = root.join(name);
        std::fs::create_dir(&dir).unwrap();
        for program in ["postgres", "initdb"] {
            let path = dir.join(program);
            let script = format!("#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n");
            std::fs::write(&path, script).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        std::fs::set_permissions(root, std::fs::Permissions::from_mode(0o755)).unwrap();
        dir
    }

    #[tokio::test]
    async fn the_newest_server_wins_unless_the_data_needs_an_older_one() {
        let root = tempfile::tempdir().unwrap();
        let account = Account::choose().unwrap();
        let dirs: BTreeSet<PathBuf> =
            [("a", "16.1"), ("b", "18.0"), ("c", "9.6.24"), ("d", "17.5")]
                .map(|(name, version)| fake_server(root.path(), name, version))
                .into();
        let newest = find_installed(dirs.clone(), None, &account).await.unwrap();
        assert_eq!(newest.major, 18);
        let wanted = find_installed(dirs.clone(), Some(16), &account)
            .await
            .unwrap();
        assert_eq!(wanted.dir, root.path().join("a"));
        let old: BTreeSet<PathBuf> = [root.path().join("c")].into();
        let rejected = find_installed(old, None, &account).await.unwrap_err();
        assert!(rejected[0].ends_with("/c is 9"), "{rejected:?}");
    }

    #[test]
    fn a_link_in_a_path_folder_leads_to_the_folder_behind_it() {
        let root = tempfile::tempdir().unwrap();
        let real = fake_server(root.path(), "real", "17.0")
            .canonicalize()
            .unwrap();
        let links = root.path().join("links");
        std::fs::create_dir(&links).unwrap();
        std::os::unix::fs::symlink(real.join("postgres"), links.join("postgres")).unwrap();
        assert_eq!(server_dir(&links), Some(real.clone()));
        std::fs::remove_file(real.join("initdb")).unwrap();
        assert_eq!(
            server_dir(&links),
            None,
            "a server without initdb cannot make a cluster"
        );
    }

    #[tokio::test]
    async fn this_machine_has_a_server_that_serves() {
        let account = Account::choose().unwrap();
        let found = find_installed(candidates(&account).await, None, &account)
            .await
            .unwrap();
        assert!(found.major >= OLDEST_MAJOR);
    }
}
