//! The matcher's choice: which waiting job goes to which free slot. Pure; the store locks the rows,
//! asks here, and writes the answer.
//!
//! What a job needs is a set of words (its *lane*): the service, codecs or hardware to be proven,
//! labels, or `own:<org>` for the org's own devices. A device may run a job if it has every word.

use std::collections::BTreeSet;

use crate::ids::{DeviceId, JobId, OrgId};
use crate::service::Capability;

/// The words a job needs, in one canonical text: sorted, separated by blanks.
pub fn lane(words: &BTreeSet<Capability>) -> String {
    words
        .iter()
        .map(|word| word.0.as_str())
        .collect::<Vec<_>>()
        .join(" ")
}

/// The word that stands for "one of this org's own devices".
pub fn own_device_word(org: OrgId) -> Capability {
    Capability::new(format!("own:{org}"))
}

/// The word that stands for a label that an operator put on a device.
pub fn label_word(label: &str) -> Capability {
    Capability::new(format!("label:{label}"))
}

/// A device with free slots.
#[derive(Debug, Clone)]
pub struct DeviceRoom {
    /// The device.
    pub device: DeviceId,
    /// How many attempts it can still take.
    pub free: usize,
    /// Every word it has.
    pub words: BTreeSet<String>,
}

/// A waiting job, already locked.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The job.
    pub job: JobId,
    /// Whose it is.
    pub org: OrgId,
    /// What it needs.
    pub lane: String,
    /// Devices that it must not go to now (they returned its offer a moment ago).
    pub barred: Vec<DeviceId>,
    /// Devices that failed it: any other is better.
    pub shunned: Vec<DeviceId>,
}

/// An org's share.
#[derive(Debug, Clone, Copy)]
pub struct OrgRoom {
    /// The org.
    pub org: OrgId,
    /// Its live attempts.
    pub live: i64,
    /// The most it may have; `None` is no limit.
    pub limit: Option<i64>,
}

/// One job for one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assignment {
    /// The job.
    pub job: JobId,
    /// The device.
    pub device: DeviceId,
}

/// Assigns jobs to devices. `candidates` are in queue order; the org with the fewest live attempts
/// goes first, so that one org's thousand jobs do not delay another's one.
pub fn assign(
    mut devices: Vec<DeviceRoom>,
    mut candidates: Vec<Candidate>,
    mut orgs: Vec<OrgRoom>,
) -> Vec<Assignment> {
    let mut assignments = Vec::new();
    while let Some((position, device)) = next_choice(&devices, &candidates, &orgs) {
        let candidate = candidates.remove(position);
        devices[device].free -= 1;
        if let Some(org) = orgs.iter_mut().find(|room| room.org == candidate.org) {
            org.live += 1;
        }
        assignments.push(Assignment {
            job: candidate.job,
            device: devices[device].device,
        });
    }
    assignments
}

/// The fairest candidate that some device can take: positions of both.
fn next_choice(
    devices: &[DeviceRoom],
    candidates: &[Candidate],
    orgs: &[OrgRoom],
) -> Option<(usize, usize)> {
    candidates
        .iter()
        .enumerate()
        .filter_map(|(position, candidate)| {
            let room = orgs.iter().find(|room| room.org == candidate.org)?;
            let open = room.limit.is_none_or(|limit| room.live < limit);
            let device = open.then(|| best_device(devices, candidate))??;
            Some((room.live, position, device))
        })
        .min()
        .map(|(_, position, device)| (position, device))
}

/// Prefers a device that has not failed this job, then the one with the most room.
fn best_device(devices: &[DeviceRoom], candidate: &Candidate) -> Option<usize> {
    devices
        .iter()
        .enumerate()
        .filter(|(_, room)| room.free > 0 && !candidate.barred.contains(&room.device))
        .filter(|(_, room)| {
            candidate
                .lane
                .split(' ')
                .all(|word| room.words.contains(word))
        })
        .min_by_key(|(_, room)| {
            (
                candidate.shunned.contains(&room.device),
                std::cmp::Reverse(room.free),
            )
        })
        .map(|(position, _)| position)
}

#[cfg(test)]
#[path = "matcher_tests.rs"]
mod tests;
