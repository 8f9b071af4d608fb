//! Server-sent events: `id`, `event`, `data`, a blank line.

use std::convert::Infallible;
use std::time::Duration;

use actix_web::web::Bytes;
use fencepost_actors::announcer::Told;
use futures_util::{Stream, stream};
use rand::RngExt as _;
use serde::Serialize;
use tokio::sync::mpsc::Receiver;
use tokio::time::Instant;

use super::told::{Event, State};

/// A comment goes out after so long a silence, so that nobody between takes it for the end.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// No stream is longer: the client comes again, with a key that is looked at again.
const LONGEST: Duration = Duration::from_mins(15);
/// When clients come again, in milliseconds: not all at once.
const RETRY_MS: std::ops::Range<u32> = 1_000..3_000;

/// What a listener is told, as bytes. Ends with the channel.
pub(super) fn stream(told: Receiver<Told>) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream_of(told, KEEP_ALIVE, LONGEST)
}

fn stream_of(
    told: Receiver<Told>,
    keep_alive: Duration,
    longest: Duration,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let until = Instant::now() + longest;
    // Said at once, so that the client sees that it is connected.
    let hello = format!("retry: {}\n\n", rand::rng().random_range(RETRY_MS));
    stream::unfold((Some(hello), told), move |(hello, mut told)| async move {
        if let Some(hello) = hello {
            return Some((Ok(Bytes::from(hello)), (None, told)));
        }
        let silence = (Instant::now() + keep_alive).min(until);
        let bytes = match tokio::time::timeout_at(silence, told.recv()).await {
            Ok(Some(told)) => Bytes::from(frame(&told)),
            Ok(None) => return None,
            Err(_) if Instant::now() >= until => return None,
            Err(_) => Bytes::from_static(b": keep-alive\n\n"),
        };
        Some((Ok(bytes), (None, told)))
    })
}

/// A state has no id: a client that comes again names the last event, and is told the state anew.
fn frame(told: &Told) -> String {
    match told {
        Told::State(state) => frame_of(None, "status", &State::of(state)),
        Told::Event(event) => frame_of(Some(event.seq), &event.kind, &Event::of(event)),
    }
}

/// JSON has no line breaks of its own, so that data is one line.
fn frame_of(id: Option<i64>, event: &str, data: &impl Serialize) -> String {
    // What is told is ours, and made of what JSON can hold.
    let data = serde_json::to_string(data).unwrap_or_default();
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("{id}event: {event}\ndata: {data}\n\n")
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;
    use serde_json::json;
    use tokio::sync::mpsc;

    use super::*;

    #[test]
    fn text_cannot_break_out_of_its_frame() {
        let frame = frame_of(
            Some(7),
            "attempt.event",
            &json!({ "text": "a\n\nid: 8\r\ndata: x" }),
        );
        assert_eq!(
            frame,
            "id: 7\nevent: attempt.event\ndata: {\"text\":\"a\\n\\nid: 8\\r\\ndata: x\"}\n\n"
        );
    }

    #[tokio::test]
    async fn silence_is_filled_with_comments_and_no_stream_lasts_for_ever() {
        let (sender, receiver) = mpsc::channel(1);
        let (silence, all) = (Duration::from_millis(5), Duration::from_millis(200));
        let frames: Vec<_> = stream_of(receiver, silence, all).collect().await;
        assert!(frames[0].as_ref().unwrap().starts_with(b"retry: "));
        let comments = &frames[1..];
        assert!(!comments.is_empty());
        assert!(
            comments
                .iter()
                .all(|frame| frame.as_ref().unwrap() == ": keep-alive\n\n")
        );
        drop(sender);
    }
}
