//! The cluster's first day: initdb, the password and the first database, all or nothing.

use std::fs;
use std::io;
use std::path::Path;

use crate::binaries::Binaries;
use crate::error::EmbeddedError;
use crate::files;
use crate::home::Home;
use crate::program::run;
use crate::secret::Password;

/// The one role, a superuser of this private server.
pub(crate) const ROLE: &str = "fencepost";
/// The database that the first start makes.
pub(crate) const DATABASE: &str = "fencepost";

/// The major version that made `cluster`; `None` if there is none yet.
pub(crate) fn major_version(cluster: &Path) -> Result<Option<u16>, EmbeddedError> {
    let path = cluster.join("PG_VERSION");
    if !cluster.exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(&path).map_err(EmbeddedError::io("read", &path))?;
    let major = text.trim().parse();
    major
        .map(Some)
        .map_err(|_| EmbeddedError::folder(cluster, "has no readable PG_VERSION"))
}

/// Reads the stored password; makes and stores one if there is no cluster that it would lock out.
pub(crate) fn load_password(home: &Home) -> Result<Password, EmbeddedError> {
    let path = home.password();
    match fs::read_to_string(&path) {
        Ok(text) => Password::parse(&text)
            .ok_or_else(|| EmbeddedError::folder(&path, "is not a password that we stored")),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !home.cluster().exists() => {
            let password = Password::generate();
            files::write_private(&path, &format!("{}\n", password.expose()))?;
            files::give_to_owner_of(home.dir(), &path)?;
            files::sync_dir(home.dir())?;
            Ok(password)
        }
        Err(error) => Err(EmbeddedError::io("read", &path)(error)),
    }
}

/// Makes the cluster beside its final place and renames it when it is complete, so that a start
/// that is cut short leaves nothing that looks like a cluster.
pub(crate) async fn create(
    home: &Home,
    binaries: &Binaries,
    password: &Password,
) -> Result<(), EmbeddedError> {
    let draft = home.dir().join("cluster.new");
    files::remove_dir(&draft)?;
    files::make_private_dir(&draft, &home.account)?;
    init(home, binaries, &draft, password).await?;
    create_database(home, binaries, &draft).await?;
    let cluster = home.cluster();
    fs::rename(&draft, &cluster).map_err(EmbeddedError::io("rename to", &cluster))?;
    files::sync_dir(home.dir())
}

async fn init(
    home: &Home,
    binaries: &Binaries,
    draft: &Path,
    password: &Password,
) -> Result<(), EmbeddedError> {
    // Its own file, for initdb's user, gone right after: the stored one stays the caller's.
    let hand_over = home.dir().join("initdb-password");
    let _ = fs::remove_file(&hand_over);
    files::write_private(&hand_over, password.expose())?;
    home.account.take(&hand_over)?;
    let initdb = binaries.program("initdb");
    let mut command = home.account.command(&initdb);
    command
        .arg("--pgdata")
        .arg(draft)
        .arg("--pwfile")
        .arg(&hand_over)
        .args([
            format!("--username={ROLE}").as_str(),
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
            "--data-checksums",
            "--no-instructions",
        ]);
    let result = run(&initdb, command, "").await;
    let removed = fs::remove_file(&hand_over);
    result?;
    removed.map_err(EmbeddedError::io("delete", &hand_over))
}

/// Single-user mode needs no client program: minimal installations have no psql.
async fn create_database(
    home: &Home,
    binaries: &Binaries,
    draft: &Path,
) -> Result<(), EmbeddedError> {
    let postgres = binaries.program("postgres");
    let mut command = home.account.command(&postgres);
    command
        .arg("--single")
        .arg("-D")
        .arg(draft)
        .args(["-c", "exit_on_error=on", "postgres"]);
    run(
        &postgres,
        command,
        &format!("CREATE DATABASE {DATABASE};\n"),
    )
    .await
    .map(drop)
}
