//! `fencepost dev` as a user runs it: it serves, survives its Postgres, and ends well.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Starts it in a folder that Postgres, as another user, can pass; and what it says.
fn dev(folder: &Path) -> (Child, Value) {
    use std::os::unix::fs::PermissionsExt as _;
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder, open).expect("the folder is ours");
    let mut child = Command::new(env!("CARGO_BIN_EXE_fencepost"))
        .args(["--json", "--set", "http.bind=127.0.0.1:0"])
        .args(["--set", "admin.bind=127.0.0.1:0", "dev", "--state-dir"])
        .arg(folder.join("state"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be started");
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
    out.read_line(&mut line).expect("it says what it is");
    let told = serde_json::from_str(&line).expect("one JSON object");
    (child, told)
}

fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("an id of a process"), signal).expect("it runs");
}

/// The id in the first line of its postmaster.pid.
fn postgres(folder: &Path) -> u32 {
    let found = walk(&folder.join("state/postgres"));
    let file = found.expect("there is a postmaster.pid");
    let text = std::fs::read_to_string(file).expect("it is readable");
    let first = text.lines().next().expect("a line");
    first.trim().parse().expect("an id")
}

fn walk(folder: &Path) -> Option<std::path::PathBuf> {
    let mut entries = std::fs::read_dir(folder).ok()?.flatten();
    entries.find_map(|entry| {
        let path = entry.path();
        if path.is_dir() {
            walk(&path)
        } else {
            (entry.file_name() == "postmaster.pid").then_some(path)
        }
    })
}

/// Whether a buyer is answered within a while.
async fn is_served(told: &Value) -> bool {
    let text = |key: &str| told[key].as_str().expect("a text").to_owned();
    let url = format!("{}/v1/jobs", text("url"));
    let http = reqwest::Client::builder().no_proxy().build();
    let http = http.expect("a client");
    let until = Instant::now() + Duration::from_secs(30);
    while Instant::now() < until {
        let asked = http.get(&url).bearer_auth(text("api_key")).send().await;
        if asked.is_ok_and(|answer| answer.status().is_success()) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    false
}

#[tokio::test]
async fn everything_on_one_machine_outlives_its_postgres_and_ends_with_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let (mut child, told) = dev(folder.path());
    assert!(is_served(&told).await);
    let killed = postgres(folder.path());
    signal(killed, Signal::KILL);
    assert!(is_served(&told).await, "its Postgres did not come back");
    let again = postgres(folder.path());
    assert_ne!(again, killed);
    signal(child.id(), Signal::TERM);
    assert!(child.wait().unwrap().success());
    assert!(
        walk(&folder.path().join("state")).is_none(),
        "it was not stopped"
    );
}
