//! Where an object is read or written, and how a job gets a new address when the old one expires.

use std::time::Duration;

use fencepost_domain::ids::AttemptId;
use tokio::sync::{mpsc, oneshot};
use url::Url;

use super::StepError;
use crate::address::Gateway;
use crate::core::{FreshLink, LinkAnswer};

/// An answer that was lost with a socket never comes.
const ANSWER_TIME: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_secs(1);

/// A job wants a fresh link.
#[derive(Debug)]
pub struct LinkWish {
    /// Whose.
    pub attempt: AttemptId,
    /// Name of the input, or `output`.
    pub name: String,
    /// `get` or `put`.
    pub direction: &'static str,
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
    async fn fresh(&self, name: &str, direction: &'static str) -> Option<FreshLink> {
        loop {
            let (answer, answered) = oneshot::channel();
            let wish = LinkWish {
                attempt: self.attempt,
                name: name.to_owned(),
                direction,
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
    name: &'a str,
    direction: &'static str,
    url: Url,
    object_key: Option<String>,
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
            name,
            direction: "get",
            url,
            object_key: None,
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
            name: "output",
            direction: "put",
            url,
            object_key: None,
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
        let Some(link) = self.desk.fresh(self.name, self.direction).await else {
            let message = "the link has expired, and the gateway gives no other";
            return Err(StepError::failed(code, message));
        };
        self.url = checked(self.gateway, code, &link.url)?;
        self.object_key = Some(link.object_key);
        Ok(())
    }
}

fn checked(gateway: &Gateway, code: &'static str, url: &str) -> Result<Url, StepError> {
    gateway
        .grant_url(url)
        .map_err(|error| StepError::failed(code, error.to_string()))
}
