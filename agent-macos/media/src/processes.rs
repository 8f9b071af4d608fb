//! Which processes run on this machine, and whether one is still the one that it was.
//!
//! A process id alone says little: it is given to a stranger once its owner is gone. Together with
//! the moment at which the process started it is an identity.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A process that runs. A zombie does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    /// Its process group.
    pub(crate) group: i32,
    /// When it started, in words of this platform that never change while it lives.
    pub(crate) started: String,
    /// Program and arguments, joined by spaces.
    pub(crate) command: String,
}

/// Everything that runs now.
pub(crate) fn running() -> io::Result<Vec<Process>> {
    if cfg!(target_os = "linux") {
        from_proc()
    } else {
        from_ps()
    }
}

/// The process with this id, if it runs.
pub(crate) fn find(pid: i32) -> Option<Process> {
    if cfg!(target_os = "linux") {
        read_proc(pid)
    } else {
        ask_ps(&["-p", &pid.to_string()]).ok()?.pop()
    }
}

/// The working folder of a process, where this platform tells (Linux).
pub(crate) fn folder_of(pid: i32) -> Option<PathBuf> {
    let link = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    let text = link.to_string_lossy();
    Some(match text.strip_suffix(" (deleted)") {
        Some(gone) => PathBuf::from(gone),
        None => link,
    })
}

/// Begins the variable of the environment that marks all processes of one piece of work; the path of
/// its folder ends it.
pub(crate) const MARK: &str = "FENCEPOST_WORK=";

/// The processes that were started with the mark of this folder, as far as we may know: those of other
/// users keep their environment to themselves.
pub(crate) fn marked_with(folder: &Path) -> io::Result<Vec<i32>> {
    let mut mark = MARK.as_bytes().to_vec();
    mark.extend(folder.as_os_str().as_bytes());
    if !cfg!(target_os = "linux") {
        let listed = ps(&["-ax", "-E", "-ww", "-o", "pid=,stat=,command="])?;
        return Ok(marked_in(&listed, &mark));
    }
    let names =
        fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let marked = names.filter_map(|name| {
        let pid = name.parse().ok()?;
        let environment = fs::read(Path::new("/proc").join(name).join("environ")).ok()?;
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|variable| variable == mark).then_some(pid)
    });
    Ok(marked.collect())
}

/// The processes in what `ps` lists, each with its environment behind its command, that have a mark.
fn marked_in(listed: &[u8], mark: &[u8]) -> Vec<i32> {
    let lines = listed.split(|byte| *byte == b'\n');
    let marked = lines.filter_map(|line| {
        let text = String::from_utf8_lossy(line);
        let mut words = text.split_whitespace();
        let pid = words.next()?.parse().ok()?;
        let is_zombie = words.next()?.starts_with('Z');
        let starts = line.windows(mark.len()).enumerate();
        // A whole variable: not the folder of another name that begins alike.
        let mut ends = starts.filter_map(|(at, part)| (part == mark).then_some(at + mark.len()));
        let has_mark = ends.any(|end| line.get(end).is_none_or(|&byte| byte == b' '));
        (has_mark && !is_zombie).then_some(pid)
    });
    marked.collect()
}

fn from_proc() -> io::Result<Vec<Process>> {
    let names =
        fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(names
        .filter_map(|name| read_proc(name.parse().ok()?))
        .collect())
}

/// Nothing if it has gone meanwhile, which is no error.
fn read_proc(pid: i32) -> Option<Process> {
    let folder = Path::new("/proc").join(pid.to_string());
    let stat = fs::read_to_string(folder.join("stat")).ok()?;
    // The name in parentheses may hold spaces and parentheses itself.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    let command = fs::read(folder.join("cmdline")).ok()?;
    let words = command.split(|byte| *byte == 0);
    let words: Vec<_> = words.map(String::from_utf8_lossy).collect();
    // Ticks since boot, so the boot belongs to it.
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    Some(Process {
        pid,
        group: fields.get(2)?.parse().ok()?,
        started: format!("{} {}", fields.get(19)?, boot.trim()),
        command: words.join(" ").trim_end().to_owned(),
    })
}

fn from_ps() -> io::Result<Vec<Process>> {
    ask_ps(&["-ax"])
}

/// `ps` where there is no `/proc`. Its start times are kept by the kernel, not computed anew.
fn ask_ps(which: &[&str]) -> io::Result<Vec<Process>> {
    let how = ["-ww", "-o", "pid=,pgid=,stat=,lstart=,command="];
    let listed = ps(&[which, &how].concat())?;
    let text = String::from_utf8_lossy(&listed);
    Ok(text.lines().filter_map(read_ps_line).collect())
}

fn ps(args: &[&str]) -> io::Result<Vec<u8>> {
    let output = Command::new("/bin/ps")
        .args(args)
        .env_clear()
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()?;
    Ok(output.stdout)
}

fn read_ps_line(line: &str) -> Option<Process> {
    // Three numbers and words, five words of a date, and the command.
    let mut words = line.split_whitespace();
    let pid = words.next()?.parse().ok()?;
    let group = words.next()?.parse().ok()?;
    if words.next()?.starts_with('Z') {
        return None;
    }
    let date: Vec<&str> = words.by_ref().take(5).collect();
    let command: Vec<&str> = words.collect();
    Some(Process {
        pid,
        group,
        started: date.join(" "),
        command: command.join(" "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> i32 {
        i32::try_from(std::process::id()).unwrap()
    }

    #[test]
    fn a_process_keeps_its_identity_for_as_long_as_it_lives() {
        let first = find(own()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert_eq!(find(own()).unwrap(), first);
        assert!(running().unwrap().contains(&first));
        assert!(first.command.contains("media"), "{}", first.command);
    }

    #[test]
    fn both_ways_to_look_see_the_same_process() {
        let by_ps = from_ps()
            .unwrap()
            .into_iter()
            .find(|p| p.pid == own())
            .unwrap();
        let found = find(own()).unwrap();
        assert_eq!((by_ps.group, &by_ps.command), (found.group, &found.command));
        assert_eq!(by_ps.started.split(' ').count(), 5, "{}", by_ps.started);
    }

    #[test]
    fn processes_are_found_by_the_whole_mark_in_their_environment() {
        let start = |folder: &str| {
            let mark = MARK.trim_end_matches('=');
            let sleep = Command::new("/bin/sleep")
                .arg("1000")
                .env(mark, folder)
                .spawn();
            sleep.unwrap()
        };
        let (mut ours, mut other) = (start("/attempts/a b"), start("/attempts/a b2"));
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
        let ids = |child: &std::process::Child| vec![i32::try_from(child.id()).unwrap()];
        // Between fork and exec it has our own environment.
        while marked_with(Path::new("/attempts/a b")).unwrap() != ids(&ours) {
            assert!(std::time::Instant::now() < deadline, "it was to be found");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        // The same by ps, which shows environments under another name here.
        let listed = ps(&["axeww", "-o", "pid=,stat=,command="]).unwrap();
        assert_eq!(
            marked_in(&listed, b"FENCEPOST_WORK=/attempts/a b"),
            ids(&ours)
        );
        for child in [&mut ours, &mut other] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn a_zombie_is_no_running_process_and_one_that_never_was_is_none() {
        let mut child = Command::new("/bin/sh")
            .args(["-c", "exit 0"])
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while find(pid).is_some() {
            assert!(std::time::Instant::now() < deadline, "it was to end");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(!running().unwrap().iter().any(|p| p.pid == pid));
        child.wait().unwrap();
        assert_eq!(find(i32::MAX), None);
    }
}
