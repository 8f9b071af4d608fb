//! How much of the disk the inputs of one attempt may take of which nobody said how large they are, so
//! that hosts which send without end do not fill it together.

use fencepost_protocol::InputGrant;

use crate::core::INPUTS_TIMES;

/// What the inputs of one attempt that have no `size_bytes` may still take together, in bytes.
///
/// The rule: of what is free when the attempt begins to fetch, three times the promised sizes of its
/// other inputs are theirs; the rest is divided by the number of slots, and of its share the attempt
/// takes a third, which leaves as much for the output and for what an encoder writes twice. So as many
/// attempts as there are slots, each with inputs that do not end, leave each other what they need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share(Option<u64>);

impl Share {
    /// The share of an attempt with these inputs, one of `slots`, while so many bytes are free; none
    /// if that is not known, and then nothing is bounded by it.
    pub fn of(free_bytes: Option<u64>, slots: u32, inputs: &[InputGrant]) -> Self {
        let promised = inputs.iter().filter_map(|input| input.size_bytes);
        let promised = promised.fold(0, u64::saturating_add);
        let shares = u64::from(slots.max(1)) * INPUTS_TIMES;
        Self(free_bytes.map(|free| {
            let rest = free.saturating_sub(promised.saturating_mul(INPUTS_TIMES));
            rest / shares
        }))
    }

    /// What is left of it.
    pub fn left(self) -> Option<u64> {
        self.0
    }

    /// An input is there that has so many bytes.
    pub fn take(&mut self, input: &InputGrant, bytes: u64) {
        if input.size_bytes.is_none() {
            self.take_unpromised(bytes);
        }
    }

    /// So many bytes are there whose size nobody had said when the attempt was offered.
    pub fn take_unpromised(&mut self, bytes: u64) {
        self.0 = self.0.map(|left| left.saturating_sub(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(size_bytes: Option<u64>) -> InputGrant {
        InputGrant {
            name: "clip".to_owned(),
            url: String::new(),
            sha256: None,
            size_bytes,
            max_bytes: Some(u64::MAX),
        }
    }

    #[test]
    fn attempts_in_all_slots_with_inputs_that_do_not_end_leave_room_for_each_others_outputs() {
        let disk = 60_000;
        for slots in [1, 2, 3, 8] {
            for inputs in [1, 5] {
                let inputs = vec![input(None); inputs];
                let mut written = 0;
                for _ in 0..slots {
                    // At its worst all of them begin before anything is written.
                    let mut share = Share::of(Some(disk), slots, &inputs);
                    for one in &inputs {
                        let bytes = share.left().unwrap();
                        share.take(one, bytes);
                        written += bytes;
                    }
                }
                let most = disk / INPUTS_TIMES;
                assert!(written <= most && written > most / 2, "{slots}: {written}");
            }
        }
        assert_eq!(Share::of(None, 2, &[input(None)]).left(), None);
    }

    #[test]
    fn what_has_a_promised_size_has_its_room_first_and_takes_nothing_of_the_share() {
        let inputs = [input(Some(1_000)), input(None)];
        let mut share = Share::of(Some(9_000), 2, &inputs);
        assert_eq!(share.left(), Some(1_000));
        share.take(&inputs[0], 1_000);
        assert_eq!(share.left(), Some(1_000));
        share.take(&inputs[1], 400);
        assert_eq!(share.left(), Some(600));
        assert_eq!(Share::of(Some(2_000), 2, &inputs).left(), Some(0));
    }
}
