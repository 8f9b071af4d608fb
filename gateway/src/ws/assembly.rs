//! Messages out of fragments: the codec bounds each fragment, and nobody bounds their sum.

use actix_http::ws::Item;

/// What a fragment led to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Assembled {
    /// More is to come.
    Partly,
    /// A text message is complete.
    Text(Vec<u8>),
    /// A binary message is complete.
    Binary,
    /// Its parts are more than a message may have.
    TooLarge,
}

/// The message that is being put together, if one is.
#[derive(Debug)]
pub(super) struct Assembly {
    max_bytes: usize,
    is_text: bool,
    parts: Vec<u8>,
}

impl Assembly {
    /// Puts together messages of at most `max_bytes`.
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            is_text: false,
            parts: Vec::new(),
        }
    }

    /// Adds a fragment. The codec sees to their order.
    pub(super) fn add(&mut self, fragment: Item) -> Assembled {
        let (bytes, is_last) = match fragment {
            Item::FirstText(bytes) => {
                self.is_text = true;
                (bytes, false)
            }
            Item::FirstBinary(bytes) => {
                self.is_text = false;
                (bytes, false)
            }
            Item::Continue(bytes) => (bytes, false),
            Item::Last(bytes) => (bytes, true),
        };
        if self.parts.len() + bytes.len() > self.max_bytes {
            self.parts = Vec::new();
            return Assembled::TooLarge;
        }
        self.parts.extend_from_slice(&bytes);
        match (is_last, self.is_text) {
            (false, _) => Assembled::Partly,
            (true, true) => Assembled::Text(std::mem::take(&mut self.parts)),
            (true, false) => {
                self.parts = Vec::new();
                Assembled::Binary
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_of_a_text_are_put_together_again_and_again() {
        let mut assembly = Assembly::new(6);
        for _ in 0..2 {
            assert_eq!(
                assembly.add(Item::FirstText("ab".into())),
                Assembled::Partly
            );
            assert_eq!(assembly.add(Item::Continue("cd".into())), Assembled::Partly);
            let complete = Assembled::Text(b"abcdef".to_vec());
            assert_eq!(assembly.add(Item::Last("ef".into())), complete);
        }
    }

    #[test]
    fn the_sum_of_fragments_is_bounded() {
        let mut assembly = Assembly::new(5);
        assert_eq!(
            assembly.add(Item::FirstText("abc".into())),
            Assembled::Partly
        );
        assert_eq!(
            assembly.add(Item::Continue("def".into())),
            Assembled::TooLarge
        );
    }

    #[test]
    fn binary_fragments_are_told_from_text() {
        let mut assembly = Assembly::new(9);
        assert_eq!(
            assembly.add(Item::FirstBinary("ab".into())),
            Assembled::Partly
        );
        assert_eq!(assembly.add(Item::Last("c".into())), Assembled::Binary);
    }
}
