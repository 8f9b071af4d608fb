//! The wall around a browser that runs a stranger's program: bubblewrap on Linux, Seatbelt on macOS.
//!
//! Behind it there is no network but the loopback between Node and the browser, and of the files
//! only what is needed to run and what the work itself is about. Unlike the isolation of FFmpeg it is
//! no second line: without it no bundle is run. Whether it stands here is proven by the trial, which
//! draws a film behind it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::isolation::first_file;

/// What programs and fonts need of a Linux, where it is there.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/opt/google",
    "/etc/alternatives",
    "/etc/chromium",
    "/etc/chromium.d",
    "/etc/fonts",
    "/etc/ld.so.cache",
    "/var/cache/fontconfig",
];

/// A file of the working folder that says where `localhost` is.
pub(super) const HOSTS: (&str, &str) = ("hosts", "127.0.0.1 localhost\n::1 localhost\n");

/// Where bubblewrap shows the working folder.
const SHORT: &str = "/browser";

/// Seatbelt's rules, of which the last that fits counts. What is not of the machine's owner (the
/// system, programs, fonts) may be read.
const SEATBELT_PROFILE: &str = r#"(version 1)
(allow default)
(deny network*)
(deny file-read* file-write* (subpath "/Users") (subpath "/Volumes") (subpath "/private/tmp"))
(deny file-write* (subpath "/Applications") (subpath "/Library") (subpath "/opt") (subpath "/usr"))
(allow file-read-metadata)
"#;

/// What stands around the browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wall {
    /// Namespaces with an almost empty file system (Linux), by `bwrap`. Whatever runs inside dies
    /// with it.
    Bubblewrap {
        /// Path of `bwrap`.
        program: PathBuf,
    },
    /// A Seatbelt profile (macOS), by `sandbox-exec`.
    Seatbelt {
        /// Path of `sandbox-exec`.
        program: PathBuf,
    },
}

/// What there is behind the wall.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inside<'a> {
    /// What may be written: the working folder, which is also the home and holds temporary files.
    pub(super) folder: &'a Path,
    /// What may be read beside the system's own.
    pub(super) readable: &'a [&'a Path],
    /// The ports of the loopback that are needed. On Linux it is a loopback of its own.
    pub(super) ports: [u16; 2],
}

impl Wall {
    /// What this platform has. The error says what to do.
    pub(super) fn detect() -> Result<Self, String> {
        if cfg!(target_os = "linux") {
            let program = first_file(&["/usr/bin/bwrap", "/bin/bwrap"]);
            return program
                .map(|program| Self::Bubblewrap { program })
                .ok_or_else(|| "Remotion needs bubblewrap: `apt install bubblewrap`".to_owned());
        }
        let program = first_file(&["/usr/bin/sandbox-exec"]);
        program
            .map(|program| Self::Seatbelt { program })
            .ok_or_else(|| "Remotion needs sandbox-exec, which this system lacks".to_owned())
    }

    /// One line for the log.
    pub fn describe(&self) -> &'static str {
        match self {
            Self::Bubblewrap { .. } => "bundles run behind bubblewrap",
            Self::Seatbelt { .. } => "bundles run behind sandbox-exec",
        }
    }

    /// The program to start.
    pub(super) fn program(&self) -> &Path {
        match self {
            Self::Bubblewrap { program } | Self::Seatbelt { program } => program,
        }
    }

    /// Where the folder is seen inside. Chrome has a socket in it, whose path must be short: an attempt's
    /// own is too long for that on Linux. On macOS such sockets are elsewhere.
    pub(super) fn seen<'a>(&self, folder: &'a Path) -> &'a Path {
        match self {
            Self::Bubblewrap { .. } => Path::new(SHORT),
            Self::Seatbelt { .. } => folder,
        }
    }

    /// Its arguments, before those that run another program inside.
    pub(super) fn arguments(&self, inside: Inside<'_>) -> Vec<OsString> {
        match self {
            Self::Bubblewrap { .. } => bubblewrap(inside),
            Self::Seatbelt { .. } => vec!["-p".into(), seatbelt(inside).into()],
        }
    }
}

fn bubblewrap(inside: Inside<'_>) -> Vec<OsString> {
    let mut args: Vec<OsString> = [
        "--unshare-all",
        "--die-with-parent",
        "--new-session",
        "--cap-drop",
        "ALL",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--tmpfs",
        "/tmp",
    ]
    .map(OsString::from)
    .into();
    let mut bind = |how: &str, path: &Path| args.extend([how.into(), path.into(), path.into()]);
    for path in SYSTEM {
        bind("--ro-bind-try", Path::new(path));
    }
    for path in inside.readable {
        bind("--ro-bind", path);
    }
    // So that `localhost` is found; the machine's own list may name what is nobody's business.
    let hosts = inside.folder.join(HOSTS.0);
    args.extend(["--ro-bind".into(), hosts.into(), "/etc/hosts".into()]);
    args.extend(["--bind".into(), inside.folder.into(), SHORT.into()]);
    args.extend(["--chdir", SHORT].map(OsString::from));
    args
}

fn seatbelt(inside: Inside<'_>) -> String {
    let allow = |what: &str, path: &Path| {
        // A path with a quote or a backslash would end the text that it stands in.
        let path = path.to_string_lossy();
        let path = path.replace('\\', "\\\\").replace('"', "\\\"");
        format!("(allow {what} (subpath \"{path}\"))")
    };
    let port = |port: u16| {
        format!(
            "(allow network* (local ip \"localhost:{port}\"))\n(allow network-outbound (remote ip \
             \"localhost:{port}\"))"
        )
    };
    let readable = inside.readable.iter().map(|path| allow("file-read*", path));
    let own = [
        allow("file-read* file-write*", inside.folder),
        // Sockets of files, which Chrome has for its own processes, and where it makes them.
        allow("network*", inside.folder),
        allow("network*", Path::new("/private/var/folders")),
    ];
    let rules = [SEATBELT_PROFILE.to_owned()].into_iter().chain(readable);
    let rules = rules.chain(own).chain(inside.ports.map(port));
    rules.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seatbelt_lets_two_ports_and_the_folder_through_and_no_path_ends_its_text() {
        let odd = Path::new("/Users/me/\"))(allow network*)");
        let profile = seatbelt(Inside {
            folder: odd,
            readable: &[Path::new("/Users/me/packages")],
            ports: [4001, 4002],
        });
        assert!(profile.contains("(deny network*)"));
        assert!(profile.contains(r#"(subpath "/Users/me/\"))(allow network*)")"#));
        assert!(profile.contains("(allow file-read* (subpath \"/Users/me/packages\"))"));
        for port in ["4001", "4002"] {
            assert!(profile.contains(&format!("(remote ip \"localhost:{port}\")")));
        }
        assert!(!profile.contains("localhost:*"));
    }
}
