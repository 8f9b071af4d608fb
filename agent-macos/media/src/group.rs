//! A child's process group: how all of its descendants are reached at once.

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;

use crate::child::ChildLimits;

/// The child's process group. Dropping it kills whatever is left in it.
pub(crate) struct Group(Option<Pid>);

impl Group {
    pub(crate) fn led_by(child: &Child) -> Self {
        Self(
            child
                .id()
                .and_then(|id| i32::try_from(id).ok())
                .and_then(Pid::from_raw),
        )
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // An error means that nobody is left, which is what we want.
        if let Some(pid) = self.0 {
            let _ = kill_process_group(pid, signal);
        }
    }

    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Resource limits, set from outside right after the start: a hook between fork and exec would
    /// be unsafe code, and the wrapper of [`Isolation`] hands limits on to what it becomes.
    #[cfg(target_os = "linux")]
    pub(crate) fn limit(&self, limits: &ChildLimits) {
        use rustix::process::{Resource, Rlimit, prlimit};

        let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
        // Bounds what a child can burn if we are killed ourselves and nobody ends it.
        let cpu_seconds = (limits.run_time.as_secs() + 1).saturating_mul(cores);
        let wanted = [
            (Resource::Core, Some(0)),
            (Resource::Cpu, Some(cpu_seconds)),
            (Resource::Fsize, limits.file_bytes),
            (Resource::Data, limits.memory_bytes),
        ];
        for (resource, value) in wanted.into_iter().filter(|(_, value)| value.is_some()) {
            let limit = Rlimit {
                current: value,
                maximum: value,
            };
            if let Err(error) = prlimit(self.0, resource, limit)
                && error != rustix::io::Errno::SRCH
            {
                tracing::debug!(?resource, %error, "resource limit not set");
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn limit(&self, _limits: &ChildLimits) {}
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
