//! The one place that starts a process, and the promise that none outlives its work.
//!
//! A child leads a process group of its own, so that a terminal's Ctrl-C does not reach it and we
//! can end all of its descendants at once. It has no stdin (one `q` there would end FFmpeg early,
//! with status 0), an empty environment, and pipes that are drained whatever happens, because a
//! full pipe stops both sides. However [`run`] ends, also when its future is dropped, the group is
//! killed and the child reaped.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use crate::group::Group;
use crate::tail::Tail;
use crate::{Isolation, Roster, StopSignal};

/// Between asking a child to end and killing it. What it wrote is thrown away in any case, so this
/// is only for the order of a wrapper and what it started. With the rest it stays far below the two
/// seconds in which everything must be over.
const TERM_GRACE: Duration = Duration::from_millis(500);
/// How long a killed child may need to go; one stuck in the kernel is left to the reaper.
const KILL_GRACE: Duration = Duration::from_millis(400);
/// How long pipes may stay open after the child's end (a descendant that left the group).
const PIPE_GRACE: Duration = Duration::from_millis(200);
const TICK: Duration = Duration::from_millis(100);
/// The most that one tick may count. When our process was frozen or the machine slept, the child
/// did not work either, and that time is not held against it.
const LONGEST_TICK: Duration = Duration::from_secs(2);
const STDERR_KEPT: usize = 16 * 1024;

/// What to run.
#[derive(Debug)]
pub struct ChildSpec<'a> {
    /// Absolute path of the program.
    pub program: &'a Path,
    /// Its arguments. No shell is involved.
    pub args: Vec<OsString>,
    /// Working folder.
    pub folder: &'a Path,
    /// When to end it.
    pub limits: ChildLimits,
    /// How to keep it from the network.
    pub isolation: &'a Isolation,
    /// Where it is entered in case that we are killed; none if it does not matter.
    pub roster: Option<&'a Roster>,
}

/// When a child is ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildLimits {
    /// The longest it may run.
    pub run_time: Duration,
    /// The longest until its output shows progress for the first time; none if that is like later.
    pub start: Option<Duration>,
    /// The longest it may go without its output showing progress; none if it shows none.
    pub no_progress: Option<Duration>,
    /// The largest file it may write, in bytes (Linux only).
    pub file_bytes: Option<u64>,
    /// The most private memory it may use, in bytes (Linux only).
    pub memory_bytes: Option<u64>,
}

impl ChildLimits {
    /// The limit that is reached by a child that has run for so long and stood still for so long, and
    /// has moved before or not.
    fn hit_after(&self, ran: Duration, stood: Duration, has_moved: bool) -> Option<LimitKind> {
        let (longest, kind) = match self.start {
            Some(start) if !has_moved => (Some(start), LimitKind::Start),
            Some(_) | None => (self.no_progress, LimitKind::NoProgress),
        };
        if ran >= self.run_time {
            return Some(LimitKind::RunTime);
        }
        longest.filter(|&longest| stood >= longest).map(|_| kind)
    }
}

/// What becomes of the child's stdout.
pub enum Stdout<'a> {
    /// Kept, up to so many bytes; the rest is read and thrown away.
    Keep(usize),
    /// Given line by line to a function that says whether the line shows progress.
    Lines(&'a mut (dyn FnMut(&str) -> bool + Send)),
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Exit status 0.
    Success,
    /// Any other exit status that we did not cause.
    Failed(i32),
    /// Ended by a signal that we did not send.
    Signal(i32),
    /// We stopped it, whatever its status says.
    Stopped,
    /// It reached a limit.
    LimitHit(LimitKind),
}

/// The limits that a child can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitKind {
    /// [`ChildLimits::run_time`], or the processor time that belongs to it.
    RunTime,
    /// [`ChildLimits::start`].
    Start,
    /// [`ChildLimits::no_progress`].
    NoProgress,
    /// [`ChildLimits::file_bytes`].
    FileSize,
}

/// A child that is gone.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub ended: Ended,
    /// What was kept of stdout.
    pub stdout: Vec<u8>,
    /// Whether stdout was longer than what was kept.
    pub stdout_cut: bool,
    /// The last KiB of stderr, valid UTF-8, whole lines.
    pub stderr: String,
}

/// Runs a child to its end, or ends it.
///
/// `Err` means that it could not be started at all.
pub async fn run(
    spec: ChildSpec<'_>,
    stdout: Stdout<'_>,
    stop: &StopSignal,
) -> io::Result<Finished> {
    if stop.is_cancelled() {
        return Ok(Finished::new(Ended::Stopped));
    }
    let limits = spec.limits.clone();
    let (mut child, group) = start(spec)?;
    let moves = AtomicU64::new(0);
    let mut kept = Kept {
        bytes: Vec::new(),
        cut: false,
    };
    let mut tail = Tail::new(STDERR_KEPT);
    let (out_pipe, err_pipe) = (child.stdout.take(), child.stderr.take());
    let ended = {
        let drains = async {
            tokio::join!(
                drain_stdout(out_pipe, stdout, &mut kept, &moves),
                drain_stderr(err_pipe, &mut tail)
            )
        };
        tokio::pin!(drains);
        let supervision = supervise(&mut child, &group, &limits, stop, &moves);
        tokio::pin!(supervision);
        let mut drained = false;
        let ended = loop {
            tokio::select! {
                ended = &mut supervision => break ended?,
                _ = &mut drains, if !drained => drained = true,
            }
        };
        // Descendants that the child left behind hold the pipes open, and have no business left.
        group.kill();
        if !drained && timeout(PIPE_GRACE, &mut drains).await.is_err() {
            tracing::debug!("a descendant outside the process group keeps the pipes open");
        }
        ended
    };
    Ok(Finished {
        ended,
        stdout: kept.bytes,
        stdout_cut: kept.cut,
        stderr: tail.text(),
    })
}

impl Finished {
    fn new(ended: Ended) -> Self {
        Self {
            ended,
            stdout: Vec::new(),
            stdout_cut: false,
            stderr: String::new(),
        }
    }
}

fn start(spec: ChildSpec<'_>) -> io::Result<(Child, Group)> {
    let (program, leading): (PathBuf, Vec<OsString>) = spec.isolation.wrap(spec.program);
    let entered = match spec.roster {
        Some(roster) => Some(roster.enter(&spec.args, spec.folder)?),
        None => None,
    };
    let started = Command::new(program)
        .args(leading)
        .args(spec.args)
        .current_dir(spec.folder)
        .env_clear()
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    let child = match (started, &entered) {
        (Ok(child), _) => child,
        (Err(error), entered) => {
            if let Some(entered) = entered {
                entered.close(None);
            }
            return Err(error);
        }
    };
    let group = Group::led_by(&child, entered);
    group.limit(&spec.limits);
    group.give_way();
    Ok((child, group))
}

/// Waits for the child's own end, our stop, or a limit.
async fn supervise(
    child: &mut Child,
    group: &Group,
    limits: &ChildLimits,
    stop: &StopSignal,
    moves: &AtomicU64,
) -> io::Result<Ended> {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut last_tick, mut last_move) = (Instant::now(), 0);
    let (mut ran, mut stood) = (Duration::ZERO, Duration::ZERO);
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => {
                end(child, group).await;
                return Ok(Ended::Stopped);
            }
            status = child.wait() => return Ok(classify(status?)),
            _ = ticks.tick() => {
                let step = last_tick.elapsed().min(LONGEST_TICK);
                last_tick = Instant::now();
                ran += step;
                stood += step;
                let moved = moves.load(Ordering::Relaxed);
                if moved != last_move {
                    (last_move, stood) = (moved, Duration::ZERO);
                }
                let Some(kind) = limits.hit_after(ran, stood, last_move > 0) else {
                    continue;
                };
                end(child, group).await;
                return Ok(Ended::LimitHit(kind));
            }
        }
    }
}

/// Asks the whole group to end, then makes it.
async fn end(child: &mut Child, group: &Group) {
    group.signal(Signal::TERM);
    // A frozen process would see the request only once it is thawed.
    group.signal(Signal::CONT);
    if timeout(TERM_GRACE, child.wait()).await.is_err() {
        group.kill();
        if timeout(KILL_GRACE, child.wait()).await.is_err() {
            tracing::warn!("a killed child does not go away; it is reaped when it does");
        }
    }
}

fn classify(status: ExitStatus) -> Ended {
    use std::os::unix::process::ExitStatusExt;

    match (status.code(), status.signal()) {
        (Some(0), _) => Ended::Success,
        (Some(code), _) => Ended::Failed(code),
        (None, Some(signal)) if signal == Signal::XFSZ.as_raw() => {
            Ended::LimitHit(LimitKind::FileSize)
        }
        (None, Some(signal)) if signal == Signal::XCPU.as_raw() => {
            Ended::LimitHit(LimitKind::RunTime)
        }
        (None, signal) => Ended::Signal(signal.unwrap_or_default()),
    }
}

struct Kept {
    bytes: Vec<u8>,
    cut: bool,
}

/// A line longer than this is no line of FFmpeg's; the rest of it is dropped.
const LONGEST_LINE: usize = 8 * 1024;

async fn drain_stdout(
    pipe: Option<impl AsyncRead + Unpin>,
    mut usage: Stdout<'_>,
    kept: &mut Kept,
    moves: &AtomicU64,
) {
    let mut line = Vec::new();
    read_all(pipe, |chunk| match &mut usage {
        Stdout::Keep(most) => {
            let room = most.saturating_sub(kept.bytes.len());
            kept.cut |= chunk.len() > room;
            kept.bytes
                .extend_from_slice(&chunk[..chunk.len().min(room)]);
        }
        Stdout::Lines(on_line) => {
            for &byte in chunk {
                if byte == b'\n' {
                    if on_line(String::from_utf8_lossy(&line).trim()) {
                        moves.fetch_add(1, Ordering::Relaxed);
                    }
                    line.clear();
                } else if line.len() < LONGEST_LINE {
                    line.push(byte);
                }
            }
        }
    })
    .await;
}

async fn drain_stderr(pipe: Option<impl AsyncRead + Unpin>, tail: &mut Tail) {
    read_all(pipe, |chunk| tail.push(chunk)).await;
}

/// Reads to the end. An error ends the reading; the child's exit status tells the rest.
async fn read_all(pipe: Option<impl AsyncRead + Unpin>, mut on_chunk: impl FnMut(&[u8])) {
    let Some(mut pipe) = pipe else { return };
    let mut chunk = vec![0; 32 * 1024];
    while let Ok(n @ 1..) = pipe.read(&mut chunk).await {
        on_chunk(&chunk[..n]);
    }
}
