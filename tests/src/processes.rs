//! Programs of the product as child processes: found, started, frozen, killed, and never left behind.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::wait::PATIENCE;

/// The product's program of this name, built from the same tree.
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    let folder = test
        .ancestors()
        .nth(2)
        .expect("it is in target/<profile>/deps");
    let program = folder.join(name);
    assert!(
        program.is_file(),
        "there is no {}: run `cargo build --workspace` first (`make test` does)",
        program.display()
    );
    program
}

/// Kills what this process started when this process ends without a word: a shell waits on a pipe
/// that only we hold open.
struct Undertaker {
    pipe: Option<ChildStdin>,
    _shell: Option<Child>,
}

/// Lines are `+pid` and `-pid`; what is left at the end of the pipe is killed.
const UNDERTAKER: &str = r#"trap '' HUP INT TERM; left=" "
while read -r line; do
    pid=${line#?}
    case $line in
        +*) left="$left$pid " ;;
        -*) left="${left%% "$pid" *} ${left#* "$pid" }" ;;
    esac
done
for pid in $left; do kill -9 "$pid"; done"#;

static UNDERTAKER_PIPE: LazyLock<Mutex<Undertaker>> = LazyLock::new(|| {
    let mut shell = Command::new("/bin/sh")
        .args(["-c", UNDERTAKER])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("there is a shell");
    Mutex::new(Undertaker {
        pipe: shell.stdin.take(),
        _shell: Some(shell),
    })
});

fn tell_undertaker(sign: char, pid: u32) {
    let mut undertaker = UNDERTAKER_PIPE
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if let Some(pipe) = &mut undertaker.pipe {
        writeln!(pipe, "{sign}{pid}").expect("the shell listens");
    }
}

/// A child process with its log in a file. Killed, with its children, when dropped.
pub struct Process {
    child: Child,
    log_file: PathBuf,
    has_ended: bool,
}

impl Process {
    /// Starts `command`; what it prints goes to the end of `log_file`.
    pub fn start(command: &mut Command, log_file: &Path) -> Self {
        let log = File::options()
            .create(true)
            .append(true)
            .open(log_file)
            .expect("the log can be written");
        let stdout = log.try_clone().expect("a file has many handles");
        let child = command
            .stdout(stdout)
            .stderr(log)
            .spawn()
            .expect("the program starts");
        tell_undertaker('+', child.id());
        Self {
            child,
            log_file: log_file.to_owned(),
            has_ended: false,
        }
    }

    /// Everything it has printed.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log_file).unwrap_or_default()).into_owned()
    }

    /// Its process id.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Signals it alone.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it runs");
    }

    /// Signals it and everything that descends from it, wherever its children moved.
    pub fn signal_tree(&self, signal: Signal) {
        signal_tree(self.pid(), signal);
    }

    /// Its living descendants.
    pub fn descendants(&self) -> Vec<Pid> {
        descendants(self.pid())
    }

    /// What everybody on the machine can see of it and its descendants: their arguments, a line each.
    pub fn arguments(&self) -> String {
        let mut family = self.descendants();
        family.push(self.pid());
        let pids: Vec<String> = family.iter().map(ToString::to_string).collect();
        let listing = Command::new("ps")
            .args(["-o", "args=", "-p", &pids.join(",")])
            .output()
            .expect("ps runs");
        String::from_utf8_lossy(&listing.stdout).into_owned()
    }

    /// Kills it and its descendants, as a power cut would.
    pub fn kill(&mut self) {
        if self.has_ended {
            return;
        }
        let family = self.descendants();
        self.child.kill().expect("it can be killed");
        for pid in family {
            let _ = kill_process(pid, Signal::KILL);
        }
        self.child.wait().expect("it is our child");
        self.buried();
    }

    /// Whether it has ended, and how.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().expect("it is our child");
        if status.is_some() {
            self.buried();
        }
        status
    }

    /// Waits until it has ended by itself.
    pub async fn wait(&mut self) -> ExitStatus {
        let deadline = std::time::Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.ended() {
                return status;
            }
            assert!(
                std::time::Instant::now() < deadline,
                "it does not end:\n{}",
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn buried(&mut self) {
        if !std::mem::replace(&mut self.has_ended, true) {
            tell_undertaker('-', self.child.id());
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Signals a process and everything that descends from it.
pub fn signal_tree(pid: Pid, signal: Signal) {
    // Itself first: while it stands still it starts nobody new.
    kill_process(pid, signal).expect("it runs");
    for child in descendants(pid) {
        // One that has just ended needs no signal.
        let _ = kill_process(child, signal);
    }
}

/// Everything that descends from `ancestor` and lives.
fn descendants(ancestor: Pid) -> Vec<Pid> {
    let listing = Command::new("ps")
        .args(["-eo", "pid=,ppid=,stat="])
        .output()
        .expect("ps runs");
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for line in String::from_utf8_lossy(&listing.stdout).lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [pid, parent, state] = words[..] else {
            continue;
        };
        if !state.starts_with('Z')
            && let (Ok(pid), Ok(parent)) = (pid.parse(), parent.parse())
        {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut next = vec![ancestor.as_raw_nonzero().get()];
    while let Some(parent) = next.pop() {
        for pid in children.remove(&parent).unwrap_or_default() {
            next.push(pid);
            found.extend(Pid::from_raw(pid));
        }
    }
    found
}

/// Runs a program of the product to its end.
pub async fn run(name: &str, args: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = tokio::process::Command::new(program(name));
    command
        .args(args)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    tokio::time::timeout(PATIENCE, command.output())
        .await
        .expect("it ends")
        .expect("it starts")
}
