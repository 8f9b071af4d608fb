//! The last few KiB of an endless stream.

use std::collections::VecDeque;

/// Keeps the end of what was pushed, in constant memory.
#[derive(Debug)]
pub(crate) struct Tail {
    bytes: VecDeque<u8>,
    keep: usize,
    cut: bool,
}

impl Tail {
    /// A tail of at most `keep` bytes.
    pub(crate) fn new(keep: usize) -> Self {
        Self {
            bytes: VecDeque::with_capacity(keep),
            keep,
            cut: false,
        }
    }

    pub(crate) fn push(&mut self, chunk: &[u8]) {
        let chunk = &chunk[chunk.len().saturating_sub(self.keep)..];
        let overflow = (self.bytes.len() + chunk.len()).saturating_sub(self.keep);
        self.cut |= overflow > 0;
        self.bytes.drain(..overflow);
        self.bytes.extend(chunk);
    }

    /// Valid UTF-8; if something was cut off, the first, incomplete line is dropped.
    pub(crate) fn text(&self) -> String {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        match text.split_once('\n') {
            Some((_, rest)) if self.cut => rest.to_owned(),
            Some(_) | None => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lines_of_the_end_are_kept() {
        let mut tail = Tail::new(12);
        tail.push(b"first line\nsec");
        tail.push(b"ond\nthird\xff\n");
        assert_eq!(tail.text(), "third\u{fffd}\n");
    }

    #[test]
    fn a_chunk_longer_than_the_tail_does_not_grow_it() {
        let mut tail = Tail::new(4);
        tail.push(&[b'x'; 10_000]);
        assert_eq!(tail.text(), "xxxx");
    }
}
