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

/// Small frames may lie in the buffer before the one that is being read.
const SLACK_BYTES: usize = 128 * 1024;

/// How much has come in and is not yet taken out as frames; shared with the transport.
#[derive(Debug, Clone, Default)]
pub(super) struct Level {
    unread: Rc<Cell<usize>>,
    /// The codec was asked to look at a buffer that is full, and has not found a frame since.
    asked: Rc<Cell<bool>>,
    discarding: Rc<Cell<bool>>,
}

impl Level {
    /// A frame with a payload of so many bytes was taken out.
    pub(super) fn took(&self, payload_bytes: usize) {
        // A client's frame: two bytes, the length if it is longer than those can say, the mask.
        let head = match payload_bytes {
            0..126 => 6,
            126..65_536 => 8,
            _ => 14,
        };
        self.unread
            .set(self.unread.get().saturating_sub(head + payload_bytes));
        self.asked.set(false);
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
                // There may be whole frames in it: the codec looks only when we have no more.
                if self.level.asked.replace(true) {
                    return Poll::Ready(Some(Err(PayloadError::Overflow)));
                }
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            match Pin::new(&mut self.inner).poll_next(cx) {
                Poll::Ready(Some(Ok(_))) if self.level.discarding.get() => {}
                Poll::Ready(Some(Ok(chunk))) => {
                    self.level.unread.set(self.level.unread.get() + chunk.len());
                    return Poll::Ready(Some(Ok(chunk)));
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

    type Chunk = Result<Bytes, PayloadError>;

    fn endless() -> impl Stream<Item = Chunk> + Unpin {
        stream::repeat_with(|| Ok(Bytes::from(vec![0; 64 * 1024])))
    }

    /// Reads until there is nothing more for now; whether it was cut off.
    fn read_all(intake: &mut Intake<impl Stream<Item = Chunk> + Unpin>, read: &mut usize) -> bool {
        loop {
            match intake.next().now_or_never() {
                Some(Some(Ok(chunk))) => *read += chunk.len(),
                Some(Some(Err(_))) => return true,
                Some(None) | None => return false,
            }
        }
    }

    #[test]
    fn a_message_without_end_is_cut_before_it_fills_the_memory() {
        let mut intake = Intake::new(endless(), Level::default());
        let mut read = 0;
        assert!(
            !read_all(&mut intake, &mut read),
            "the codec has not looked yet"
        );
        assert!(read_all(&mut intake, &mut read));
        assert!(
            read <= MAX_MESSAGE_BYTES + SLACK_BYTES + 64 * 1024,
            "{read} bytes were buffered"
        );
    }

    #[test]
    fn whole_frames_that_come_all_at_once_are_waited_for_and_make_room() {
        let level = Level::default();
        let mut intake = Intake::new(endless(), level.clone());
        let mut read = 0;
        for _ in 0..1_000 {
            assert!(!read_all(&mut intake, &mut read));
            for payload in [MAX_MESSAGE_BYTES, 100, 1_000] {
                level.took(payload);
            }
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
