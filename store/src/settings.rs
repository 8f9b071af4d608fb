//! The lengths of time and sizes that the store's decisions use.

use fencepost_domain::duration::LeaseDuration;

/// What a store needs to know besides where the database is.
#[derive(Debug, Clone)]
pub struct StoreSettings {
    /// Length of a lease from an accept or a renewal on.
    pub lease_ttl: LeaseDuration,
    /// How long an offer waits to be accepted.
    pub offer_accept: LeaseDuration,
    /// How long a cancelled attempt has to confirm that it stopped.
    pub cancel_grace: LeaseDuration,
    /// How long a verification may be silent before another gateway takes it over.
    pub verification_takeover: LeaseDuration,
    /// How long a link to an object can be used.
    pub grant: LeaseDuration,
    /// How long a transfer may go on after its link has expired: objects of ended attempts are kept
    /// at least that much longer.
    pub longest_transfer: LeaseDuration,
    /// Connections to Postgres.
    pub max_connections: u32,
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            lease_ttl: LeaseDuration::seconds(60),
            offer_accept: LeaseDuration::seconds(10),
            cancel_grace: LeaseDuration::seconds(15),
            verification_takeover: LeaseDuration::seconds(60),
            grant: LeaseDuration::seconds(15 * 60),
            longest_transfer: LeaseDuration::seconds(6 * 3600),
            max_connections: 16,
        }
    }
}
