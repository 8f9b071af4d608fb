//! What the verifier found out about a committed output, and how often it is asked.

use std::time::Duration;

/// How often a verification is tried before our trouble becomes the attempt's.
pub const MAX_VERIFICATIONS: i64 = 5;
/// How long it is tried.
pub const MAX_VERIFICATION_TIME: Duration = Duration::from_hours(1);
const FIRST_PAUSE: Duration = Duration::from_secs(5);

/// How long the next try waits after trouble in this one; they are numbered from 1. The pauses grow, so
/// that the tries together outlast a store that is away for a few minutes (about seven: 5 s, 20 s, 80 s,
/// 320 s), and a short one is over soon.
pub fn pause_after(verification: i64) -> Duration {
    let pauses = verification.clamp(1, MAX_VERIFICATIONS - 1) - 1;
    FIRST_PAUSE * 4_u32.pow(u32::try_from(pauses).unwrap_or(0))
}

/// A SHA-256 digest of an object's bytes.
pub type Sha256 = [u8; 32];

/// The verdict on the copy of an output.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Size, digest and media are right.
    Good {
        /// Duration of the output in seconds, which decides the price.
        duration_seconds: f64,
    },
    /// The bytes are as declared but the media is not what the service promises.
    MediaRejected {
        /// What is wrong, in a sentence for the buyer.
        reason: String,
    },
    /// Size or digest are not as declared.
    BytesDiffer {
        /// What differs.
        reason: String,
    },
    /// We could not read or check it.
    Trouble {
        /// What went wrong, for the operator.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_tries_together_outlast_what_a_store_may_be_away_for() {
        let pauses: Vec<u64> = (1..MAX_VERIFICATIONS)
            .map(|number| pause_after(number).as_secs())
            .collect();
        assert_eq!(pauses, [5, 20, 80, 320]);
        assert!(pauses.iter().sum::<u64>() > 5 * 60);
        assert!(pauses.iter().sum::<u64>() < MAX_VERIFICATION_TIME.as_secs());
        // What was never to be asked is answered all the same.
        assert_eq!(pause_after(i64::MIN), pause_after(1));
        assert_eq!(pause_after(i64::MAX), pause_after(4));
    }
}
