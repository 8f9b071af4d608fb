//! What an FFmpeg that did not succeed tells about whose fault it was.

use std::io;
use std::path::Path;

use crate::child::{Ended, Finished, LimitKind};
use crate::{FailureCode, MediaFailure};

/// Said by FFmpeg when this machine is at fault.
const DEVICE_SIGNS: &[&str] = &[
    "No space left on device",
    "Disk quota exceeded",
    "Cannot allocate memory",
    "Read-only file system",
    "Permission denied",
    "Input/output error",
    "Too many open files",
    // FFmpeg ended by a signal that somebody else sent it, for instance at shutdown.
    "received signal",
    "unshare:",
    "sandbox-exec:",
];

/// Said by FFmpeg when the source is at fault.
const INPUT_SIGNS: &[&str] = &[
    "Invalid data found when processing input",
    "moov atom not found",
    "corrupt input packet",
    "corrupt decoded frame",
    "Error while decoding stream",
    "Error submitting packet to decoder",
    "Error during demuxing",
    "decode_frame() failed",
    "Changing audio frame properties on the fly",
    "error while decoding",
    "partial file",
    "File ended prematurely",
    "does not contain any stream",
    "Truncating packet",
    "Decode error rate",
    "Task finished with error code: -1094995529",
];

/// Signals that come from outside: hangup, interrupt, kill, terminate.
const OUTSIDE_SIGNALS: &[i32] = &[1, 2, 9, 15];

/// The program could not be started.
pub(crate) fn not_started(program: &str, error: &io::Error) -> MediaFailure {
    MediaFailure::new(
        FailureCode::DeviceFault,
        format!("{program} does not start: {error}"),
    )
}

/// Nothing if the child succeeded, else whose fault it was.
pub(crate) fn require_success(
    what: &str,
    finished: &Finished,
    folder: &Path,
) -> Result<(), MediaFailure> {
    let said = finished.stderr.as_str();
    let (code, what) = match finished.ended {
        Ended::Success => return Ok(()),
        Ended::Stopped => return Err(MediaFailure::Stopped),
        Ended::LimitHit(LimitKind::RunTime) => (
            FailureCode::RuntimeExceeded,
            format!("{what} took longer than allowed"),
        ),
        Ended::LimitHit(LimitKind::Start | LimitKind::NoProgress) => {
            (FailureCode::Stalled, format!("{what} made no progress"))
        }
        Ended::LimitHit(LimitKind::FileSize) => (
            FailureCode::RunnerFailed,
            format!("{what} wrote a larger file than allowed"),
        ),
        Ended::Signal(signal) if OUTSIDE_SIGNALS.contains(&signal) => (
            FailureCode::DeviceFault,
            format!("{what} was killed from outside (signal {signal})"),
        ),
        Ended::Signal(signal) => (
            FailureCode::RunnerFailed,
            format!("{what} crashed (signal {signal})"),
        ),
        // What a wrapper and the loader of libraries end with when the program does not start.
        Ended::Failed(status @ (126 | 127)) => (
            FailureCode::DeviceFault,
            format!("{what} does not start (status {status})"),
        ),
        Ended::Failed(status) => (blame(said), format!("{what} failed (status {status})")),
    };
    Err(MediaFailure::quoting(code, &what, said, folder))
}

fn blame(said: &str) -> FailureCode {
    let says = |signs: &[&str]| signs.iter().any(|sign| said.contains(sign));
    if says(DEVICE_SIGNS) {
        FailureCode::DeviceFault
    } else if says(INPUT_SIGNS) {
        FailureCode::InputInvalid
    } else {
        FailureCode::RunnerFailed
    }
}
