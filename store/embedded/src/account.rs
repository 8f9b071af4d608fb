//! As whom the server runs: ourselves, or, since Postgres refuses root, an ordinary user.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::EmbeddedError;

/// The users that root tries, best first.
const SERVER_USERS: [&str; 2] = ["postgres", "nobody"];

/// The user that owns the cluster and runs Postgres's programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    uid: u32,
    gid: u32,
    /// We are root and must become this user for each program.
    switch: bool,
}

impl Account {
    /// The user for a new cluster.
    pub(crate) fn choose() -> Result<Self, EmbeddedError> {
        let euid = rustix::process::geteuid();
        if !euid.is_root() {
            let gid = rustix::process::getegid().as_raw();
            return Ok(Self {
                uid: euid.as_raw(),
                gid,
                switch: false,
            });
        }
        SERVER_USERS
            .into_iter()
            .find_map(look_up)
            .ok_or(EmbeddedError::NoServerUser)
    }

    /// The user of an existing cluster: its owner, whoever started it first. Root can become
    /// anybody; for others it must be themselves.
    pub(crate) fn owning(cluster: &Path) -> Result<Self, EmbeddedError> {
        let found = fs::metadata(cluster).map_err(EmbeddedError::io("look at", cluster))?;
        let euid = rustix::process::geteuid();
        let (uid, gid) = (found.uid(), found.gid());
        if euid.is_root() && uid != 0 {
            return Ok(Self {
                uid,
                gid,
                switch: true,
            });
        }
        if uid == euid.as_raw() && uid != 0 {
            return Ok(Self {
                uid,
                gid: rustix::process::getegid().as_raw(),
                switch: false,
            });
        }
        Err(EmbeddedError::folder(
            cluster,
            format!("belongs to user {uid}, not to us"),
        ))
    }

    /// Its numeric user id.
    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }

    /// Makes this user the owner of `path`; only needed, and only possible, as root.
    pub(crate) fn take(&self, path: &Path) -> Result<(), EmbeddedError> {
        if !self.switch {
            return Ok(());
        }
        std::os::unix::fs::lchown(path, Some(self.uid), Some(self.gid))
            .map_err(EmbeddedError::io("change the owner of", path))
    }

    /// A program run as this user, in a process group of its own (the terminal's Ctrl-C is ours
    /// to handle) and with nothing of our environment but what finding libraries needs: neither
    /// our secrets nor somebody's `PGDATA` belong there.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("LC_ALL", "C").env("TZ", "UTC");
        for kept in ["PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"] {
            if let Some(value) = std::env::var_os(kept) {
                command.env(kept, value);
            }
        }
        command
            .current_dir("/")
            .stdin(Stdio::null())
            .process_group(0);
        if self.switch {
            // The standard library also drops root's supplementary groups here.
            command.uid(self.uid).gid(self.gid);
        }
        command
    }

    /// Whether this user can enter `dir`. Asked of the system by trying, for only that knows
    /// about access lists and mounts.
    pub(crate) fn can_enter(&self, dir: &Path) -> bool {
        let mut probe = self.command("/bin/sh");
        probe.args(["-c", "cd -- \"$1\"", "sh"]).arg(dir);
        probe.stdout(Stdio::null()).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    }
}

/// Asks `id`, which also knows the users that are in no passwd file (macOS, LDAP).
fn look_up(name: &str) -> Option<Account> {
    let ask = |what: &str| {
        let output = Command::new("id")
            .args([what, name])
            .stderr(Stdio::null())
            .output()
            .ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        // macOS prints the id of `nobody` as -2.
        let number: i64 = text.trim().parse().ok()?;
        u32::try_from(number)
            .ok()
            .or_else(|| i32::try_from(number).ok().map(i32::cast_unsigned))
    };
    let (uid, gid) = (ask("-u")?, ask("-g")?);
    (uid != 0).then_some(Account {
        uid,
        gid,
        switch: true,
    })
}
