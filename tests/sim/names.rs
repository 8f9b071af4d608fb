//! Which row is meant by which place, and which secret by which name.

use std::collections::HashMap;

use fencepost_domain::commit_token::CommitTokenDigest;
use fencepost_domain::fencing::LeaseClaim;
use fencepost_domain::ids::{AttemptId, DeviceId, JobId, ProviderId};
use fencepost_store::secrets::Credential;
use fencepost_tests::world::foreign_token;
use uuid::Uuid;

use crate::call::{Claim, Key};

/// The names of a list.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    /// Who owned the devices first.
    pub(crate) provider: ProviderId,
    pub(crate) devices: Vec<(DeviceId, Credential)>,
    jobs: HashMap<usize, JobId>,
    attempts: HashMap<Key, Known>,
    tokens: HashMap<(Key, i64), CommitTokenDigest>,
}

#[derive(Debug, Clone)]
struct Known {
    id: AttemptId,
    device: usize,
    output_key: String,
}

/// What a call tells that was not known.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    pub(crate) leased: Vec<(Key, AttemptId, usize, String)>,
    pub(crate) tokens: Vec<(Key, i64, CommitTokenDigest)>,
    pub(crate) credential: Option<(usize, Credential)>,
}

impl Names {
    pub(crate) fn new(provider: ProviderId, devices: Vec<(DeviceId, Credential)>) -> Self {
        Self {
            provider,
            devices,
            jobs: HashMap::new(),
            attempts: HashMap::new(),
            tokens: HashMap::new(),
        }
    }

    pub(crate) fn learn(&mut self, learned: Learned) {
        for (at, id, device, output_key) in learned.leased {
            self.attempts.insert(
                at,
                Known {
                    id,
                    device,
                    output_key,
                },
            );
        }
        for (at, token, digest) in learned.tokens {
            self.tokens.insert((at, token), digest);
        }
        if let Some((device, credential)) = learned.credential {
            self.devices[device].1 = credential;
        }
    }

    /// Ids are made in the order of places.
    pub(crate) fn name_job(&mut self, slot: usize) {
        self.jobs.insert(slot, JobId::new());
    }

    pub(crate) fn job(&self, slot: usize) -> JobId {
        self.jobs[&slot]
    }

    pub(crate) fn slot_of(&self, job: Uuid) -> Option<usize> {
        let mut jobs = self.jobs.iter();
        jobs.find(|(_, id)| id.0 == job).map(|(slot, _)| *slot)
    }

    pub(crate) fn device_place(&self, device: Uuid) -> Option<usize> {
        let mut devices = self.devices.iter();
        devices.position(|(id, _)| id.0 == device)
    }

    pub(crate) fn attempt(&self, at: Key) -> AttemptId {
        self.attempts[&at].id
    }

    /// The attempts in the order of their ids, which is nearly that in which they were leased.
    pub(crate) fn in_order(&self) -> Vec<Key> {
        let mut all: Vec<_> = self.attempts.iter().collect();
        all.sort_unstable_by_key(|(_, known)| known.id);
        all.into_iter().map(|(at, _)| *at).collect()
    }

    pub(crate) fn output_key(&self, at: Key) -> &str {
        &self.attempts[&at].output_key
    }

    /// The place of an attempt; one that nobody has told of is the newest of its job.
    pub(crate) fn key_of(&self, job: JobId, attempt: AttemptId) -> Key {
        let mut known = self.attempts.iter();
        if let Some((at, _)) = known.find(|(_, known)| known.id == attempt) {
            return *at;
        }
        let slot = self.slot_of(job.0).unwrap_or(usize::MAX);
        let numbers = self.attempts.keys().filter(|at| at.0 == slot);
        (slot, numbers.map(|at| at.1).max().unwrap_or(0) + 1)
    }

    /// The same by its id alone.
    pub(crate) fn key_of_attempt(&self, attempt: AttemptId) -> Key {
        let mut known = self.attempts.iter();
        let found = known.find(|(_, known)| known.id == attempt);
        found.map_or((usize::MAX, 0), |(at, _)| *at)
    }

    pub(crate) fn claim(&self, claim: &Claim) -> LeaseClaim {
        let known = &self.attempts[&claim.at];
        let device = (known.device + usize::from(claim.stranger)) % self.devices.len();
        LeaseClaim {
            device: self.devices[device].0,
            job: self.job(claim.at.0),
            attempt: known.id,
            epoch: claim.pair.epoch,
        }
    }

    pub(crate) fn token(&self, at: Key, token: i64) -> CommitTokenDigest {
        let known = self.tokens.get(&(at, token)).copied();
        known.unwrap_or_else(|| foreign_token().digest())
    }

    pub(crate) fn token_of(&self, at: Key, hexadecimal: &str) -> Option<i64> {
        let mut known = self.tokens.iter().filter(|((of, _), _)| *of == at);
        known
            .find(|(_, digest)| hex::encode(digest.as_bytes()) == hexadecimal)
            .map(|((_, token), _)| *token)
    }
}
