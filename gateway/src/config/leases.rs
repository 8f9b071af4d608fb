//! `[leases]`: the lengths of time that decide about leases. Written `60s`, `250ms`, `15m`, `2h`.

use fencepost_domain::duration::LeaseDuration;
use serde::{Deserialize, Serialize};

/// `[leases]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LeasesConfig {
    /// Length of a lease from an accept or a renewal on.
    pub ttl: LeaseDuration,
    /// How long an offer waits to be accepted.
    pub accept: LeaseDuration,
    /// How often an agent renews.
    pub renew: LeaseDuration,
    /// How long an agent waits for the answer to a renewal before it reconnects.
    pub answer: LeaseDuration,
    /// How long a cancelled attempt has to confirm that it stopped.
    pub cancel_grace: LeaseDuration,
    /// How often each side of a socket says that it is there.
    pub heartbeat: LeaseDuration,
    /// A socket is dead after this long a silence.
    pub session_dead: LeaseDuration,
    /// How often ended leases are looked for.
    pub sweep: LeaseDuration,
    /// How long a verification may be silent before another gateway takes it over.
    pub verification_takeover: LeaseDuration,
    /// How long a signed link can be used to start a transfer.
    pub grant: LeaseDuration,
    /// A job's budget of charged attempts, unless the buyer says otherwise: 1 to 10.
    pub max_attempts: i32,
    /// A job is not started any more after this long, unless the buyer says otherwise.
    pub admission_deadline: LeaseDuration,
    /// The longest run of one attempt.
    pub run_time: LeaseDuration,
    /// The longest wait before an agent that holds a lease reconnects.
    pub reconnect_max: LeaseDuration,
    /// How long a pull waits for work before it is answered `no_work`.
    pub pull: LeaseDuration,
}

impl Default for LeasesConfig {
    fn default() -> Self {
        Self {
            ttl: LeaseDuration::seconds(60),
            accept: LeaseDuration::seconds(10),
            renew: LeaseDuration::seconds(20),
            answer: LeaseDuration::seconds(10),
            cancel_grace: LeaseDuration::seconds(15),
            heartbeat: LeaseDuration::seconds(15),
            session_dead: LeaseDuration::seconds(45),
            sweep: LeaseDuration::seconds(1),
            verification_takeover: LeaseDuration::seconds(60),
            grant: LeaseDuration::seconds(15 * 60),
            max_attempts: 3,
            admission_deadline: LeaseDuration::seconds(24 * 3600),
            run_time: LeaseDuration::seconds(6 * 3600),
            reconnect_max: LeaseDuration::seconds(5),
            pull: LeaseDuration::seconds(30),
        }
    }
}
