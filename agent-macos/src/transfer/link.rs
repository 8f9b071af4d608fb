//! Where an object is read or written, and how a job gets a new address when the old one expires.

use std::collections::VecDeque;
use std::time::Duration;

use fencepost_domain::ids::AttemptId;
use tokio::sync::{mpsc, oneshot};
use url::Url;

use super::StepError;
use crate::address::Gateway;
use crate::core::{FreshLink, LinkAnswer, Wanted};

/// An answer that was lost with a socket never comes.
const ANSWER_TIME: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_secs(1);

/// A job wants a fresh link.
#[derive(Debug)]
pub struct LinkWish {
    /// Whose.
    pub attempt: AttemptId,
    /// For what.
    pub wanted: Wanted,
    /// Where the answer goes.
    pub answer: oneshot::Sender<LinkAnswer>,
}

/// Asks the session for fresh links on behalf of one job.
#[derive(Debug, Clone)]
pub struct LinkDesk {
    attempt: AttemptId,
    wishes: mpsc::Sender<LinkWish>,
}

impl LinkDesk {
    /// A desk for `attempt`, whose wishes go into a bounded channel.
    pub fn new(attempt: AttemptId, wishes: mpsc::Sender<LinkWish>) -> Self {
        Self { attempt, wishes }
    }

    /// Asks until there is a link, or surely none. As long as the lease lives; its watch ends this.
    async fn fresh(&self, wanted: &Wanted) -> Option<FreshLink> {
        loop {
            let (answer, answered) = oneshot::channel();
            let wish = LinkWish {
                attempt: self.attempt,
                wanted: wanted.clone(),
                answer,
            };
            // Nobody listens only when the agent is going down, and the job with it.
            self.wishes.send(wish).await.ok()?;
            match tokio::time::timeout(ANSWER_TIME, answered).await {
                Ok(Ok(LinkAnswer::Fresh(link))) => return Some(link),
                Ok(Ok(LinkAnswer::Refused)) => return None,
                Ok(Ok(LinkAnswer::NotNow) | Err(_)) | Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

/// The address of one object of an attempt.
#[derive(Debug)]
pub struct Link<'a> {
    gateway: &'a Gateway,
    desk: &'a LinkDesk,
    wanted: Wanted,
    url: Url,
    object_key: Option<String>,
    /// Links to the parts after the one that this leads to.
    next_parts: VecDeque<String>,
}

impl<'a> Link<'a> {
    /// The link to read the input of this name.
    ///
    /// # Errors
    /// `download_failed` if the agent does not talk to that address.
    pub fn to_input(
        gateway: &'a Gateway,
        desk: &'a LinkDesk,
        (name, url): (&'a str, &str),
    ) -> Result<Self, StepError> {
        let url = checked(gateway, "download_failed", url)?;
        Ok(Self {
            gateway,
            desk,
            wanted: Wanted {
                name: name.to_owned(),
                direction: "get",
                first_part: None,
            },
            url,
            object_key: None,
            next_parts: VecDeque::new(),
        })
    }

    /// The link to write the output.
    ///
    /// # Errors
    /// `upload_failed` if the agent does not talk to that address.
    pub fn to_output(
        gateway: &'a Gateway,
        desk: &'a LinkDesk,
        url: &str,
    ) -> Result<Self, StepError> {
        let url = checked(gateway, "upload_failed", url)?;
        Ok(Self {
            gateway,
            desk,
            wanted: Wanted {
                name: "output".to_owned(),
                direction: "put",
                first_part: None,
            },
            url,
            object_key: None,
            next_parts: VecDeque::new(),
        })
    }

    /// The address now.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The key of the object behind a fresh link, if there was one.
    pub fn into_object_key(self) -> Option<String> {
        self.object_key
    }

    /// Gets a new address from the gateway.
    pub(super) async fn refresh(&mut self, code: &'static str) -> Result<(), StepError> {
        self.ask(code).await.map(|_| ())
    }

    /// Turns to a part of the output; gives the size of parts, or `None` if the gateway knows no
    /// parts: then the link leads to the whole.
    pub(super) async fn turn_to_part(
        &mut self,
        number: u32,
        code: &'static str,
    ) -> Result<Option<u64>, StepError> {
        self.wanted.first_part = Some(number);
        self.ask(code).await
    }

    /// Turns to the part after the one that this leads to.
    pub(super) async fn turn_to_next_part(&mut self, code: &'static str) -> Result<(), StepError> {
        let number = self.wanted.first_part.map_or(1, |number| number + 1);
        self.wanted.first_part = Some(number);
        match self.next_parts.pop_front() {
            Some(url) => {
                self.url = checked(self.gateway, code, &url)?;
                Ok(())
            }
            None => self.ask(code).await.map(|_| ()),
        }
    }

    async fn ask(&mut self, code: &'static str) -> Result<Option<u64>, StepError> {
        let Some(link) = self.desk.fresh(&self.wanted).await else {
            let message = "the link has expired, and the gateway gives no other";
            return Err(StepError::failed(code, message));
        };
        self.object_key = Some(link.object_key);
        let Some(parts) = link.parts else {
            self.url = checked(self.gateway, code, &link.url)?;
            return Ok(None);
        };
        self.next_parts = parts.urls.into();
        let first = self.next_parts.pop_front();
        self.url = checked(self.gateway, code, &first.unwrap_or(link.url))?;
        Ok(Some(parts.part_bytes))
    }
}

fn checked(gateway: &Gateway, code: &'static str, url: &str) -> Result<Url, StepError> {
    gateway
        .grant_url(url)
        .map_err(|error| StepError::failed(code, error.to_string()))
}
