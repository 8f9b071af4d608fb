//! The one HTTP client: no redirects to other hosts, no proxy to this machine.
//!
//! It has no deadline for a whole request: the library counts the sending of a body into it, and an
//! upload may take hours. Whoever asks watches that something moves.

use std::time::Duration;

use reqwest::redirect::Policy;

use crate::address::Gateway;

/// Who we say we are.
pub const USER_AGENT: &str = concat!("fencepost-agent/", env!("CARGO_PKG_VERSION"));
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// The longest that a transfer may stand still.
pub const IDLE_TIME: Duration = Duration::from_secs(30);
/// How long what is behind links may be away before a transfer fails.
pub const AWAY_TIME: Duration = Duration::from_mins(5);
/// How long a host of a buyer's choice has for sending something worth mentioning.
pub const PACE_TIME: Duration = Duration::from_mins(1);
const MOST_REDIRECTS: usize = 3;

/// A client for talking to this gateway and to the links that it grants.
pub fn client(gateway: &Gateway) -> Result<reqwest::Client, reqwest::Error> {
    let same_host_only = Policy::custom(|attempt| {
        let from = attempt.previous().last().map(url::Url::origin);
        if attempt.previous().len() > MOST_REDIRECTS || from != Some(attempt.url().origin()) {
            attempt.stop()
        } else {
            attempt.follow()
        }
    });
    let builder = reqwest::Client::builder()
        .user_agent(USER_AGENT)
        .redirect(same_host_only)
        .connect_timeout(CONNECT_TIME);
    // A proxy would carry what must not leave this machine.
    if gateway.is_local() {
        builder.no_proxy()
    } else {
        builder
    }
    .build()
}
