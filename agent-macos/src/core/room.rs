//! Whether this machine can take more work: room on its disk, and nothing left of earlier work.
//!
//! An attempt needs room for its inputs, for an output that may be as large, and once more as much
//! for what an encoder writes twice: three times the inputs, and a floor for everything small. That
//! is a guess, and where it was wrong, the disk is full and the attempt fails as `device_fault`.
//! Either way no more is asked for until there is more room, or until the job in question has surely
//! gone elsewhere.

use fencepost_domain::ids::AttemptId;
use fencepost_domain::service::InputForm;
use fencepost_protocol::LeaseOffer;

use super::Core;
use super::held::Held;
use crate::clock::Moment;

/// How often the inputs' bytes must fit on the disk.
pub(crate) const INPUTS_TIMES: u64 = 3;
/// What an input has that is elsewhere and of which nobody says how large it is, in bytes. A guess.
const UNKNOWN_BYTES: u64 = 512 << 20;
/// What every attempt needs beside, in bytes.
const FLOOR_BYTES: u64 = 16 << 20;
/// A job that was declined is not offered to the same device again for this long.
const ELSEWHERE_MS: u64 = 5 * 60 * 1_000;
/// What a disk without room says, whoever writes.
const FULL_DISK_SIGNS: [&str; 2] = ["No space left on device", "Disk quota exceeded"];

/// What the driver sees of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Room {
    /// Bytes that may still be written into the state folder; none if that is not known.
    pub free_bytes: Option<u64>,
    /// Bytes that the workspaces hold.
    pub used_bytes: u64,
    /// Children of earlier work that cannot be ended.
    pub strays: usize,
}

/// What was found to be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Missing {
    /// So much must be available.
    bytes: u64,
    /// From then on it does not matter any more.
    until: Moment,
}

/// What an offer needs on the disk, in bytes.
pub(super) fn bytes_needed(offer: &LeaseOffer) -> u64 {
    let inputs = offer.inputs.iter().map(|input| {
        let unknown = UNKNOWN_BYTES.min(input.max_bytes.unwrap_or(0));
        // Of a bundle only the manifest's size is said.
        let form = InputForm::named(&offer.service, &input.name);
        let said = input.size_bytes.filter(|_| form != Some(InputForm::Bundle));
        said.unwrap_or(unknown)
    });
    inputs
        .fold(0, u64::saturating_add)
        .saturating_mul(INPUTS_TIMES)
        .saturating_add(FLOOR_BYTES)
}

/// Whether a failure says that the disk is full.
pub(super) fn is_full_disk(code: &str, message: &str) -> bool {
    code == "device_fault" && FULL_DISK_SIGNS.iter().any(|sign| message.contains(sign))
}

impl Core {
    /// The machine was looked at. Call it before an offer or a job's end is handed in, and once a
    /// second while [`Core::is_short_of_room`].
    pub fn on_room(&mut self, room: Room, now: Moment) {
        self.room = room;
        let met = |missing: &Missing| {
            now >= missing.until || self.available().is_none_or(|bytes| bytes >= missing.bytes)
        };
        if self.missing.as_ref().is_some_and(met) {
            tracing::info!("there is room for work again");
            self.missing = None;
        }
        self.maybe_pull(now);
    }

    /// Whether no work is asked for because the machine cannot take it.
    pub fn is_short_of_room(&self) -> bool {
        self.room.strays > 0 || self.missing.is_some()
    }

    /// Why this offer cannot be taken, if it cannot. Remembers what is missing.
    pub(super) fn no_room_for(&mut self, offer: &LeaseOffer, now: Moment) -> Option<&'static str> {
        if self.room.strays > 0 {
            return Some("no capacity: an encoder of earlier work cannot be ended");
        }
        let bytes = bytes_needed(offer);
        let available = self.available()?;
        if available >= bytes {
            return None;
        }
        tracing::warn!(
            available,
            needed = bytes,
            "too little room on the disk for an offer"
        );
        self.reap_all();
        let until = now.after_millis(ELSEWHERE_MS);
        self.missing = Some(Missing { bytes, until });
        Some("no capacity: too little room on the disk")
    }

    /// The disk was full although there seemed to be room. What was written is gone again; so there
    /// must be more room than there is now.
    pub(super) fn on_full_disk(&mut self, attempt: AttemptId, now: Moment) {
        self.reap_all();
        let Some(available) = self.available() else {
            return;
        };
        tracing::error!(attempt.id = %attempt, available, "the disk was full");
        self.missing = Some(Missing {
            bytes: available.saturating_add(FLOOR_BYTES),
            until: now.after_millis(ELSEWHERE_MS),
        });
    }

    /// Bytes that are not spoken for: what running attempts have not used yet is theirs.
    fn available(&self) -> Option<u64> {
        let spoken_for = self.held.values().map(Held::bytes_needed);
        let spoken_for = spoken_for.fold(0, u64::saturating_add);
        let whole = self.room.free_bytes?.saturating_add(self.room.used_bytes);
        Some(whole.saturating_sub(spoken_for))
    }
}
