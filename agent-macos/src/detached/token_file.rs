//! The file that carries a lease from one process to another.
//!
//! ```text
//! fencepost-lease-1 <scope> <job> <attempt> <epoch> <secret>
//! ```
//!
//! One line of canonical ASCII, in one way only. What is anything else is refused, and no part of it
//! is repeated: it may be a secret with a typing error.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use fencepost_domain::commit_token::CommitToken;
use fencepost_domain::ids::OrgId;
use fencepost_protocol::LeaseRef;
use serde::Deserialize as _;
use serde::de::value::{Error as ValueError, StrDeserializer};

use super::lease::Lease;

const VERSION: &str = "fencepost-lease-1";
/// A line has at most 17 + 3 × 37 + 20 + 33 + 1 bytes.
const MAX_BYTES: usize = 200;

/// Why there is no lease in it, or none could be put there.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// It is something else.
    #[error("{0} is no lease token file of this version")]
    NotOne(String),
    /// There is a file already.
    #[error("{0} exists already: name a new file for each claim")]
    Exists(String),
    /// The file system said no.
    #[error("{name}: {error}")]
    Io {
        /// Which file.
        name: String,
        /// What happened.
        error: io::Error,
    },
}

impl TokenFileError {
    fn io(path: &Path, error: io::Error) -> Self {
        let name = path.display().to_string();
        Self::Io { name, error }
    }
}

/// Reads a lease from a file, or from standard input if it is `-`.
pub fn read(path: &Path) -> Result<Lease, TokenFileError> {
    if path == Path::new("-") {
        return read_from(io::stdin().lock(), Path::new("standard input"));
    }
    let file = File::open(path).map_err(|error| TokenFileError::io(path, error))?;
    read_from(file, path)
}

fn read_from(source: impl Read, path: &Path) -> Result<Lease, TokenFileError> {
    let mut bytes = Vec::with_capacity(MAX_BYTES);
    let most = MAX_BYTES as u64 + 1;
    let read = source.take(most).read_to_end(&mut bytes);
    read.map_err(|error| TokenFileError::io(path, error))?;
    parse(&bytes).ok_or_else(|| TokenFileError::NotOne(path.display().to_string()))
}

/// The lease in a line; `None` for everything that is not exactly what [`line()`] would write.
fn parse(bytes: &[u8]) -> Option<Lease> {
    if bytes.len() > MAX_BYTES || !bytes.is_ascii() {
        return None;
    }
    let text = std::str::from_utf8(bytes).ok()?;
    let words: Vec<&str> = text.strip_suffix('\n')?.split(' ').collect();
    let [VERSION, scope, job, attempt, epoch, secret] = words[..] else {
        return None;
    };
    let reference = LeaseRef {
        job_id: canonical(job)?,
        attempt_id: canonical(attempt)?,
        lease_epoch: canonical(epoch).filter(|epoch: &i64| *epoch > 0)?,
    };
    let scope: OrgId = canonical(scope)?;
    let token = CommitToken::deserialize(StrDeserializer::<ValueError>::new(secret)).ok()?;
    (token.expose() == secret).then(|| Lease::new(scope, reference, token))
}

/// What is written in no other way than this.
fn canonical<T: FromStr + ToString>(word: &str) -> Option<T> {
    let value = word.parse::<T>().ok()?;
    (value.to_string() == word).then_some(value)
}

fn line(lease: &Lease) -> String {
    let LeaseRef {
        job_id,
        attempt_id,
        lease_epoch,
    } = lease.reference();
    let (scope, secret) = (lease.scope(), lease.token().expose());
    format!("{VERSION} {scope} {job_id} {attempt_id} {lease_epoch} {secret}\n")
}

/// A new file, made before anything is claimed, for its owner alone. Gone when it is dropped, unless
/// a lease was written into it.
#[derive(Debug)]
pub struct Reserved {
    path: PathBuf,
    file: File,
    is_written: bool,
}

impl Reserved {
    /// Makes the file; one that exists is left as it is.
    pub fn new(path: &Path) -> Result<Self, TokenFileError> {
        let made = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path);
        let file = made.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => TokenFileError::Exists(path.display().to_string()),
            _ => TokenFileError::io(path, error),
        })?;
        Ok(Self {
            path: path.to_owned(),
            file,
            is_written: false,
        })
    }

    /// Writes the lease. If that fails, nothing of it is left.
    pub fn write(mut self, lease: &Lease) -> Result<(), TokenFileError> {
        let written = self
            .file
            .write_all(line(lease).as_bytes())
            .and_then(|()| self.file.sync_all());
        written.map_err(|error| TokenFileError::io(&self.path, error))?;
        self.is_written = true;
        Ok(())
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if !self.is_written {
            // What cannot be removed is empty, or a part of a line that nothing takes for a lease.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_domain::commit_token::TOKEN_BYTES;
    use fencepost_domain::ids::{AttemptId, JobId};
    use std::os::unix::fs::PermissionsExt as _;

    fn lease() -> Lease {
        let reference = LeaseRef {
            job_id: JobId::new(),
            attempt_id: AttemptId::new(),
            lease_epoch: i64::MAX,
        };
        let token = CommitToken::from_entropy([0xFB; TOKEN_BYTES]);
        Lease::new(OrgId::new(), reference, token)
    }

    #[test]
    fn a_line_is_read_back_and_fits_its_bound() {
        let text = line(&lease());
        assert!(text.len() <= MAX_BYTES, "{}", text.len());
        let read = parse(text.as_bytes()).unwrap();
        assert_eq!(line(&read), text);
    }

    #[test]
    fn what_is_written_in_any_other_way_is_refused_and_not_repeated() {
        let good = line(&lease());
        let secret = lease().token().expose();
        let others = [
            String::new(),
            good.trim_end().to_owned(),
            format!("{good}\n"),
            format!("{good}{good}"),
            format!(" {good}"),
            good.replace('\n', "\r\n"),
            good.replace('\n', " \n"),
            good.replacen(' ', "  ", 1),
            good.replacen(' ', "\t", 1),
            good.to_uppercase(),
            good.replace("lease-1", "lease-2"),
            good.replace(&i64::MAX.to_string(), "01"),
            good.replace(&i64::MAX.to_string(), "+1"),
            good.replace(&i64::MAX.to_string(), "0"),
            good.replace(&i64::MAX.to_string(), "-1"),
            good.replace(&i64::MAX.to_string(), "9223372036854775808"),
            good.replace(&secret, &format!("{secret}=")),
            good.replace(&secret, &secret[1..]),
            good.replace(&secret, &format!("ä{}", &secret[1..])),
            format!("{good}{}", "x".repeat(10_000)),
        ];
        for text in others {
            assert!(parse(text.as_bytes()).is_none(), "{text:?} was taken");
            let error = read_from(text.as_bytes(), Path::new("a")).unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains(&secret[..8]), "{shown}");
        }
        assert!(parse(&[0xFF; 10]).is_none());
    }

    #[test]
    fn a_lease_shows_no_secret() {
        let lease = lease();
        assert!(!format!("{lease:?}").contains(&lease.token().expose()));
    }

    #[test]
    fn a_reserved_file_is_the_owners_alone_and_gone_unless_it_was_written() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("token");
        drop(Reserved::new(&path).unwrap());
        assert!(!path.exists());
        let reserved = Reserved::new(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let taken = Reserved::new(&path).unwrap_err();
        assert!(matches!(taken, TokenFileError::Exists(_)), "{taken}");
        let lease = lease();
        reserved.write(&lease).unwrap();
        assert_eq!(line(&read(&path).unwrap()), line(&lease));
    }

    #[test]
    fn a_link_is_a_file_in_the_way_wherever_it_leads() {
        let temp = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (temp.path().join("token"), temp.path().join("elsewhere"));
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        let taken = Reserved::new(&path).unwrap_err();
        assert!(matches!(taken, TokenFileError::Exists(_)), "{taken}");
        assert!(!elsewhere.exists());
    }
}
