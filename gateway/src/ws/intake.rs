//! A bound on what is buffered of a message before it is complete.
//!
//! The codec looks at a frame's size only when all of it has arrived; by then a frame of a
//! gigabyte has been in memory.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use actix_web::error::PayloadError;
use actix_web::web::Bytes;
use fencepost_protocol::MAX_MESSAGE_BYTES;
use futures_util::Stream;

/// Complete frames may lie in the buffer behind the one that is being read.
const SLACK_BYTES: usize = 128 * 1024;

/// How much has come in since a frame was last complete; shared with the transport.
#[derive(Debug, Clone, Default)]
pub(super) struct Level {
    unread: Rc<Cell<usize>>,
    discarding: Rc<Cell<bool>>,
}

impl Level {
    /// A frame was complete. Once over, it stays over.
    pub(super) fn reset(&self) {
        if !self.is_over() {
            self.unread.set(0);
        }
    }

    /// From now on, what comes in is read away: a peer that is still writing would otherwise get
    /// a reset instead of our close frame.
    pub(super) fn discard(&self) {
        self.discarding.set(true);
    }

    /// Whether more came than any message may have.
    pub(super) fn is_over(&self) -> bool {
        self.unread.get() > MAX_MESSAGE_BYTES + SLACK_BYTES
    }
}

/// A request's payload under that bound.
pub(super) struct Intake<S> {
    inner: S,
    level: Level,
}

impl<S> Intake<S> {
    /// Bounds `inner`; the other half of `level` goes to whoever reads the frames.
    pub(super) fn new(inner: S, level: Level) -> Self {
        Self { inner, level }
    }
}

impl<S> Stream for Intake<S>
where
    S: Stream<Item = Result<Bytes, PayloadError>> + Unpin,
{
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if self.level.is_over() && !self.level.discarding.get() {
                return Poll::Ready(Some(Err(PayloadError::Overflow)));
            }
            match Pin::new(&mut self.inner).poll_next(cx) {
                Poll::Ready(Some(Ok(_))) if self.level.discarding.get() => {}
                Poll::Ready(Some(Ok(chunk))) => {
                    self.level.unread.set(self.level.unread.get() + chunk.len());
                    if !self.level.is_over() {
                        return Poll::Ready(Some(Ok(chunk)));
                    }
                }
                other => return other,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, StreamExt as _, stream};

    use super::*;

    fn endless() -> impl Stream<Item = Result<Bytes, PayloadError>> + Unpin {
        stream::repeat_with(|| Ok(Bytes::from(vec![0; 64 * 1024])))
    }

    #[test]
    fn a_message_without_end_is_cut_before_it_fills_the_memory() {
        let mut intake = Intake::new(endless(), Level::default());
        let mut read = 0;
        while let Some(Ok(chunk)) = intake.next().now_or_never().flatten() {
            read += chunk.len();
        }
        assert!(
            read <= MAX_MESSAGE_BYTES + SLACK_BYTES,
            "{read} bytes were buffered"
        );
    }

    #[test]
    fn complete_frames_make_room_for_more() {
        let level = Level::default();
        let mut intake = Intake::new(endless(), level.clone());
        for _ in 0..100 {
            assert!(matches!(intake.next().now_or_never(), Some(Some(Ok(_)))));
            level.reset();
        }
    }

    #[test]
    fn after_the_end_everything_is_read_away() {
        let level = Level::default();
        level.discard();
        let chunks = stream::iter((0..100).map(|_| Ok(Bytes::from(vec![0; 64 * 1024]))));
        let mut intake = Intake::new(chunks, level);
        assert!(matches!(intake.next().now_or_never(), Some(None)));
    }
}
