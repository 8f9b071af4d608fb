//! How often the actors do what.

use std::time::Duration;

use fencepost_protocol::Intervals;

use crate::announcer::WatchLimits;

/// Periods and bounds.
#[derive(Debug, Clone)]
pub struct ActorSettings {
    /// What agents are told in `welcome`.
    pub intervals: Intervals,
    /// How often ended leases are looked for.
    pub sweep: Duration,
    /// How long a pull waits for work before it is answered `no_work`.
    pub pull: Duration,
    /// How often a verifier says that it is still at it.
    pub verification_renewal: Duration,
    /// How many outputs are checked at once.
    pub verifications: usize,
    /// The largest output that an agent may send, in bytes.
    pub max_output_bytes: u64,
    /// How many may watch jobs.
    pub watching: WatchLimits,
}

impl Default for ActorSettings {
    fn default() -> Self {
        Self {
            intervals: Intervals {
                lease_ttl_ms: 60_000,
                renew_ms: 20_000,
                answer_ms: 10_000,
                heartbeat_ms: 15_000,
                dead_ms: 45_000,
                reconnect_max_ms: 5_000,
            },
            sweep: Duration::from_secs(1),
            pull: Duration::from_secs(30),
            verification_renewal: Duration::from_secs(20),
            verifications: 2,
            max_output_bytes: 64 << 30,
            watching: WatchLimits {
                streams: 1_000,
                per_org: 100,
            },
        }
    }
}
