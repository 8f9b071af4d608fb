//! Who runs on this machine, and how whole families of processes are stopped, thawed and ended.
//!
//! An agent's encoders lead process groups of their own, so a signal to the agent does not reach
//! them; they are found by their parents. Linux has /proc; elsewhere `ps` tells the same.

use std::io;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// One process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) id: i32,
    pub(super) parent: i32,
    pub(super) group: i32,
    /// Its state's letter: `T` is stopped, `Z` has ended.
    pub(super) state: char,
    /// Its command line, arguments separated by blanks.
    pub(super) command: String,
}

impl Process {
    pub(super) fn is_stopped(&self) -> bool {
        self.state == 'T'
    }
}

/// Every process that has not ended.
pub(super) fn all() -> io::Result<Vec<Process>> {
    let mut all = if Path::new("/proc/self/stat").exists() {
        from_proc()?
    } else {
        from_ps()?
    };
    all.retain(|process| process.state != 'Z');
    Ok(all)
}

/// The children of `root`, their children, and so on.
pub(super) fn descendants(root: i32) -> io::Result<Vec<Process>> {
    let all = all()?;
    let mut family = vec![root];
    let mut found: Vec<Process> = Vec::new();
    while let Some(parent) = family.pop() {
        for child in all.iter().filter(|process| process.parent == parent) {
            if !found.iter().any(|known| known.id == child.id) {
                family.push(child.id);
                found.push(child.clone());
            }
        }
    }
    Ok(found)
}

/// Ends `root`, which leads a group of its own, and all that descends from it, at once and
/// whatever state they are in. It is stopped first, so that it starts nothing new meanwhile.
pub(super) fn kill_family(root: i32) {
    signal(root, Signal::STOP);
    for group in groups(&descendants(root).unwrap_or_default()) {
        signal_group(group, Signal::KILL);
    }
    signal_group(root, Signal::KILL);
    signal(root, Signal::KILL);
}

/// The groups that these are in, each once.
pub(super) fn groups(processes: &[Process]) -> Vec<i32> {
    let mut groups: Vec<i32> = processes.iter().map(|process| process.group).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// Signals one process. One that is gone needs no signal.
pub(super) fn signal(id: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(id).filter(|_| id > 1) {
        let _ = kill_process(pid, signal);
    }
}

/// Signals a group, never our own.
pub(super) fn signal_group(group: i32, signal: Signal) {
    let ours = rustix::process::getpgrp().as_raw_nonzero().get();
    if let Some(pid) = Pid::from_raw(group).filter(|_| group > 1 && group != ours) {
        let _ = kill_process_group(pid, signal);
    }
}

fn from_proc() -> io::Result<Vec<Process>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let folder = entry?.path();
        // Who ends while we look is not missed.
        let Ok(stat) = std::fs::read_to_string(folder.join("stat")) else {
            continue;
        };
        let command = std::fs::read(folder.join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        found.extend(of_stat(&stat, command.trim_end()));
    }
    Ok(found)
}

/// Reads `12 (name) S 1 12 …`, whose name may hold anything, blanks and parentheses too.
fn of_stat(stat: &str, command: &str) -> Option<Process> {
    let (before, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_whitespace();
    Some(Process {
        id: before.split_once(" (")?.0.parse().ok()?,
        state: fields.next()?.chars().next()?,
        parent: fields.next()?.parse().ok()?,
        group: fields.next()?.parse().ok()?,
        command: command.to_owned(),
    })
}

fn from_ps() -> io::Result<Vec<Process>> {
    let columns = ["pid=", "ppid=", "pgid=", "stat=", "command="];
    let mut ps = Command::new("ps");
    ps.args(["-A", "-ww"]);
    for column in columns {
        ps.args(["-o", column]);
    }
    let output = ps.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(of_ps_line).collect())
}

fn of_ps_line(line: &str) -> Option<Process> {
    let mut fields = line.split_whitespace();
    Some(Process {
        id: fields.next()?.parse().ok()?,
        parent: fields.next()?.parse().ok()?,
        group: fields.next()?.parse().ok()?,
        state: fields.next()?.chars().next()?,
        command: fields.collect::<Vec<_>>().join(" "),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;

    use super::*;

    #[test]
    fn a_name_with_parentheses_and_blanks_is_read_past() {
        let process = of_stat("12 (a) b (c) T 7 11 11 0 -1", "a b").unwrap();
        assert_eq!((process.id, process.parent, process.group), (12, 7, 11));
        assert!(process.is_stopped());
    }

    #[test]
    fn a_line_of_ps_is_read() {
        let process = of_ps_line("  312   1   312 Ss   /usr/bin/x --flag y").unwrap();
        assert_eq!((process.id, process.parent, process.group), (312, 1, 312));
        assert_eq!(
            (process.state, process.command.as_str()),
            ('S', "/usr/bin/x --flag y")
        );
    }

    #[test]
    fn a_family_over_several_groups_is_found_and_killed() {
        // The inner shell leads a group of its own, as an encoder does.
        let script = "set -m; sh -c 'sleep 60; true' & wait";
        let mut root = Command::new("bash")
            .args(["-c", script])
            .process_group(0)
            .spawn()
            .unwrap();
        let id = i32::try_from(root.id()).unwrap();
        let family = std::iter::repeat_with(|| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            descendants(id).unwrap()
        })
        .take(200)
        .find(|family| family.len() == 2)
        .expect("the shell and its sleep appear within 4 s");
        assert!(!groups(&family).contains(&id), "{family:?}");
        kill_family(id);
        root.wait().unwrap();
        let is_gone = || {
            let all = all().unwrap();
            family
                .iter()
                .all(|member| all.iter().all(|other| other.id != member.id))
        };
        let mut waits = std::iter::repeat_with(|| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            is_gone()
        });
        assert!(waits.by_ref().take(200).any(|gone| gone), "{family:?}");
    }
}
