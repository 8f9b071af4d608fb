//! Why the embedded server could not be started or stopped, in words that say what to do.

use std::io;
use std::path::{Path, PathBuf};

/// Everything that can go wrong with the embedded server. No variant carries a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbeddedError {
    /// Another process holds this data folder.
    #[error("{} is in use by another process{}", data_dir.display(), by_pid(*pid))]
    InUse {
        /// The folder asked for.
        data_dir: PathBuf,
        /// The process that holds it, if it said so.
        pid: Option<u32>,
    },
    /// No usable server is installed, and none could be downloaded.
    #[error(
        "no Postgres {wanted} was found{}{}\n  Debian, Ubuntu:  apt-get install postgresql\n  \
         macOS:           brew install postgresql@17",
        list("; unusable: ", rejected),
        list("; download: ", download)
    )]
    NoServer {
        /// The version needed, such as `15 or newer`.
        wanted: String,
        /// What was found and why it does not serve.
        rejected: Vec<String>,
        /// Why the download failed; empty if it was not tried.
        download: Vec<String>,
    },
    /// We are root, and there is no other user to run the server as.
    #[error("Postgres does not run as root, and there is neither a user `postgres` nor `nobody`")]
    NoServerUser,
    /// A folder that we need is somebody else's.
    #[error("{}: {problem}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// One of Postgres's programs failed.
    #[error("{program} failed ({status})\n{output}")]
    Program {
        /// Its name.
        program: String,
        /// Its exit status, or that it took too long.
        status: String,
        /// The end of what it printed.
        output: String,
    },
    /// The server ended, or did not answer, before it was ready.
    #[error("Postgres did not become ready: {reason}; the end of {}:\n{tail}", log.display())]
    NotReady {
        /// What was seen.
        reason: String,
        /// The server's log.
        log: PathBuf,
        /// Its last lines.
        tail: String,
    },
    /// A server that an earlier process left behind cannot be stopped.
    #[error("the server that an earlier run left behind (process {pid}) does not stop")]
    OrphanLives {
        /// Its process id.
        pid: i32,
    },
    /// The operating system refused something.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// The verb.
        doing: &'static str,
        /// The file, folder or program.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

impl EmbeddedError {
    /// For `map_err`: names what was being done to which path.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            doing,
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn folder(path: &Path, problem: impl Into<String>) -> Self {
        Self::Folder {
            path: path.to_owned(),
            problem: problem.into(),
        }
    }
}

fn by_pid(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" ({pid})"))
}

fn list(prefix: &str, items: &[String]) -> String {
    if items.is_empty() {
        String::new()
    } else {
        format!("{prefix}{}", items.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::EmbeddedError;

    #[test]
    fn a_missing_server_is_reported_with_the_command_that_installs_one() {
        let error = EmbeddedError::NoServer {
            wanted: "15 or newer".into(),
            rejected: vec!["/old/bin is 13".into()],
            download: vec!["offline".into()],
        };
        let text = error.to_string();
        for part in ["15 or newer", "/old/bin is 13", "offline"] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(text.contains("apt-get install postgresql"));
        assert!(text.contains("brew install postgresql@17"));
    }
}
