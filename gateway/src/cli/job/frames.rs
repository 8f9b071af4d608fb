//! Server-sent events as they come off the wire, in whatever pieces.

/// The largest event that is believed.
const MAX_BYTES: usize = 1 << 20;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Frame {
    pub(super) id: Option<String>,
    pub(super) event: String,
    pub(super) data: String,
}

/// Takes bytes and gives events.
#[derive(Debug, Default)]
pub(super) struct Frames {
    unread: Vec<u8>,
    frame: Frame,
    has_data: bool,
    /// When the server would like us to come again, in milliseconds.
    pub(super) retry_ms: Option<u64>,
}

/// An event that is larger than any that the gateway sends.
#[derive(Debug)]
pub(super) struct TooLarge;

impl Frames {
    /// The events that these bytes complete.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Vec<Frame>, TooLarge> {
        self.unread.extend_from_slice(bytes);
        let mut complete = Vec::new();
        let mut from = 0;
        while let Some(length) = self.unread[from..].iter().position(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(&self.unread[from..from + length]).into_owned();
            from += length + 1;
            complete.extend(self.line(line.trim_end_matches('\r')));
        }
        self.unread.drain(..from);
        if self.unread.len() + self.frame.data.len() > MAX_BYTES {
            return Err(TooLarge);
        }
        Ok(complete)
    }

    /// A line; an empty one ends the event.
    fn line(&mut self, line: &str) -> Option<Frame> {
        if line.is_empty() {
            let frame = std::mem::take(&mut self.frame);
            return std::mem::take(&mut self.has_data).then_some(frame);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.frame.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.frame.event),
            "retry" => self.retry_ms = value.parse().ok().or(self.retry_ms),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.frame.data.push('\n');
                }
                self.frame.data.push_str(value);
            }
            // A comment, or a field that is not known yet.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = "retry: 1500\n\n: keep-alive\n\nevent: status\ndata: {}\n\n\
                          id: 7\nevent: a\ndata: 1\r\ndata:2\n\nid: 8\n\nfoo\n\n";

    #[test]
    fn events_are_the_same_in_whatever_pieces_they_come() {
        let whole = Frames::default().take(STREAM.as_bytes()).unwrap();
        assert_eq!(whole.len(), 2);
        assert_eq!((whole[0].event.as_str(), &whole[0].id), ("status", &None));
        assert_eq!(
            (whole[1].id.as_deref(), whole[1].data.as_str()),
            (Some("7"), "1\n2")
        );
        let mut frames = Frames::default();
        let mut pieces = Vec::new();
        for byte in STREAM.bytes() {
            pieces.extend(frames.take(&[byte]).unwrap());
        }
        assert_eq!(pieces, whole);
        assert_eq!(frames.retry_ms, Some(1_500));
    }

    #[test]
    fn an_event_without_end_is_not_believed() {
        let mut frames = Frames::default();
        let endless = vec![b'x'; MAX_BYTES + 1];
        assert!(frames.take(&endless).is_err());
    }
}
