//! A child's process group: how all of its descendants are reached at once.

use rustix::process::{Pid, Signal, kill_process_group, setpriority_process};
use tokio::process::Child;

use crate::child::ChildLimits;
use crate::roster::Entered;

/// Encoders give way to whoever else wants the processor: to the renewal of their own lease, and to
/// the owner of the machine.
const NICENESS: i32 = 5;

/// The child's process group. Dropping it kills whatever is left in it.
pub(crate) struct Group {
    leader: Option<Pid>,
    entered: Option<Entered>,
}

impl Group {
    /// The group of a child that has just been started, and its entry in the roster.
    pub(crate) fn led_by(child: &Child, entered: Option<Entered>) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let mut group = Self {
            leader: id.and_then(Pid::from_raw),
            entered,
        };
        if let (Some(pid), Some(entered)) = (id, &mut group.entered)
            && let Err(error) = entered.started(pid)
        {
            // Its arguments are entered already, by which it can be found.
            tracing::warn!(%error, "which process a child is could not be noted");
        }
        group
    }

    /// Lets everybody else go first. Never a reason not to work.
    pub(crate) fn give_way(&self) {
        if let Err(error) = setpriority_process(self.leader, NICENESS) {
            tracing::debug!(%error, "priority not lowered");
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // An error means that nobody is left, which is what we want.
        if let Some(pid) = self.leader {
            let _ = kill_process_group(pid, signal);
        }
    }

    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Resource limits, set from outside right after the start: a hook between fork and exec would
    /// be unsafe code, and the wrapper of [`crate::Isolation`] hands limits on to what it becomes.
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
            if let Err(error) = prlimit(self.leader, resource, limit)
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
        if let Some(entered) = &self.entered {
            entered.close(self.leader);
        }
    }
}
