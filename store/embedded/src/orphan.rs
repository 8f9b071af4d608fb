//! The server that an earlier process left behind, say after `kill -9`: found and stopped.
//!
//! Its process id is in the cluster's postmaster.pid. That file may be stale and the number
//! somebody else's by now, so the process must prove to be the server of this very folder.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

use crate::error::EmbeddedError;

/// First asked to end its sessions and write everything out, then to recover next time.
const STEPS: [(Signal, Duration); 2] = [
    (Signal::INT, Duration::from_secs(20)),
    (Signal::QUIT, Duration::from_secs(10)),
];

/// Stops the server that still runs in `cluster`, if there is one. The caller holds the lock of
/// the data folder, so that no living process of ours can be its owner.
pub(crate) async fn stop(cluster: &Path) -> Result<(), EmbeddedError> {
    let Some(pid) = recorded_pid(cluster).filter(|pid| is_server_of(*pid, cluster)) else {
        return Ok(());
    };
    tracing::warn!(
        pid = pid.as_raw_pid(),
        "stopping the server that an earlier run left behind"
    );
    for (signal, patience) in STEPS {
        // An error means that it ended just now, or that the wait below will tell.
        let _ = kill_process(pid, signal);
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if !is_server_of(pid, cluster) {
                return Ok(());
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
    Err(EmbeddedError::OrphanLives {
        pid: pid.as_raw_pid(),
    })
}

/// The first line of postmaster.pid. A missing or odd file is left for Postgres to judge.
fn recorded_pid(cluster: &Path) -> Option<Pid> {
    let text = fs::read_to_string(cluster.join("postmaster.pid")).ok()?;
    let number = text
        .lines()
        .next()?
        .trim()
        .parse()
        .ok()
        .filter(|number| *number > 1)?;
    Pid::from_raw(number)
}

/// Whether `pid` is a live Postgres that works in `cluster`: every server makes its data folder
/// its current one. A zombie has none, so this is also how its end is seen.
#[cfg(target_os = "linux")]
pub(crate) fn is_server_of(pid: Pid, cluster: &Path) -> bool {
    let process = Path::new("/proc").join(pid.as_raw_pid().to_string());
    let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
    let works_in = fs::read_link(process.join("cwd"));
    name.contains("postgres") && works_in.is_ok_and(|dir| dir == cluster)
}

/// Whether `pid` is a live Postgres for `cluster`, by its command line: we always start it with
/// `-D` and the absolute folder. A zombie has none, so this is also how its end is seen.
#[cfg(not(target_os = "linux"))]
pub(crate) fn is_server_of(pid: Pid, cluster: &Path) -> bool {
    let number = pid.as_raw_pid().to_string();
    let asked = std::process::Command::new("ps")
        .args(["-ww", "-o", "command=", "-p", &number])
        .output();
    let shown = asked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let wanted = format!("postgres -D {} ", cluster.display());
    shown.is_ok_and(|line| line.contains(&wanted))
}

#[cfg(test)]
mod tests {
    use super::{is_server_of, stop};

    #[tokio::test]
    async fn a_stale_record_never_stops_a_stranger() {
        let cluster = tempfile::tempdir().unwrap();
        // A live process that works in the folder, but is no Postgres.
        let mut stranger = std::process::Command::new("sleep")
            .arg("60")
            .current_dir(cluster.path())
            .spawn()
            .unwrap();
        let record = format!("{}\n{}\n", stranger.id(), cluster.path().display());
        std::fs::write(cluster.path().join("postmaster.pid"), record).unwrap();
        assert!(!is_server_of(
            rustix::process::Pid::from_child(&stranger),
            cluster.path()
        ));
        stop(cluster.path()).await.unwrap();
        assert!(
            stranger.try_wait().unwrap().is_none(),
            "the stranger was stopped"
        );
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }
}
