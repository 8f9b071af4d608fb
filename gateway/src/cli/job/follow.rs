//! A job followed to its end, through cut connections and gateways that go away.

use std::time::Duration;

use fencepost_domain::ids::JobId;
use reqwest::Response;
use serde::Deserialize;
use serde_json::Value;

use super::JobError;
use super::api::Api;
use super::asking::{Patience, Try};
use super::frames::{Frame, Frames};
use super::view::Waits;

/// How a job is at the moment.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct State {
    pub(super) status: String,
    pub(super) phase: Option<String>,
    pub(super) percent: Option<f64>,
    pub(super) attempts: u32,
    pub(super) waiting: Option<Waits>,
}

/// What is heard of a job.
pub(super) enum Heard {
    /// How it is now.
    State(State),
    /// What happened to it: the type, and all that is said about it.
    Event(String, Value),
    /// The connection is gone; it is being tried again.
    Lost,
}

/// Where somebody is in the stream of a job.
pub(super) struct Follower<'a> {
    api: &'a Api,
    job: JobId,
    last_id: Option<String>,
    pause: Option<Duration>,
}

/// How one connection ended.
enum Ended {
    /// With the job.
    Job,
    /// Before it.
    Early,
}

impl<'a> Follower<'a> {
    /// Follows from the beginning.
    pub(super) fn new(api: &'a Api, job: JobId) -> Self {
        Self {
            api,
            job,
            last_id: None,
            pause: None,
        }
    }

    /// Returns when the job has ended. Gives up when nothing was heard for longer than patience.
    pub(super) async fn follow(
        &mut self,
        heard: &mut dyn FnMut(&Heard) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let mut patience = Patience::new(self.api.patience);
        loop {
            let why = match self.api.events(self.job, self.last_id.as_deref()).await {
                // Its end was told before.
                Ok(None) => return Ok(()),
                Ok(Some(stream)) => {
                    patience.renew();
                    match self.listen(stream, heard).await {
                        Ok(Ended::Job) => return Ok(()),
                        Ok(Ended::Early) => "the stream ended early".to_owned(),
                        Err(Try::Final(error)) => return Err(error),
                        Err(Try::Again { why, .. }) => why,
                    }
                }
                Err(Try::Final(error)) => return Err(error),
                Err(Try::Again { why, after }) => {
                    self.pause = after.or(self.pause);
                    why
                }
            };
            heard(&Heard::Lost)?;
            patience.wait(why, self.pause.take()).await?;
        }
    }

    async fn listen(
        &mut self,
        mut stream: Response,
        heard: &mut dyn FnMut(&Heard) -> Result<(), JobError>,
    ) -> Result<Ended, Try> {
        let mut frames = Frames::default();
        while let Some(bytes) = stream.chunk().await.map_err(|error| Try::cut(&error))? {
            let complete = frames.take(&bytes).map_err(|_| unreadable())?;
            self.pause = frames.retry_ms.map(Duration::from_millis);
            for frame in complete {
                if self.hear(&frame, heard)? {
                    return Ok(Ended::Job);
                }
            }
        }
        Ok(Ended::Early)
    }

    /// Whether it was the end.
    fn hear(
        &mut self,
        frame: &Frame,
        heard: &mut dyn FnMut(&Heard) -> Result<(), JobError>,
    ) -> Result<bool, Try> {
        let data: Value = serde_json::from_str(&frame.data).map_err(|_| unreadable())?;
        if frame.event == "status" {
            let state = State::deserialize(&data).map_err(|_| unreadable())?;
            heard(&Heard::State(state)).map_err(Try::Final)?;
            return Ok(false);
        }
        heard(&Heard::Event(frame.event.clone(), data)).map_err(Try::Final)?;
        // Only now: what was not heard is sent again.
        self.last_id.clone_from(&frame.id);
        let ends = ["job.succeeded", "job.failed", "job.cancelled"];
        Ok(ends.contains(&frame.event.as_str()))
    }
}

fn unreadable() -> Try {
    Try::Final(JobError::Local(
        "the gateway's events are not understood: is this its address, and this program as new as \
         the gateway?"
            .to_owned(),
    ))
}
