use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use super::*;

/// A child that ignores TERM and is not looked after, like one whose agent was killed.
fn stray(folder: &Path, script: &str) -> (Child, i32) {
    let child = Command::new("/bin/sh")
        .args(["-c", script, &folder.to_string_lossy()])
        .current_dir(folder)
        .process_group(0)
        .spawn()
        .unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    (child, pid)
}

const STUBBORN: &str = "trap '' TERM; while :; do sleep 0.1; done";

fn enter(roster: &Roster, folder: &Path, script: &str) -> Entered {
    let arguments = ["-c".into(), script.into(), folder.into()];
    roster.enter(&arguments, folder).unwrap()
}

fn until_none_is_left(roster: &Roster) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while roster.end_leftovers().unwrap() > 0 {
        assert!(Instant::now() < deadline, "it does not go away");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_child_of_an_earlier_run_is_killed_and_its_entry_removed() {
    let temp = tempfile::tempdir().unwrap();
    let roster = Roster::open(temp.path().join("children")).unwrap();
    let (mut child, pid) = stray(temp.path(), STUBBORN);
    enter(&roster, temp.path(), STUBBORN).started(pid).unwrap();
    assert_eq!(roster.end_leftovers().unwrap(), 0, "it is looked after");
    assert!(child.try_wait().unwrap().is_none());
    roster.take_over().unwrap();
    until_none_is_left(&roster);
    assert_eq!(fs::read_dir(&roster.folder).unwrap().count(), 0);
    assert!(!child.wait().unwrap().success());
}

#[test]
fn a_child_that_was_started_and_not_noted_is_found_by_its_arguments() {
    let temp = tempfile::tempdir().unwrap();
    let roster = Roster::open(temp.path().join("children")).unwrap();
    let (mut child, pid) = stray(temp.path(), STUBBORN);
    enter(&roster, temp.path(), STUBBORN);
    // Until it has become the shell, it is a copy of ourselves.
    while !processes::find(pid).is_some_and(|found| found.command.contains("trap")) {
        std::thread::sleep(Duration::from_millis(5));
    }
    roster.take_over().unwrap();
    until_none_is_left(&roster);
    assert!(!child.wait().unwrap().success());
}

#[test]
fn a_stranger_with_the_number_of_a_child_is_left_alone() {
    let temp = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let roster = Roster::open(temp.path().join("children")).unwrap();
    let (mut child, pid) = stray(elsewhere.path(), STUBBORN);
    let mut entered = enter(&roster, temp.path(), "true");
    entered.entry.process = Some(Identity {
        pid,
        started: "at another time".to_owned(),
    });
    entered.write().unwrap();
    // Nor one whose arguments do not name the folder.
    let mut vague = enter(&roster, temp.path(), "true");
    vague.entry.arguments = elsewhere.path().to_string_lossy().into_owned();
    vague.write().unwrap();
    roster.take_over().unwrap();
    assert_eq!(roster.end_leftovers().unwrap(), 0);
    assert!(child.try_wait().unwrap().is_none(), "a stranger was killed");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_left_of_a_group_without_its_leader_is_killed_too() {
    let temp = tempfile::tempdir().unwrap();
    let roster = Roster::open(temp.path().join("children")).unwrap();
    let script = "sleep 1000 & echo $! > pid; read line < wait; exit 0";
    let made = Command::new("mkfifo")
        .arg(temp.path().join("wait"))
        .status();
    assert!(made.unwrap().success());
    let (mut child, pid) = stray(temp.path(), script);
    enter(&roster, temp.path(), script).started(pid).unwrap();
    fs::write(temp.path().join("wait"), "go\n").unwrap();
    child.wait().unwrap();
    let grandchild: i32 = {
        let text = fs::read_to_string(temp.path().join("pid")).unwrap();
        text.trim().parse().unwrap()
    };
    assert!(processes::find(grandchild).is_some());
    roster.take_over().unwrap();
    until_none_is_left(&roster);
    assert_eq!(processes::find(grandchild), None);
}

#[test]
fn an_entry_that_cannot_be_read_is_removed_and_numbers_are_never_shared() {
    let temp = tempfile::tempdir().unwrap();
    let roster = Roster::open(temp.path().join("children")).unwrap();
    let first = enter(&roster, temp.path(), "true");
    fs::write(roster.folder.join("broken.left"), "{").unwrap();
    assert_eq!(roster.end_leftovers().unwrap(), 0);
    assert!(!roster.folder.join("broken.left").exists());
    let second = enter(&roster, temp.path(), "true");
    assert_ne!(first.path, second.path);
    for entered in [first, second] {
        entered.close(None);
    }
    assert_eq!(fs::read_dir(&roster.folder).unwrap().count(), 0);
}
