//! What every piece of media work needs: tools, a private folder, limits, a way to stop it.

use std::path::PathBuf;

use crate::child::ChildLimits;
use crate::{Limits, StopSignal, Tools};

/// Where and how media work is done. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Workbench {
    /// The programs.
    pub tools: Tools,
    /// Working folder of every child: absolute, existing, of this piece of work alone.
    pub folder: PathBuf,
    /// Time and size limits.
    pub limits: Limits,
    /// Cancelling it ends the running child and the work with `Stopped`.
    pub stop: StopSignal,
}

impl Workbench {
    /// Limits for ffprobe: a hard deadline.
    pub(crate) fn probe_limits(&self) -> ChildLimits {
        ChildLimits {
            run_time: self.limits.probe_time,
            no_progress: None,
            ..self.work_limits()
        }
    }

    /// Limits for encoding and for decoding a whole file.
    pub(crate) fn work_limits(&self) -> ChildLimits {
        ChildLimits {
            run_time: self.limits.run_time,
            start: None,
            no_progress: Some(self.limits.no_progress),
            file_bytes: Some(self.limits.file_bytes),
            memory_bytes: Some(self.limits.memory_bytes),
        }
    }
}
