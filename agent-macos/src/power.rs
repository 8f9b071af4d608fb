//! Keeps the Mac awake while it works, and only then.

use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Something that can keep this machine awake.
pub trait Power: Send + Sync {
    /// Keeps it awake until the answer is dropped.
    fn hold(&self) -> io::Result<Awake>;
}

/// The machine stays awake while this lives.
#[derive(Debug)]
pub struct Awake {
    child: Option<Child>,
}

impl Drop for Awake {
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        // It may have ended by itself; that is no trouble, but it must be reaped either way.
        let killed = child.kill();
        if let Err(error) = killed.and_then(|()| child.wait().map(drop)) {
            tracing::warn!(%error, "the power assertion could not be let go");
        }
    }
}

/// Apple's `caffeinate`: while it runs, the system does not sleep from idleness.
#[derive(Debug)]
pub struct Caffeinate {
    program: PathBuf,
}

impl Caffeinate {
    /// Uses this program, which is Apple's or a stand-in.
    pub fn new(program: PathBuf) -> Self {
        Self { program }
    }
}

impl Power for Caffeinate {
    fn hold(&self) -> io::Result<Awake> {
        let child = Command::new(&self.program)
            // It ends with us, also when we are killed.
            .args(["-i", "-m", "-w"])
            .arg(std::process::id().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Awake { child: Some(child) })
    }
}

/// Where machines do not fall asleep by themselves.
#[derive(Debug)]
pub struct AlwaysOn;

impl Power for AlwaysOn {
    fn hold(&self) -> io::Result<Awake> {
        Ok(Awake { child: None })
    }
}

/// What this platform has.
pub fn of_this_machine() -> Box<dyn Power> {
    if cfg!(target_os = "macos") {
        Box::new(Caffeinate::new(PathBuf::from("/usr/bin/caffeinate")))
    } else {
        Box::new(AlwaysOn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;
    use std::time::Duration;

    /// A program that notes its arguments and process id, and then waits like the real one.
    fn stand_in(folder: &Path) -> Caffeinate {
        let program = folder.join("caffeinate");
        let notes = folder.join("notes");
        let script = format!(
            "#!/bin/sh\necho \"$$ $*\" > {}\nexec sleep 60\n",
            notes.display()
        );
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Caffeinate::new(program)
    }

    fn notes(folder: &Path) -> String {
        for _ in 0..200 {
            match fs::read_to_string(folder.join("notes")) {
                Ok(text) if text.ends_with('\n') => return text,
                Ok(_) | Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        panic!("the stand-in did not start");
    }

    fn is_alive(pid: &str) -> bool {
        let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
        rustix::process::test_kill_process(pid).is_ok()
    }

    #[test]
    fn the_assertion_lives_as_long_as_its_holder_and_is_bound_to_our_process() {
        let temp = tempfile::tempdir().unwrap();
        let awake = stand_in(temp.path()).hold().unwrap();
        let noted = notes(temp.path());
        let (pid, arguments) = noted.trim().split_once(' ').unwrap();
        assert_eq!(arguments, format!("-i -m -w {}", std::process::id()));
        assert!(is_alive(pid));
        drop(awake);
        assert!(!is_alive(pid));
    }

    #[test]
    fn a_panic_lets_go_of_the_assertion() {
        let temp = tempfile::tempdir().unwrap();
        let power = stand_in(temp.path());
        let folder = temp.path().to_owned();
        let worker = std::thread::spawn(move || {
            let _awake = power.hold().unwrap();
            let noted = notes(&folder);
            std::panic::panic_any(noted.split(' ').next().unwrap().to_owned());
        });
        let pid = *worker.join().unwrap_err().downcast::<String>().unwrap();
        assert!(!is_alive(&pid));
    }
}
