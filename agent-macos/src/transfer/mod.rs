//! Moves bytes between the gateway's links and the workspace, for as long as the lease lives.

pub mod bundle;
pub mod digest;
pub mod download;
pub mod fetch;
pub mod link;
pub mod share;
pub mod upload;
mod watch;

use std::time::Duration;

use fencepost_egress::{AllowList, Guard, Guarded, Refused};
use link::Link;
use url::Url;
pub use watch::{LeaseWatch, StepError};

use crate::address::Gateway;
use crate::{clock, http};

/// Tries of one transfer.
pub(crate) const TRIES: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The lease may end meanwhile, so no wait is longer, whatever the other side says.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Fresh links for one transfer. One is enough unless clocks are wrong.
const MOST_FRESH_LINKS: u32 = 3;

/// How transfers are made.
#[derive(Debug, Clone)]
pub struct Network {
    /// The client.
    pub client: reqwest::Client,
    /// The longest that a transfer may stand still.
    pub idle: Duration,
    /// How long the other side may be away, or in trouble of its own, without that counting as a
    /// failure.
    pub away: Duration,
    /// The time within which a host of a buyer's choice must have sent something worth mentioning.
    pub pace: Duration,
    gateway: Gateway,
    /// For addresses that are not the gateway's: whoever chose one must not reach this network by it.
    elsewhere: Guarded,
}

impl Network {
    /// Transfers between this machine, its gateway, and public hosts or those of `allowed`.
    pub fn new(
        gateway: &Gateway,
        client: reqwest::Client,
        allowed: AllowList,
    ) -> Result<Self, reqwest::Error> {
        Ok(Self {
            client,
            idle: http::IDLE_TIME,
            away: http::AWAY_TIME,
            pace: http::PACE_TIME,
            gateway: gateway.clone(),
            elsewhere: Guarded::new(Guard::new(allowed), http::USER_AGENT)?,
        })
    }

    /// A request for what a link of the gateway leads to.
    pub(crate) fn get(&self, url: Url) -> Result<reqwest::RequestBuilder, Refused> {
        if self.gateway.has(&url) {
            return Ok(self.client.get(url));
        }
        self.elsewhere.request(reqwest::Method::GET, &url)
    }
}

/// What one try of a transfer came to.
pub(crate) enum TryError {
    /// Trying again may help.
    Again(String),
    /// The other side cannot be reached or is in trouble: wait for it.
    Away(String),
    /// The other side names the time after which trying again helps. That is no failure.
    Later(Duration, String),
    /// Trying again with a fresh link may help.
    Expired(String),
    /// It will not.
    Final(StepError),
}

/// Repeats a transfer a few times, with growing pauses, and with fresh links where they expired.
pub(crate) async fn with_retries<T, F>(
    code: &'static str,
    network: &Network,
    link: &mut Link<'_>,
    mut transfer: impl FnMut(Url) -> F,
) -> Result<T, StepError>
where
    F: Future<Output = Result<T, TryError>>,
{
    let mut pause = FIRST_PAUSE;
    let (mut tries_left, mut links_left) = (TRIES, MOST_FRESH_LINKS);
    let began = clock::now();
    loop {
        let message = match transfer(link.url().clone()).await {
            Ok(done) => return Ok(done),
            Err(TryError::Final(error)) => return Err(error),
            Err(TryError::Expired(message)) if links_left == 0 => {
                return Err(StepError::failed(code, message));
            }
            Err(TryError::Expired(message)) => {
                links_left -= 1;
                tracing::warn!(message, "a link is not accepted any more");
                link.refresh(code).await?;
                continue;
            }
            Err(TryError::Later(wait, message)) => {
                tracing::warn!(message, "a transfer has to wait");
                tokio::time::sleep(wait.clamp(FIRST_PAUSE, LONGEST_WAIT)).await;
                continue;
            }
            Err(TryError::Away(message)) if clock::now() < began.after(network.away) => {
                tracing::warn!(message, "the other side is away");
                tokio::time::sleep(pause).await;
                pause = LONGEST_WAIT.min(pause * 2);
                continue;
            }
            Err(TryError::Again(message) | TryError::Away(message)) => message,
        };
        tries_left -= 1;
        if tries_left == 0 {
            return Err(StepError::failed(code, message));
        }
        tracing::warn!(message, tries_left, "a transfer failed; trying again");
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
}

/// What an answer other than success means for the transfer. A redirect is either one to another
/// host, which is not followed, or one that the body of an upload cannot follow: a store that is
/// moving answers so for a while.
pub(crate) fn refused(code: &'static str, status: reqwest::StatusCode, what: &str) -> TryError {
    let message = format!("{what}: HTTP {status}");
    match status.as_u16() {
        401 | 403 | 410 => TryError::Expired(message),
        307 | 408 | 425 | 429 => TryError::Again(message),
        500.. => TryError::Away(message),
        _ => TryError::Final(StepError::failed(code, message)),
    }
}

/// The same for an answer whose head may name the time to come back.
pub(crate) fn refused_by(code: &'static str, response: &reqwest::Response, what: &str) -> TryError {
    let after = response.headers().get(reqwest::header::RETRY_AFTER);
    let seconds = after.and_then(|value| value.to_str().ok()?.trim().parse().ok());
    match (refused(code, response.status(), what), seconds) {
        (TryError::Again(message) | TryError::Away(message), Some(seconds)) => {
            TryError::Later(Duration::from_secs(seconds), message)
        }
        (error, _) => error,
    }
}

/// What it means that no answer came.
pub(crate) fn unanswered(error: reqwest::Error) -> TryError {
    if error.is_connect() {
        return TryError::Away(without_address(error));
    }
    TryError::Again(without_address(error))
}

/// An HTTP error without the address, which holds a signature.
pub(crate) fn without_address(error: reqwest::Error) -> String {
    crate::pairing::causes(&error.without_url())
}
