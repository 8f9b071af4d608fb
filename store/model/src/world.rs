//! What the authority stores, as small as it can be.

use fencepost_domain::attempt::AttemptStatus;
use fencepost_domain::job::JobStatus;

/// The most devices of a world.
pub const DEVICES: usize = 2;
/// The most jobs of a world.
pub const JOBS: usize = 2;
/// The most attempts of a world, over all its jobs.
pub const ATTEMPTS: usize = 4;
/// Older than this is as old as this: no clock jumps back further.
pub(crate) const LONG_AGO: i8 = -2;

/// A lease epoch with its secret. Secrets are named by the epoch that they were minted with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pair {
    /// The fencing number.
    pub epoch: u8,
    /// The secret.
    pub token: u8,
}

impl Pair {
    /// What is handed out when `epoch` is minted.
    pub fn minted(epoch: u8) -> Self {
        let token = epoch;
        Self { epoch, token }
    }
}

/// The authority's clock. Its present is always 0; everything else is relative to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Clock {
    /// Where the durable high-water mark is; above 0 the clock has gone back behind it.
    pub mark: i8,
    /// How often it has jumped back.
    pub jumps: u8,
}

impl Clock {
    /// Whether everything that compares an expiry must wait.
    pub fn has_regressed(self) -> bool {
        self.mark > 0
    }
}

/// A device's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Device {
    /// The session that said hello last; 0 for none.
    pub current: u8,
    /// Whether an operator lets it work.
    pub enabled: bool,
}

/// A job's row, with what its outbox and ledger hold of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Job {
    /// Where it stands.
    pub status: JobStatus,
    /// The highest epoch ever minted for it.
    pub epochs: u8,
    /// Charged attempts.
    pub charged: u8,
    /// Whether its admission deadline has passed.
    pub overdue: bool,
    /// Whether it ever was cancelling.
    pub was_cancelling: bool,
    /// Terminal events in the outbox.
    pub events: u8,
    /// Times that its hold was captured.
    pub captured: u8,
    /// Times that its hold was given back whole.
    pub released: u8,
    /// The attempts whose output was published, one bit each.
    pub outputs: u8,
}

impl Job {
    /// A job that was just submitted, its price held.
    pub fn submitted() -> Self {
        Self {
            status: JobStatus::Queued,
            epochs: 0,
            charged: 0,
            overdue: false,
            was_cancelling: false,
            events: 0,
            captured: 0,
            released: 0,
            outputs: 0,
        }
    }
}

/// An attempt's row. What can matter no more once it has ended is zeroed then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attempt {
    /// Its job, by place.
    pub job: u8,
    /// Its device, by place.
    pub device: u8,
    /// The session that it was leased or resumed under.
    pub session: u8,
    /// Where it stands.
    pub status: AttemptStatus,
    /// Whether the agent took the offer.
    pub accepted: bool,
    /// Resumes in a row without gain.
    pub resumes: u8,
    /// The epoch that it was leased with.
    pub first: u8,
    /// The current epoch and secret.
    pub lease: Pair,
    /// Ticks to the end of the lease; while committing, to when another gateway may take over.
    pub until: i8,
    /// The pair before the last resume, until the new one is presented.
    pub replaced: Option<Pair>,
    /// Who wrote the stored commit, fail or release.
    pub writer: Option<Pair>,
    /// The current pick-up of its verification; 0 before a commit.
    pub pickup: u8,
    /// Pick-ups that some gateway is still at, one bit each.
    pub tickets: u8,
    /// Whether it used up the job's budget.
    pub charged: bool,
}

impl Attempt {
    /// Whether the agent's lease would still hold at the latest time that was ever durably seen.
    pub fn is_unexpired(&self, clock: Clock) -> bool {
        self.until > clock.mark.max(0)
    }
}

/// All that is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct World {
    /// The clock.
    pub clock: Clock,
    /// The devices.
    pub devices: [Device; DEVICES],
    /// The jobs that were submitted.
    pub jobs: [Option<Job>; JOBS],
    /// The attempts, in the order in which they were leased.
    pub attempts: [Option<Attempt>; ATTEMPTS],
    /// A job's status as an unlocked join saw it. Only a planted fault looks.
    pub snapshot: [Option<JobStatus>; JOBS],
}

impl World {
    /// Nothing submitted; every device has said hello in its session 1.
    pub fn new() -> Self {
        Self {
            clock: Clock::default(),
            devices: [Device {
                current: 1,
                enabled: true,
            }; DEVICES],
            jobs: [None; JOBS],
            attempts: [None; ATTEMPTS],
            snapshot: [None; JOBS],
        }
    }

    /// The attempts with their places.
    pub fn attempts(&self) -> impl Iterator<Item = (usize, &Attempt)> {
        let placed = self.attempts.iter().enumerate();
        placed.filter_map(|(at, attempt)| attempt.as_ref().map(|attempt| (at, attempt)))
    }

    /// The jobs with their places.
    pub fn jobs(&self) -> impl Iterator<Item = (usize, &Job)> {
        let placed = self.jobs.iter().enumerate();
        placed.filter_map(|(at, job)| job.as_ref().map(|job| (at, job)))
    }

    /// The live attempts of a job.
    pub fn live_of(&self, job: usize) -> impl Iterator<Item = &Attempt> {
        self.attempts()
            .map(|(_, attempt)| attempt)
            .filter(move |one| usize::from(one.job) == job && one.status.is_live())
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}
