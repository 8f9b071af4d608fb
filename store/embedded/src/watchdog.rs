//! A tiny process that outlives ours by a moment: when we end without a word, it stops the server.
//!
//! It waits on a pipe that only we hold open, so any end of ours wakes it, `kill -9` included.
//! Until then the server is our child, so that its process id cannot become somebody else's.

use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};

use crate::account::Account;
use crate::error::EmbeddedError;

const SCRIPT: &str = "trap '' HUP INT TERM; read -r _line; kill -INT \"$1\"";

/// Stops the server on drop of this process, not on drop of this value.
#[derive(Debug)]
pub(crate) struct Watchdog {
    child: Child,
    _we_live: Option<ChildStdin>,
}

impl Watchdog {
    /// Watches over `server`, as the same user, for only that one may signal it.
    pub(crate) fn start(account: &Account, server: &Child) -> Result<Self, EmbeddedError> {
        let shell = Path::new("/bin/sh");
        let mut child = account
            .command(shell)
            .args(["-c", SCRIPT, "fencepost-watchdog"])
            .arg(server.id().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(EmbeddedError::io("run", shell))?;
        let pipe = child.stdin.take();
        Ok(Self {
            child,
            _we_live: pipe,
        })
    }
}

impl Drop for Watchdog {
    /// Ends it before its pipe closes, for the server has been stopped, or is to stay.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
