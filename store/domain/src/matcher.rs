//! The matcher's choice: which waiting job goes to which free slot. Pure; the store locks the rows,
//! asks here, and writes the answer.
//!
//! What a job needs is a set of words (its *lane*): the service, codecs or hardware to be proven,
//! labels, inputs to be fetched from elsewhere, or `own:<org>` for the org's own devices. A device may
//! run a job if it has every word.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, VecDeque};

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

/// The word that stands for "fetches inputs from the buyers' own hosts": a worker that does not say it
/// is offered no job with such an input.
pub fn input_url_word() -> Capability {
    Capability::new("input.url")
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
    candidates: &[Candidate],
    orgs: &[OrgRoom],
) -> Vec<Assignment> {
    let mut queues: HashMap<OrgId, VecDeque<usize>> = HashMap::new();
    for (position, candidate) in candidates.iter().enumerate() {
        queues.entry(candidate.org).or_default().push_back(position);
    }
    // Smallest first: fewest live attempts, then whose head has waited longest.
    let mut turns: BinaryHeap<_> = orgs
        .iter()
        .filter_map(|room| {
            let head = queues.get(&room.org)?.front()?;
            Some(Reverse((room.live, *head, room.org)))
        })
        .collect();
    let able = devices_by_lane(&devices, candidates);
    let mut assignments = Vec::new();
    while let Some(Reverse((live, head, org))) = turns.pop() {
        let limit = orgs
            .iter()
            .find(|room| room.org == org)
            .and_then(|room| room.limit);
        if limit.is_some_and(|limit| live >= limit) {
            continue;
        }
        let candidate = &candidates[head];
        let device = best_device(&devices, &able[candidate.lane.as_str()], candidate);
        if let Some(device) = device {
            devices[device].free -= 1;
            let device = devices[device].device;
            assignments.push(Assignment {
                job: candidate.job,
                device,
            });
        }
        if let Some(queue) = queues.get_mut(&org) {
            queue.pop_front();
            let live = live + i64::from(device.is_some());
            turns.extend(queue.front().map(|head| Reverse((live, *head, org))));
        }
    }
    assignments
}

/// For each lane, the positions of the devices that have all its words.
fn devices_by_lane<'a>(
    devices: &[DeviceRoom],
    candidates: &'a [Candidate],
) -> HashMap<&'a str, Vec<usize>> {
    let mut able = HashMap::new();
    for candidate in candidates {
        able.entry(candidate.lane.as_str())
            .or_insert_with_key(|lane| {
                let has_all =
                    |room: &DeviceRoom| lane.split(' ').all(|word| room.words.contains(word));
                devices
                    .iter()
                    .enumerate()
                    .filter(|(_, room)| has_all(room))
                    .map(|(position, _)| position)
                    .collect()
            });
    }
    able
}

/// Prefers a device that has not failed this job, then the one with the most room.
fn best_device(devices: &[DeviceRoom], able: &[usize], candidate: &Candidate) -> Option<usize> {
    able.iter()
        .copied()
        .filter(|device| {
            let room = &devices[*device];
            room.free > 0 && !candidate.barred.contains(&room.device)
        })
        .min_by_key(|device| {
            let room = &devices[*device];
            (candidate.shunned.contains(&room.device), Reverse(room.free))
        })
}

#[cfg(test)]
#[path = "matcher_tests.rs"]
mod tests;
