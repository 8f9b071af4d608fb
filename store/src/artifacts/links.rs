//! Signed links: who may read or write which object, until when, without a row to look up.
//!
//! A link carries its grant in clear and a MAC over it, so every gateway that has the key can judge
//! it. It is a bearer secret until it expires: it goes to the one who asked, and into no log.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fencepost_domain::ids::{AttemptId, UploadId};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::Bucket;

/// Separates these MACs from any other use of the same key.
const CONTEXT: &[u8] = b"fencepost link v1\0";
/// The path that every link begins with.
const PREFIX: &str = "/v1/blobs/";
const MIN_KEY_BYTES: usize = 32;

/// Which way the bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From us.
    Get,
    /// To us.
    Put,
}

/// On whose behalf the link was signed, which decides what is checked when it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Holder {
    /// An attempt's agent: an output is put in place only while the attempt's grant is open.
    Attempt(AttemptId),
    /// A buyer who sends a file, once.
    Upload(UploadId),
    /// A buyer who fetches an output.
    Buyer,
}

/// A permission to move the bytes of one object in one direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// The object.
    pub key: String,
    /// Which way.
    pub direction: Direction,
    /// A transfer must have started before this instant of Postgres's clock: microseconds since
    /// 1970.
    pub expires_at_micros: i64,
    /// The most bytes that are taken; has no meaning for reading.
    pub max_bytes: u64,
    /// On whose behalf.
    pub holder: Holder,
    /// What the bytes are called for who saves them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_name: Option<String>,
}

impl Grant {
    /// Whether no transfer may start any more. Expired at equality, like a lease.
    pub fn is_expired(&self, now: time::OffsetDateTime) -> bool {
        i128::from(self.expires_at_micros) * 1_000 <= now.unix_timestamp_nanos()
    }
}

/// The secret that gateways share to sign links.
#[derive(Clone)]
pub struct SigningKey(Vec<u8>);

impl SigningKey {
    /// A key of at least 32 bytes, or what is wrong with it.
    pub fn new(bytes: Vec<u8>) -> Result<Self, String> {
        if bytes.len() < MIN_KEY_BYTES {
            return Err(format!(
                "a signing key has at least {MIN_KEY_BYTES} bytes, this one has {}",
                bytes.len()
            ));
        }
        Ok(Self(bytes))
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(..)")
    }
}

/// The link was not signed by us, or not like this. Nothing more is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the link is not valid")]
pub struct LinkError;

/// Signs and opens links.
#[derive(Debug, Clone)]
pub struct LinkSigner {
    key: SigningKey,
}

impl LinkSigner {
    /// Signs with `key`.
    pub fn new(key: SigningKey) -> Self {
        Self { key }
    }

    /// The path of the link that stands for `grant`, relative to the gateway's HTTP address.
    pub fn sign(&self, grant: &Grant) -> String {
        let json = serde_json::to_vec(grant).expect("a grant is plain strings and numbers");
        let payload = URL_SAFE_NO_PAD.encode(json);
        let mac = URL_SAFE_NO_PAD.encode(self.mac(&payload).finalize().into_bytes());
        format!("{PREFIX}{payload}.{mac}")
    }

    /// The grant behind the last segment of a link's path. Says nothing about whether it expired:
    /// that is for Postgres's clock to judge, when the transfer starts.
    pub fn open(&self, token: &str) -> Result<Grant, LinkError> {
        let (payload, mac) = token.split_once('.').ok_or(LinkError)?;
        let mac = URL_SAFE_NO_PAD.decode(mac).map_err(|_| LinkError)?;
        self.mac(payload)
            .verify_slice(&mac)
            .map_err(|_| LinkError)?;
        let json = URL_SAFE_NO_PAD.decode(payload).map_err(|_| LinkError)?;
        serde_json::from_slice(&json).map_err(|_| LinkError)
    }

    fn mac(&self, payload: &str) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.key.0).expect("HMAC takes a key of any length");
        mac.update(CONTEXT);
        mac.update(payload.as_bytes());
        mac
    }
}

/// Makes links, to ourselves or to the bucket.
#[derive(Debug, Clone)]
pub enum Links {
    /// The bytes pass through the gateway, which signs and judges.
    Gateway(LinkSigner),
    /// The bytes pass us by.
    Bucket(Bucket),
}

impl Links {
    /// The link that stands for `grant`: a path of the gateway's, or an address of the bucket's.
    pub fn sign(&self, grant: &Grant) -> String {
        match self {
            Self::Gateway(signer) => signer.sign(grant),
            // One was signed when the bucket was opened; keys are made by us.
            Self::Bucket(bucket) => bucket.link(grant).unwrap_or_else(|error| {
                tracing::error!(%error, "a link was not signed");
                String::new()
            }),
        }
    }

    /// The bucket, where links lead to one.
    pub fn bucket(&self) -> Option<&Bucket> {
        match self {
            Self::Gateway(_) => None,
            Self::Bucket(bucket) => Some(bucket),
        }
    }
}

#[cfg(test)]
#[path = "links_tests.rs"]
mod tests;
