//! How long and how big media work may get.

use std::time::Duration;

const GIB: u64 = 1 << 30;

/// Limits of one piece of media work. Time is counted while we run, not while the machine sleeps
/// or our process is frozen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The longest that encoding may take, and then again the check.
    pub run_time: Duration,
    /// The longest that encoding or checking may stand still.
    pub no_progress: Duration,
    /// The longest that a browser may take until it is open.
    pub browser_start: Duration,
    /// The longest that a browser may take for one frame, and for anything else between two signs
    /// of life.
    pub frame: Duration,
    /// The longest that ffprobe may take: reading a header is a matter of milliseconds.
    pub probe_time: Duration,
    /// The largest file that a child may write, in bytes (Linux only).
    pub file_bytes: u64,
    /// The largest file that a browser may write, whose master is larger than what becomes of it.
    pub scratch_bytes: u64,
    /// The most that a page may make a browser keep in all files of its profile, in bytes.
    pub profile_bytes: u64,
    /// The most private memory that a child may use, in bytes (Linux only).
    pub memory_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            run_time: Duration::from_hours(6),
            no_progress: Duration::from_mins(2),
            browser_start: Duration::from_mins(1),
            frame: Duration::from_mins(1),
            probe_time: Duration::from_secs(20),
            file_bytes: 64 * GIB,
            scratch_bytes: 64 * GIB,
            profile_bytes: 2 * GIB,
            memory_bytes: 8 * GIB,
        }
    }
}
