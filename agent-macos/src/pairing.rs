//! Turns a one-use enrollment code into this device's own token.

use fencepost_domain::ids::{DeviceId, ProviderId};
use fencepost_domain::text;
use serde::{Deserialize, Serialize};

use crate::address::{AddressError, Gateway};
use crate::credential::{DeviceFile, DeviceToken, EnrollmentCode};
use crate::http;

/// Why pairing did not work.
#[derive(Debug, thiserror::Error)]
pub enum PairingError {
    /// The address cannot be used.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The gateway said no.
    #[error("the gateway refused to pair: {0}")]
    Refused(String),
    /// The gateway was not reached.
    #[error("the gateway was not reached: {0}")]
    Unreachable(String),
    /// The answer is not one of a gateway.
    #[error("this is not the address of a Fencepost gateway: {0}")]
    Strange(String),
}

#[derive(Serialize)]
struct Request<'a> {
    code: &'a str,
    device_name: &'a str,
    agent_version: &'a str,
}

#[derive(Deserialize)]
struct Answer {
    device_id: DeviceId,
    provider_id: ProviderId,
    device_token: DeviceToken,
}

/// The parts of a problem+json that a person wants to read.
#[derive(Deserialize)]
struct Problem {
    title: String,
    #[serde(default)]
    detail: Option<String>,
    #[serde(default)]
    field: Option<String>,
}

const MAX_SHOWN: usize = 500;

/// Pairs this device. The code is spent if it succeeds; the caller keeps what comes back.
pub async fn pair(
    gateway: &Gateway,
    code: &EnrollmentCode,
    device_name: &str,
) -> Result<DeviceFile, PairingError> {
    let request = Request {
        code: code.expose(),
        device_name,
        agent_version: env!("CARGO_PKG_VERSION"),
    };
    let response = http::client(gateway)
        .map_err(|error| unreachable(&error))?
        .post(gateway.pair_url()?)
        .json(&request)
        .timeout(http::IDLE_TIME)
        .send()
        .await
        .map_err(|error| unreachable(&error))?;
    let status = response.status();
    let body = response
        .bytes()
        .await
        .map_err(|error| unreachable(&error))?;
    if !status.is_success() {
        return Err(refusal(status.as_u16(), &body));
    }
    // The parser's own message could quote the token.
    let answer: Answer = serde_json::from_slice(&body)
        .map_err(|_| PairingError::Strange("its answer has no device token".to_owned()))?;
    Ok(DeviceFile {
        gateway: gateway.as_str().to_owned(),
        device_id: answer.device_id,
        provider_id: answer.provider_id,
        device_name: device_name.to_owned(),
        device_token: answer.device_token,
    })
}

fn refusal(status: u16, body: &[u8]) -> PairingError {
    let Ok(problem) = serde_json::from_slice::<Problem>(body) else {
        return PairingError::Strange(format!("it answered with HTTP {status}"));
    };
    let field = problem
        .field
        .map(|field| format!("{field}: "))
        .unwrap_or_default();
    let said = format!("{field}{}", problem.detail.unwrap_or(problem.title));
    PairingError::Refused(text::clean(&said, MAX_SHOWN))
}

fn unreachable(error: &reqwest::Error) -> PairingError {
    PairingError::Unreachable(causes(error))
}

/// An error and what caused it, in one line.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        // Many libraries repeat the cause in their own text.
        if !line.contains(&inner_text) {
            line = format!("{line}: {inner_text}");
        }
        cause = inner.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_detail_of_a_problem_is_shown_and_cleaned() {
        let body = br#"{"title":"Gone","status":410,"detail":"the code\u0000 has expired","field":"code"}"#;
        let shown = refusal(410, body).to_string();
        assert!(shown.ends_with("code: the code has expired"), "{shown}");
    }

    #[test]
    fn a_page_of_somebody_else_is_named_as_such() {
        assert!(matches!(refusal(404, b"<html>"), PairingError::Strange(_)));
    }
}
