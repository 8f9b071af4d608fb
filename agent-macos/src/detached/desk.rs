//! Asks a gateway over HTTP with this device's token, and sorts its answers.

use std::time::Duration;

use fencepost_domain::text;
use serde::Deserialize;
use serde_json::Value;

use crate::address::{AddressError, Gateway};
use crate::credential::{DeviceFile, DeviceToken};
use crate::http;
use crate::transfer::without_address;

/// A commit is answered when its output has been verified, or after a while.
const ANSWER_TIME: Duration = Duration::from_secs(45);
const PAUSE: Duration = Duration::from_secs(1);
const MAX_SHOWN: usize = 500;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Trouble of the gateway's, or on the way to it: the same may be asked again.
    #[error("ask again: {message}")]
    Retry {
        /// The gateway's word for it.
        code: String,
        /// What happened.
        message: String,
        /// When to.
        after: Duration,
    },
    /// Not yours: drop it.
    #[error("refused ({code}): {message}")]
    Refused {
        /// The gateway's word for it.
        code: String,
        /// What happened.
        message: String,
    },
    /// What was asked is wrong in itself.
    #[error("{message}")]
    Wrong {
        /// The gateway's word for it.
        code: String,
        /// What is wrong.
        message: String,
    },
}

/// What a problem+json says.
#[derive(Deserialize)]
struct Problem {
    code: String,
    #[serde(default)]
    detail: Option<String>,
    #[serde(default)]
    field: Option<String>,
    #[serde(default)]
    disposition: Option<String>,
    #[serde(default)]
    retryable: bool,
    #[serde(default)]
    retry_after_ms: Option<u64>,
}

/// The way to a gateway for one device.
pub struct Desk {
    client: reqwest::Client,
    gateway: Gateway,
    token: DeviceToken,
}

impl Desk {
    /// The desk of a paired device.
    ///
    /// # Errors
    /// The address cannot be used.
    pub fn of(device: &DeviceFile) -> Result<Self, AddressError> {
        let gateway = Gateway::parse(&device.gateway)?;
        let client = http::client(&gateway)
            .map_err(|error| AddressError::Malformed(without_address(error)))?;
        Ok(Self {
            client,
            gateway,
            token: device.device_token.clone(),
        })
    }

    /// The gateway.
    pub fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// The client, for links.
    pub fn client(&self) -> &reqwest::Client {
        &self.client
    }

    /// Posts to an address below `/v1/provider/leases`; null is an answer without a body.
    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Value, AskError> {
        let url = self
            .gateway
            .leases_url(path)
            .map_err(|error| wrong(&error))?;
        let response = self
            .client
            .post(url)
            .bearer_auth(self.token.expose())
            .json(body)
            .timeout(ANSWER_TIME)
            .send()
            .await
            .map_err(unreachable)?;
        let status = response.status().as_u16();
        let bytes = response.bytes().await.map_err(unreachable)?;
        if (200..300).contains(&status) {
            // The parser's own message could quote a secret.
            if bytes.is_empty() {
                return Ok(Value::Null);
            }
            return serde_json::from_slice(&bytes).map_err(|_| strange(status));
        }
        Err(refusal(status, &bytes))
    }
}

fn refusal(status: u16, body: &[u8]) -> AskError {
    let Ok(problem) = serde_json::from_slice::<Problem>(body) else {
        return strange(status);
    };
    let field = problem.field.map(|field| format!("{field}: "));
    let detail = problem.detail.unwrap_or_default();
    let message = text::clean(&format!("{}{detail}", field.unwrap_or_default()), MAX_SHOWN);
    let code = text::clean(&problem.code, MAX_SHOWN);
    let after = problem.retry_after_ms.map_or(PAUSE, Duration::from_millis);
    match (problem.disposition.as_deref(), problem.retryable) {
        (Some("retry"), _) | (None, true) => AskError::Retry {
            code,
            message,
            after,
        },
        (Some("stop"), _) => AskError::Refused { code, message },
        _ if status == 401 => AskError::Refused { code, message },
        _ => AskError::Wrong { code, message },
    }
}

fn strange(status: u16) -> AskError {
    let code = "strange_answer".to_owned();
    let message = format!("this is not the answer of a Fencepost gateway (HTTP {status})");
    if status >= 500 {
        return AskError::Retry {
            code,
            message,
            after: PAUSE,
        };
    }
    AskError::Wrong { code, message }
}

fn unreachable(error: reqwest::Error) -> AskError {
    AskError::Retry {
        code: "unreachable".to_owned(),
        message: format!("the gateway was not reached: {}", without_address(error)),
        after: PAUSE,
    }
}

fn wrong(error: &AddressError) -> AskError {
    AskError::Wrong {
        code: "invalid_address".to_owned(),
        message: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_do_about_a_refusal_is_what_the_gateway_says() {
        let retry =
            br#"{"code":"verifying","detail":"d","disposition":"retry","retry_after_ms":7}"#;
        let AskError::Retry { after, .. } = refusal(409, retry) else {
            panic!("not to be asked again");
        };
        assert_eq!(after, Duration::from_millis(7));
        let stop = br#"{"code":"commit_conflict","disposition":"stop"}"#;
        assert!(matches!(refusal(409, stop), AskError::Refused { .. }));
        let fix = br#"{"code":"request_conflict","disposition":"fix"}"#;
        assert!(matches!(refusal(409, fix), AskError::Wrong { .. }));
        let away = br#"{"code":"unavailable","retryable":true}"#;
        assert!(matches!(refusal(503, away), AskError::Retry { .. }));
        assert!(matches!(refusal(502, b"<html>"), AskError::Retry { .. }));
        assert!(matches!(refusal(404, b"<html>"), AskError::Wrong { .. }));
    }
}
