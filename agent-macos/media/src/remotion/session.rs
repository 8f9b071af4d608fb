//! One browser for one piece of work, in a folder of its own, and the limits that it has.

use std::ffi::{OsStr, OsString};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use super::heard::{Heard, Listener, Trouble};
use super::strays::Strays;
use super::wall::{HOSTS, Inside};
use super::{Remotion, disk};
use crate::child::{self, ChildLimits, ChildSpec, Stdout};
use crate::exit::not_started;
use crate::work::invalid;
use crate::{FailureCode, Isolation, MediaFailure, StopSignal, Workbench};

const SCRIPT: &str = include_str!("script.mjs");
const LAUNCHER: &str = include_str!("launcher.sh");
/// Of FFmpeg's isolation nothing is needed: the wall is tighter.
static NO_OTHER_WALL: Isolation = Isolation::None {
    reason: String::new(),
};
/// Sets the limits of every process behind the wall, and runs the rest. They are set from within,
/// because what the wall consists of may start processes before anybody outside can limit them.
/// Where a Linux runs short of memory they are the first that it ends.
const LIMITED: &str = r#"{ echo 1000 >/proc/self/oom_score_adj; } 2>/dev/null; ulimit -c 0; ulimit -t "$1"; ulimit -f "$2"; [ "$3" = 0 ] || ulimit -d "$3"; shift 3; exec "$@""#;
/// A browser that does not open is given up after so many, each in a new folder.
const TRIES: u32 = 2;

/// What a browser is to do.
#[derive(Debug)]
pub(crate) struct Errand<'a> {
    /// The folder with the bundle.
    pub(crate) bundle: &'a Path,
    /// Properties for its compositions.
    pub(crate) props: &'a Map<String, Value>,
    /// What to draw; nothing if the compositions are only listed.
    pub(crate) drawing: Option<Drawing<'a>>,
    /// Where the result goes when all is done.
    pub(crate) output: &'a Path,
}

/// Which composition is drawn, and which of its frames.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drawing<'a> {
    pub(crate) composition: &'a str,
    pub(crate) first_frame: Option<u32>,
    pub(crate) last_frame: Option<u32>,
}

/// Runs the errand; its result is at its output. A browser that does not open is tried once more, with
/// a new profile.
pub(crate) async fn run(
    bench: &Workbench,
    remotion: &Remotion,
    errand: &Errand<'_>,
    listener: &mut dyn Listener,
) -> Result<(), MediaFailure> {
    let mut number = 1;
    loop {
        let session = Session::open(bench, remotion, number)?;
        match session.run(errand, listener).await {
            Err(Trouble::Unopened(message)) if number < TRIES => {
                // Not as `message`, which is what the log calls the text itself.
                tracing::warn!(
                    why = message,
                    "the browser does not open; trying with a new profile"
                );
                number += 1;
            }
            Err(Trouble::Unopened(message)) => {
                let message = format!("{message} ({TRIES} tries, each with a new profile)");
                return Err(MediaFailure::new(FailureCode::DeviceFault, message));
            }
            Err(Trouble::Failed(failure)) => return Err(failure),
            Ok(()) => return Ok(()),
        }
    }
}

/// A folder with all that a browser writes. Whatever runs in it is ended with it, and the folder
/// deleted.
struct Session<'a> {
    bench: &'a Workbench,
    remotion: &'a Remotion,
    folder: PathBuf,
    strays: Strays,
}

/// What the script reads.
#[derive(Serialize)]
struct Task<'a> {
    packages: String,
    bundle: &'a Path,
    browser: PathBuf,
    mode: &'static str,
    port: u16,
    frame_ms: u128,
    props: &'a Map<String, Value>,
    output: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    composition: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_frame: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_frame: Option<u32>,
}

impl<'a> Session<'a> {
    fn open(
        bench: &'a Workbench,
        remotion: &'a Remotion,
        number: u32,
    ) -> Result<Self, MediaFailure> {
        let folder = bench.folder.join(format!("browser-{number}"));
        let session = Self {
            bench,
            remotion,
            strays: Strays::of(&folder),
            folder,
        };
        let made = session.furnish();
        made.map_err(|error| MediaFailure::io("the browser's folder cannot be made", &error))?;
        Ok(session)
    }

    fn furnish(&self) -> io::Result<()> {
        let mut private = std::fs::DirBuilder::new();
        private.mode(0o700).create(&self.folder)?;
        std::fs::write(self.folder.join("script.mjs"), SCRIPT)?;
        std::fs::write(self.folder.join(HOSTS.0), HOSTS.1)?;
        let launcher = self.folder.join("launcher.sh");
        std::fs::write(&launcher, LAUNCHER)?;
        std::fs::set_permissions(&launcher, std::fs::Permissions::from_mode(0o700))
    }

    async fn run(&self, errand: &Errand<'_>, listener: &mut dyn Listener) -> Result<(), Trouble> {
        let ports = free_ports().map_err(|error| MediaFailure::io("no port is free", &error))?;
        // Of the same name, whose ending Remotion goes by.
        let result = errand.output.file_name().unwrap_or_default();
        self.write_task(errand, ports[0], result)
            .map_err(|error| MediaFailure::io("the browser's task cannot be written", &error))?;
        // Ended by our own stop, or when what the script says is refused.
        let stop = self.bench.stop.child_token();
        let mut heard = Heard::default();
        let mut follow = |line: &str| {
            let moved = heard.take(line, listener);
            if heard.is_refused() {
                stop.cancel();
            }
            moved
        };
        let most = self.bench.limits.profile_bytes;
        let running = child::run(self.spec(errand, ports), Stdout::Lines(&mut follow), &stop);
        let growing = disk::outgrown(self.folder.clone(), most);
        let (finished, is_outgrown) = either(running, growing, &stop).await;
        let finished = finished.map_err(|error| not_started("the renderer", &error))?;
        // Nobody is left who could put something else in the place of the result.
        self.strays.end();
        if is_outgrown && !self.bench.stop.is_cancelled() {
            return Err(invalid(format!(
                "the bundle's page keeps more than {most} bytes in the browser (databases, caches)"
            ))
            .into());
        }
        let judged = heard.judge(&finished, (&self.bench.limits, &self.folder));
        judged.map_err(|trouble| self.or_full_disk(trouble))?;
        Ok(hand_over(&self.folder.join(result), errand.output).await?)
    }

    /// What fails on a full disk says nothing of the bundle, whoever's words it is in.
    fn or_full_disk(&self, trouble: Trouble) -> Trouble {
        match trouble {
            Trouble::Failed(MediaFailure::Failed { message, .. })
                if disk::is_full(&self.folder) =>
            {
                let message = format!("No space left on device: {message}");
                MediaFailure::new(FailureCode::DeviceFault, message).into()
            }
            other => other,
        }
    }

    /// A file of the folder, as it is called behind the wall.
    fn inside(&self, name: impl AsRef<Path>) -> PathBuf {
        self.remotion.wall.seen(&self.folder).join(name)
    }

    fn write_task(&self, errand: &Errand<'_>, port: u16, output: &OsStr) -> io::Result<()> {
        // As a folder, which is where Node begins to look for packages.
        let packages = format!("{}/", self.remotion.packages.display());
        let drawing = errand.drawing;
        let task = Task {
            packages,
            bundle: errand.bundle,
            browser: self.inside("launcher.sh"),
            mode: self.remotion.mode(),
            port,
            frame_ms: self.frame_time().as_millis(),
            props: errand.props,
            output: self.inside(output),
            composition: drawing.map(|drawing| drawing.composition),
            first_frame: drawing.and_then(|drawing| drawing.first_frame),
            last_frame: drawing.and_then(|drawing| drawing.last_frame),
        };
        std::fs::write(self.folder.join("task.json"), serde_json::to_vec(&task)?)
    }

    /// What the page itself is given for a frame: less than we wait, so that Remotion can say what it
    /// was waiting for.
    fn frame_time(&self) -> Duration {
        self.bench.limits.frame * 4 / 5
    }

    fn spec(&self, errand: &Errand<'_>, ports: [u16; 2]) -> ChildSpec<'_> {
        let limits = &self.bench.limits;
        ChildSpec {
            program: self.remotion.wall.program(),
            args: self.arguments(errand, ports),
            folder: &self.folder,
            limits: ChildLimits {
                run_time: limits.run_time,
                start: Some(limits.browser_start),
                no_progress: Some(limits.frame),
                // Set within.
                file_bytes: None,
                memory_bytes: None,
            },
            isolation: &NO_OTHER_WALL,
            roster: self.bench.tools.roster.as_ref(),
        }
    }

    /// The wall, the limits, the environment, and the script.
    fn arguments(&self, errand: &Errand<'_>, ports: [u16; 2]) -> Vec<OsString> {
        let of_remotion = self.remotion.readable();
        let mut readable: Vec<_> = of_remotion.iter().map(PathBuf::as_path).collect();
        readable.push(errand.bundle);
        let mut args = self.remotion.wall.arguments(Inside {
            folder: &self.folder,
            readable: &readable,
            ports,
        });
        args.extend(["/bin/sh", "-c", LIMITED, "sh"].map(OsString::from));
        args.extend(self.limits().map(|number| number.to_string().into()));
        args.extend(["/usr/bin/env".into(), "-i".into(), self.strays.mark()]);
        for (name, value) in [
            ("HOME", self.remotion.wall.seen(&self.folder)),
            ("TMPDIR", self.remotion.wall.seen(&self.folder)),
            ("FENCEPOST_BROWSER", self.remotion.browser.as_path()),
        ] {
            let mut word = OsString::from(format!("{name}="));
            word.push(value);
            args.push(word);
        }
        args.push(format!("FENCEPOST_DEBUG_PORT={}", ports[1]).into());
        args.push("PATH=/usr/bin:/bin:/usr/sbin:/sbin".into());
        args.push(self.remotion.node.clone().into());
        args.push(self.inside("script.mjs").into());
        args.push(self.inside("task.json").into());
        args
    }

    /// For `ulimit`: seconds of processor time, blocks of 512 bytes, and KiB of memory, of which macOS
    /// knows no limit.
    fn limits(&self) -> [u64; 3] {
        let limits = &self.bench.limits;
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
        let seconds = limits.run_time.as_secs().saturating_add(1);
        let memory = if cfg!(target_os = "linux") {
            limits.memory_bytes / 1024
        } else {
            0
        };
        [
            seconds.saturating_mul(cores),
            limits.scratch_bytes / 512,
            memory,
        ]
    }
}

/// Runs to the end, which comes soon once the alarm has stopped it; says whether it has.
async fn either<T>(
    running: impl Future<Output = T>,
    alarm: impl Future<Output = ()>,
    stop: &StopSignal,
) -> (T, bool) {
    tokio::pin!(running);
    tokio::select! {
        done = &mut running => (done, false),
        () = alarm => {
            stop.cancel();
            (running.await, true)
        }
    }
}

/// Moves the result out. A link in its place would lead to what only we may read.
async fn hand_over(result: &Path, output: &Path) -> Result<(), MediaFailure> {
    let cannot = |error| MediaFailure::io("what was rendered cannot be moved", &error);
    let found = tokio::fs::symlink_metadata(result).await;
    let is_missing = matches!(&found, Err(error) if error.kind() == io::ErrorKind::NotFound);
    if is_missing || !found.map_err(cannot)?.is_file() {
        let message = "the renderer said that it succeeded and wrote no file";
        return Err(MediaFailure::new(FailureCode::RunnerFailed, message));
    }
    tokio::fs::rename(result, output).await.map_err(cannot)
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.strays.end();
        if let Err(error) = disk::remove(&self.folder) {
            tracing::warn!(%error, "a browser's folder could not be removed");
        }
    }
}

/// Two ports of the loopback that nobody uses. On Linux the loopback is the browser's own, and any
/// would do.
fn free_ports() -> io::Result<[u16; 2]> {
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let (server, debugging) = (listen()?, listen()?);
    Ok([server.local_addr()?.port(), debugging.local_addr()?.port()])
}
