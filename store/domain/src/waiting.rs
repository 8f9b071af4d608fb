//! Why a queued job does not run, as far as that can be said.

/// What is known about a lane and its org at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueFacts {
    /// Live attempts of the org, and the most that it may have, if it has a limit.
    pub org_limit: Option<(i64, i64)>,
    /// Enabled devices that have every word of the lane.
    pub capable: i64,
    /// Those of them that are connected.
    pub connected: i64,
    /// Those of them that get new work; none if all of them have failed too often of late.
    pub open: i64,
    /// Those of them that have a slot free.
    pub free: i64,
    /// What the device that comes nearest lacks; every word if there is no device.
    pub missing: Vec<String>,
}

/// Why a job waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waiting {
    /// Its org has as many attempts as it may have.
    OrgLimit {
        /// Its live attempts.
        live: i64,
        /// The most.
        limit: i64,
    },
    /// No connected device can run it.
    NoCapableDevice {
        /// What the device that comes nearest lacks; empty if there are devices that could run it.
        missing: Vec<String>,
        /// Devices that could run it, and are away.
        away: i64,
    },
    /// Every connected device that can run it gets no new work.
    Paused,
    /// Every device that can run it is busy.
    NoFreeSlot,
}

impl Waiting {
    /// The first reason that holds; `None` if nothing stands in the way of the next round.
    pub fn decide(facts: QueueFacts) -> Option<Self> {
        if let Some((live, limit)) = facts.org_limit
            && live >= limit
        {
            return Some(Self::OrgLimit { live, limit });
        }
        if facts.connected == 0 {
            return Some(Self::NoCapableDevice {
                missing: facts.missing,
                away: facts.capable,
            });
        }
        if facts.open == 0 {
            return Some(Self::Paused);
        }
        (facts.free == 0).then_some(Self::NoFreeSlot)
    }

    /// The word for it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::OrgLimit { .. } => "org_limit",
            Self::NoCapableDevice { .. } => "no_capable_device",
            Self::Paused => "paused",
            Self::NoFreeSlot => "no_free_slot",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free() -> QueueFacts {
        QueueFacts {
            org_limit: Some((1, 2)),
            capable: 4,
            connected: 3,
            open: 2,
            free: 1,
            missing: Vec::new(),
        }
    }

    #[test]
    fn every_reason_has_the_word_that_buyers_are_told() {
        let reasons = [
            Waiting::OrgLimit { live: 2, limit: 2 },
            Waiting::NoCapableDevice {
                missing: Vec::new(),
                away: 0,
            },
            Waiting::Paused,
            Waiting::NoFreeSlot,
        ];
        let words = reasons.map(|reason| reason.as_str());
        let expected = ["org_limit", "no_capable_device", "paused", "no_free_slot"];
        assert_eq!(words, expected);
    }

    #[test]
    fn what_stands_in_the_way_first_is_the_reason() {
        assert_eq!(Waiting::decide(free()), None);
        let mut facts = free();
        facts.free = 0;
        assert_eq!(Waiting::decide(facts.clone()), Some(Waiting::NoFreeSlot));
        facts.open = 0;
        assert_eq!(Waiting::decide(facts.clone()), Some(Waiting::Paused));
        facts.connected = 0;
        facts.missing = vec!["encode.hevc".to_owned()];
        let none = Waiting::NoCapableDevice {
            missing: vec!["encode.hevc".to_owned()],
            away: 4,
        };
        assert_eq!(Waiting::decide(facts.clone()), Some(none));
        facts.org_limit = Some((2, 2));
        let limit = Waiting::OrgLimit { live: 2, limit: 2 };
        assert_eq!(Waiting::decide(facts), Some(limit));
    }
}
