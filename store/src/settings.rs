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
    /// How long files and records are kept.
    pub retention: Retention,
    /// What an org may use, unless an operator said otherwise.
    pub quotas: Quotas,
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
            retention: Retention::default(),
            quotas: Quotas::default(),
            max_connections: 16,
        }
    }
}

const DAY_MICROS: i64 = 24 * 3_600 * 1_000_000;

/// How long files and records are kept, in days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Inputs, output and artifacts of a job, after its end.
    pub files_days: u16,
    /// Uploads that no job ever started with.
    pub unused_uploads_days: u16,
    /// Records of jobs, after their end.
    pub records_days: u16,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            files_days: 30,
            unused_uploads_days: 7,
            records_days: 90,
        }
    }
}

impl Retention {
    /// How long files are kept, in microseconds.
    pub fn files_micros(self) -> i64 {
        i64::from(self.files_days) * DAY_MICROS
    }

    /// How long unused uploads are kept, in microseconds.
    pub fn unused_uploads_micros(self) -> i64 {
        i64::from(self.unused_uploads_days) * DAY_MICROS
    }

    /// How long records are kept, in microseconds.
    pub fn records_micros(self) -> i64 {
        i64::from(self.records_days) * DAY_MICROS
    }
}

/// What an org may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quotas {
    /// Jobs that have not ended.
    pub open_jobs: i64,
    /// Bytes of uploads, outputs, and the artifacts that are kept with them.
    pub stored_bytes: i64,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            open_jobs: 100_000,
            stored_bytes: 1 << 40,
        }
    }
}
