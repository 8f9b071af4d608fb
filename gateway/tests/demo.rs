//! `fencepost demo` as a user runs it: it ends well and leaves nothing, also when it is interrupted
//! at the worst moment.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Two demos at once would only slow each other down.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn demo(folder: &Path) -> Child {
    let demo = PathBuf::from(env!("CARGO_BIN_EXE_fencepost"));
    let agent = demo.with_file_name("fencepost-agent");
    assert!(
        agent.is_file(),
        "there is no {}: run `cargo build --workspace` first (`make test` does)",
        agent.display()
    );
    Command::new(demo)
        .args(["demo", "--output-dir"])
        .arg(folder.join("output"))
        .env("TMPDIR", temporary(folder))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the demo can be started")
}

/// Where everything of the demo is, which Postgres, as another user, must be able to pass.
fn temporary(folder: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder, open).expect("the folder is ours");
    let temporary = folder.join("tmp");
    std::fs::create_dir_all(&temporary).expect("the folder is ours");
    temporary
}

#[track_caller]
fn assert_nothing_is_left(folder: &Path) {
    let files: Vec<_> = std::fs::read_dir(folder.join("tmp"))
        .expect("the demo removes only its own")
        .collect();
    assert!(files.is_empty(), "{files:?}");
    let ps = Command::new("ps")
        .args(["-A", "-ww", "-o", "command="])
        .output();
    // Where there is no ps, /proc tells the same.
    let commands = match ps {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(_) => std::fs::read_dir("/proc")
            .expect("there is /proc where there is no ps")
            .filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok())
            .map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " ") + "\n")
            .collect(),
    };
    let name = folder.to_string_lossy();
    let ours: Vec<&str> = commands
        .lines()
        .filter(|line| line.contains(&*name))
        .collect();
    assert!(ours.is_empty(), "{ours:#?}");
}

#[test]
fn the_demo_ends_well_with_a_verified_output_and_leaves_nothing() {
    let _turn = ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let output = demo(folder.path()).wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert_nothing_is_left(folder.path());
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(last["demo"], "ok");
    assert_eq!(last["late_commit_code"], "commit_conflict");
    let statuses: Vec<_> = last["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| &a["status"])
        .collect();
    assert_eq!(statuses, ["lost", "succeeded"]);
    assert_ne!(last["attempts"][0]["device"], last["attempts"][1]["device"]);
    assert!(last["attempts"][0]["epoch"].as_i64() < last["attempts"][1]["epoch"].as_i64());
    let file = std::fs::metadata(last["output"].as_str().unwrap()).unwrap();
    assert!(file.len() > 0);
}

#[test]
fn a_demo_interrupted_while_a_mac_is_frozen_leaves_nothing() {
    let _turn = ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let mut demo = demo(folder.path());
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    let frozen = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("is frozen")));
    assert!(frozen.is_some(), "the demo ended before a Mac was frozen");
    let id = Pid::from_raw(i32::try_from(demo.id()).unwrap()).unwrap();
    kill_process(id, Signal::INT).unwrap();
    // Read to the end, so that it is never kept from speaking.
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert_eq!(demo.wait().unwrap().code(), Some(130), "{rest:#?}");
    assert_nothing_is_left(folder.path());
}
