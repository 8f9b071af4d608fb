//! Where the cluster lives: in the folder that the caller named, or, if the server's user cannot
//! reach that one (root's own folders), in one that it can, recorded so that it is found again.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::account::Account;
use crate::error::EmbeddedError;
use crate::files;

/// A socket's whole path must fit 104 bytes (macOS) with `/.s.PGSQL.65535.lock` at its end.
const LONGEST_SOCKET_DIR: usize = 80;

/// The folder with everything of one server, and the user that runs it.
#[derive(Debug)]
pub(crate) struct Home {
    /// What the caller named, absolute and without links.
    data_dir: PathBuf,
    /// Where the files are.
    dir: PathBuf,
    /// The server's user.
    pub(crate) account: Account,
}

impl Home {
    /// Finds the home of `data_dir`, or makes one. `temporary` prefers a place that the system
    /// tidies, should we never get to it.
    pub(crate) fn find(data_dir: &Path, temporary: bool) -> Result<Self, EmbeddedError> {
        let record = data_dir.join("location");
        if let Some(dir) = read_record(&record)? {
            if !dir.is_dir() {
                let problem = format!("is gone; {} says that the data is there", record.display());
                return Err(EmbeddedError::folder(&dir, problem));
            }
            return Self::at(data_dir, dir);
        }
        if data_dir.join("cluster").exists() {
            return Self::at(data_dir, data_dir.to_owned());
        }
        let account = Account::choose()?;
        if account.can_enter(data_dir) {
            return Ok(Self {
                data_dir: data_dir.to_owned(),
                dir: data_dir.to_owned(),
                account,
            });
        }
        let dir = make_elsewhere(data_dir, &account, temporary)?;
        files::write_private(&record, &format!("{}\n", dir.display()))?;
        tracing::info!(
            data_dir = %data_dir.display(), home = %dir.display(),
            "the server's user cannot reach the data folder, so the data lives elsewhere"
        );
        Self::at(data_dir, dir)
    }

    fn at(data_dir: &Path, dir: PathBuf) -> Result<Self, EmbeddedError> {
        let cluster = dir.join("cluster");
        let account = if cluster.exists() {
            Account::owning(&cluster)?
        } else {
            Account::choose()?
        };
        Ok(Self {
            data_dir: data_dir.to_owned(),
            dir,
            account,
        })
    }

    /// The folder itself.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// PGDATA.
    pub(crate) fn cluster(&self) -> PathBuf {
        self.dir.join("cluster")
    }

    /// The file with the password.
    pub(crate) fn password(&self) -> PathBuf {
        self.dir.join("password")
    }

    /// What the server prints.
    pub(crate) fn log(&self) -> PathBuf {
        self.dir.join("server.log")
    }

    /// The folder of the Unix socket: short, and plain enough for Postgres's list syntax.
    pub(crate) fn socket_dir(&self) -> PathBuf {
        let here = self.dir.join("run");
        let bytes = here.as_os_str().as_bytes();
        let is_plain = bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"/._-+@".contains(b));
        if is_plain && bytes.len() <= LONGEST_SOCKET_DIR {
            here
        } else {
            Path::new("/tmp").join(folder_name(&self.data_dir))
        }
    }

    /// Deletes what we made, and the caller's folder if nothing else is in it.
    pub(crate) fn remove(&self) -> Result<(), EmbeddedError> {
        files::remove_dir(&self.socket_dir())?;
        if self.dir == self.data_dir {
            files::remove_dir(&self.cluster())?;
            for file in [self.password(), self.log()] {
                let _ = fs::remove_file(file);
            }
        } else {
            files::remove_dir(&self.dir)?;
            let _ = fs::remove_file(self.data_dir.join("location"));
        }
        let _ = fs::remove_file(self.data_dir.join("lock"));
        let _ = fs::remove_dir(&self.data_dir);
        Ok(())
    }
}

/// Makes the caller's folder if needed; absolute and without links, so that it is one name.
pub(crate) fn prepare_data_dir(wanted: &Path) -> Result<PathBuf, EmbeddedError> {
    if let Some(parent) = wanted
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        fs::create_dir_all(parent).map_err(EmbeddedError::io("create", parent))?;
    }
    // Root's server runs as another user, who must get through but need not look around.
    let mode = if rustix::process::geteuid().is_root() {
        0o711
    } else {
        0o700
    };
    files::make_dir(wanted, mode)?;
    wanted
        .canonicalize()
        .map_err(EmbeddedError::io("resolve", wanted))
}

fn read_record(record: &Path) -> Result<Option<PathBuf>, EmbeddedError> {
    match fs::read_to_string(record) {
        Ok(text) => Ok(Some(PathBuf::from(text.trim_end_matches('\n')))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(EmbeddedError::io("read", record)(error)),
    }
}

/// Makes the folder that stands in for `data_dir`. Ours to write, the server user's to pass.
fn make_elsewhere(
    data_dir: &Path,
    account: &Account,
    temporary: bool,
) -> Result<PathBuf, EmbeddedError> {
    let parents = if temporary {
        &["/var/tmp", "/tmp"][..]
    } else {
        &["/var/lib", "/var/tmp"]
    };
    let usable = |parent: &&&str| Path::new(parent).is_dir() && account.can_enter(parent.as_ref());
    let Some(parent) = parents.iter().find(usable) else {
        let problem = "the server's user can reach neither it nor a folder to use instead";
        return Err(EmbeddedError::folder(data_dir, problem));
    };
    let dir = Path::new(parent).join(folder_name(data_dir));
    if !files::make_dir(&dir, 0o711)? {
        let found = fs::symlink_metadata(&dir).map_err(EmbeddedError::io("look at", &dir))?;
        if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
            return Err(EmbeddedError::folder(
                &dir,
                "exists, but is no folder of ours",
            ));
        }
    }
    Ok(dir)
}

/// `fencepost-` and a hash of the caller's folder (64-bit FNV-1a, for it must never change).
fn folder_name(data_dir: &Path) -> String {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let bytes = data_dir.as_os_str().as_bytes();
    let hash = bytes
        .iter()
        .fold(OFFSET, |hash, b| (hash ^ u64::from(*b)).wrapping_mul(PRIME));
    format!("fencepost-{hash:016x}")
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{Home, LONGEST_SOCKET_DIR, folder_name};
    use crate::account::Account;

    fn home(dir: &str) -> Home {
        let dir = PathBuf::from(dir);
        Home {
            data_dir: dir.clone(),
            dir,
            account: Account::choose().unwrap(),
        }
    }

    #[test]
    fn the_socket_folder_is_short_and_plain_whatever_the_data_folder_is() {
        assert_eq!(home("/srv/pg").socket_dir(), Path::new("/srv/pg/run"));
        for odd in [
            format!("/srv/{}", "x".repeat(90)),
            "/srv/a, \"b".into(),
            "/srv/ä".into(),
        ] {
            let dir = home(&odd).socket_dir();
            assert!(dir.starts_with("/tmp/"), "{dir:?}");
            assert!(dir.as_os_str().len() <= LONGEST_SOCKET_DIR);
        }
    }

    #[test]
    fn the_folder_name_is_the_same_in_every_release() {
        assert_eq!(
            folder_name(Path::new("/root/data")),
            folder_name(Path::new("/root/data"))
        );
        assert_ne!(
            folder_name(Path::new("/root/data")),
            folder_name(Path::new("/root/date"))
        );
        // The published FNV-1a value of "a".
        assert_eq!(folder_name(Path::new("a")), "fencepost-af63dc4c8601ec8c");
    }
}
