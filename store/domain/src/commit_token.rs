//! The one-time secret of a lease, and the only thing of it that may be stored.
//!
//! [`CommitToken`] is the plaintext: it leaves once, in the offer, and comes back in the frames that
//! settle an attempt. [`CommitTokenDigest`] is its SHA-256, which Postgres keeps. There is no way
//! from a digest to a token, and nothing here prints either.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// Bytes of entropy in a token.
pub const TOKEN_BYTES: usize = 24;

/// The plaintext secret of one lease: 24 random bytes, base64url on the wire.
#[derive(Clone, PartialEq, Eq)]
pub struct CommitToken([u8; TOKEN_BYTES]);

impl CommitToken {
    /// Wraps bytes that the caller drew from a cryptographic source.
    pub fn from_entropy(bytes: [u8; TOKEN_BYTES]) -> Self {
        Self(bytes)
    }

    /// What is stored and compared.
    pub fn digest(&self) -> CommitTokenDigest {
        // Over the text and not the bytes: that is what both sides of the wire hold in hand.
        CommitTokenDigest(Sha256::digest(self.expose()).into())
    }

    /// The text that goes into an offer. Call it nowhere else.
    pub fn expose(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    fn parse(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        <[u8; TOKEN_BYTES]>::try_from(bytes).ok().map(Self)
    }
}

impl fmt::Debug for CommitToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CommitToken(..)")
    }
}

impl JsonSchema for CommitToken {
    fn schema_name() -> Cow<'static, str> {
        "CommitToken".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^[A-Za-z0-9_-]{32}$",
            "description": "The secret of a lease: 24 bytes in base64url.",
        })
    }
}

impl Serialize for CommitToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.expose())
    }
}

impl<'de> Deserialize<'de> for CommitToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        // The text itself must not be in the message: it may be a secret with a typing error.
        Self::parse(&text)
            .ok_or_else(|| serde::de::Error::custom("commit_token must be 24 bytes in base64url"))
    }
}

/// SHA-256 of a commit token's text. Equality takes the same time whatever differs.
#[derive(Clone, Copy)]
pub struct CommitTokenDigest([u8; 32]);

impl CommitTokenDigest {
    /// A digest as it was stored; `None` unless it is 32 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        <[u8; 32]>::try_from(bytes).ok().map(Self)
    }

    /// The bytes to store.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl PartialEq for CommitTokenDigest {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for CommitTokenDigest {}

impl fmt::Debug for CommitTokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CommitTokenDigest(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(fill: u8) -> CommitToken {
        CommitToken::from_entropy([fill; TOKEN_BYTES])
    }

    #[test]
    fn a_token_survives_the_wire_and_shows_nothing_in_debug() {
        let text = serde_json::to_string(&token(7)).unwrap();
        assert_eq!(
            serde_json::from_str::<CommitToken>(&text).unwrap(),
            token(7)
        );
        let shown = format!("{:?} {:?}", token(7), token(7).digest());
        assert_eq!(shown, "CommitToken(..) CommitTokenDigest(..)");
    }

    #[test]
    fn the_digest_is_the_sha_256_of_the_text() {
        let expected: [u8; 32] = Sha256::digest(token(1).expose()).into();
        assert_eq!(token(1).digest().as_bytes(), &expected);
        assert!(token(1).digest() != token(2).digest());
    }

    #[test]
    fn a_malformed_token_is_refused_without_being_repeated() {
        let error = serde_json::from_str::<CommitToken>("\"hunter2\"")
            .unwrap_err()
            .to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }
}
