//! A buyer's stream of events, taken apart.

use reqwest::header::{ACCEPT, HeaderMap};
use reqwest::{Method, Response, StatusCode};
use serde_json::Value;
use tokio::time::timeout;

use crate::buyer::Buyer;
use crate::wait::PATIENCE;

/// An open stream.
pub struct EventStream {
    response: Response,
    unread: Vec<u8>,
    /// When the server would like us to come again.
    pub retry_ms: Option<u64>,
    /// The id of the last event.
    pub last_id: Option<String>,
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamEvent {
    /// Its number, if it has one.
    pub id: Option<i64>,
    /// Its type.
    pub event: String,
    /// What it says.
    pub data: Value,
}

impl StreamEvent {
    /// `status active` of a status, `2 attempt.event` of anything else.
    pub fn short(&self) -> String {
        match self.id {
            None => format!(
                "{} {}",
                self.event,
                self.data["status"].as_str().unwrap_or("?")
            ),
            Some(id) => format!("{id} {}", self.event),
        }
    }
}

impl Buyer {
    /// Asks for a job's events from where `last_id` says.
    pub async fn try_watch(&self, job: &str, last_id: Option<&str>) -> Response {
        let mut request = self.request(Method::GET, &format!("/v1/jobs/{job}/events"));
        request = request.header(ACCEPT, "text/event-stream");
        if let Some(id) = last_id {
            request = request.header("Last-Event-ID", id);
        }
        request.send().await.expect("the gateway answers")
    }

    /// Watches a job, after the event of this id.
    pub async fn watch(&self, job: &str, last_id: Option<&str>) -> EventStream {
        let response = self.try_watch(job, last_id).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        EventStream {
            response,
            unread: Vec::new(),
            retry_ms: None,
            last_id: last_id.map(str::to_owned),
        }
    }
}

impl EventStream {
    /// The headers of the answer.
    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The next event; `None` when the stream ends as it should.
    pub async fn next(&mut self) -> Option<StreamEvent> {
        loop {
            if let Some(frame) = self.frame() {
                if let Some(event) = self.read(&frame) {
                    return Some(event);
                }
                continue;
            }
            let chunk = timeout(PATIENCE, self.response.chunk()).await;
            let chunk = chunk
                .expect("something comes")
                .expect("the stream is not broken");
            let Some(chunk) = chunk else {
                assert!(self.unread.is_empty(), "it ended within an event");
                return None;
            };
            crate::buyer::times_have_one_form(&chunk);
            self.unread.extend_from_slice(&chunk);
        }
    }

    /// Reads until an event is as wanted; it, and all before it.
    pub async fn until(&mut self, wanted: impl Fn(&StreamEvent) -> bool) -> Vec<StreamEvent> {
        let mut seen = Vec::new();
        loop {
            let event = self.next().await;
            let Some(event) = event else {
                panic!("the stream ended before what was wanted: {seen:?}");
            };
            let is_it = wanted(&event);
            seen.push(event);
            if is_it {
                return seen;
            }
        }
    }

    /// Reads until this status is told.
    pub async fn until_status(&mut self, status: &str) -> Vec<StreamEvent> {
        self.until(|event| event.event == "status" && event.data["status"] == status)
            .await
    }

    /// Everything that is left, to the end.
    pub async fn rest(&mut self) -> Vec<StreamEvent> {
        let mut seen = Vec::new();
        while let Some(event) = self.next().await {
            seen.push(event);
        }
        seen
    }

    /// Takes a whole frame off what was received.
    fn frame(&mut self) -> Option<String> {
        let end = self.unread.windows(2).position(|two| two == b"\n\n")?;
        let frame: Vec<u8> = self.unread.drain(..end + 2).collect();
        Some(String::from_utf8(frame).expect("it is UTF-8"))
    }

    fn read(&mut self, frame: &str) -> Option<StreamEvent> {
        let (mut id, mut event, mut data) = (None, None, None);
        for line in frame.lines().filter(|line| !line.is_empty()) {
            match line.split_once(": ") {
                Some(("id", text)) => id = Some(text.to_owned()),
                Some(("event", text)) => event = Some(text.to_owned()),
                Some(("data", text)) => data = Some(text.to_owned()),
                Some(("retry", text)) => self.retry_ms = text.parse().ok(),
                Some(("", _)) => {}
                _ => panic!("not a line of an event: {line}"),
            }
        }
        let data = data?;
        if id.is_some() {
            self.last_id.clone_from(&id);
        }
        Some(StreamEvent {
            id: id.map(|id| id.parse().expect("a number")),
            event: event.expect("every event has a type"),
            data: serde_json::from_str(&data).expect("JSON"),
        })
    }
}
