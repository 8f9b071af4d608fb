//! Events and artifacts: what is written, what is answered from the stored row, what is refused.
//!
//! The row is looked up by (attempt, presented epoch, id), so that an old lease's rows are never in
//! the way of the next one's. [`decide`] is asked before the lease itself: whoever wrote a row is
//! answered from it for ever, and whoever did not learns nothing about it without holding the lease.

/// What is stored under the presented attempt, epoch and id, seen by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// No row.
    Nothing {
        /// Whether a row of another id has the place that the new one would take (an event's number).
        place_taken: bool,
    },
    /// A row that the presented epoch and token wrote.
    ByCaller {
        /// Whether it means the same as what was presented.
        identical: bool,
    },
    /// A row that another token wrote, or of which no writer is recorded.
    ByAnother,
}

/// What to do about what was presented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Write it.
    Write,
    /// Answer with the stored row; write nothing.
    Replay,
    /// Refuse: the caller does not hold the lease.
    LeaseConflict,
    /// Refuse: something else is stored there.
    ContentConflict,
}

/// The whole rule. A lease is held with its current epoch and token, unexpired, before the attempt
/// commits, while its job is active.
pub fn decide(stored: Stored, holds_lease: bool) -> Verdict {
    match (stored, holds_lease) {
        (Stored::Nothing { place_taken: false }, true) => Verdict::Write,
        (Stored::ByCaller { identical: true }, _) => Verdict::Replay,
        (Stored::ByCaller { identical: false }, _)
        | (Stored::Nothing { place_taken: true } | Stored::ByAnother, true) => {
            Verdict::ContentConflict
        }
        (Stored::Nothing { .. } | Stored::ByAnother, false) => Verdict::LeaseConflict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_as_it_was_agreed() {
        let free = Stored::Nothing { place_taken: false };
        let taken = Stored::Nothing { place_taken: true };
        let same = Stored::ByCaller { identical: true };
        let other = Stored::ByCaller { identical: false };
        let table = [
            (free, true, Verdict::Write),
            (free, false, Verdict::LeaseConflict),
            (taken, true, Verdict::ContentConflict),
            (taken, false, Verdict::LeaseConflict),
            (same, true, Verdict::Replay),
            (same, false, Verdict::Replay),
            (other, true, Verdict::ContentConflict),
            (other, false, Verdict::ContentConflict),
            (Stored::ByAnother, true, Verdict::ContentConflict),
            (Stored::ByAnother, false, Verdict::LeaseConflict),
        ];
        for (stored, holds_lease, verdict) in table {
            let decided = decide(stored, holds_lease);
            assert_eq!(
                decided, verdict,
                "{stored:?}, holds the lease: {holds_lease}"
            );
        }
    }

    #[test]
    fn nobody_without_the_lease_can_tell_a_stored_row_of_another_from_none() {
        for stored in [
            Stored::Nothing { place_taken: false },
            Stored::Nothing { place_taken: true },
            Stored::ByAnother,
        ] {
            assert_eq!(decide(stored, false), Verdict::LeaseConflict);
        }
    }
}
