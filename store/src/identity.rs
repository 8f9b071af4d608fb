//! What gateways of one database must have in common, in a form that may be seen by anybody.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use uuid::Uuid;

/// What every secret signs to be told from others.
const LABEL: &[u8] = b"fencepost: which key is this? v1";

/// One-way: the same for the same secret, and nothing of it can be found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Of a secret of the configuration.
    ///
    /// # Panics
    /// Never: any number of bytes is a key.
    pub fn of(secret: &[u8]) -> Self {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes a key of any length");
        mac.update(LABEL);
        Self(mac.finalize().into_bytes().into())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Which keys and which store a gateway works with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatewayIdentity {
    /// Of the key that signs links.
    pub link_key: Fingerprint,
    /// Of the key that seals webhook secrets.
    pub webhook_key: Fingerprint,
    /// The random id that its folder or bucket has.
    pub object_store: Uuid,
}

/// Where two gateways differ that may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Difference {
    /// In the key that signs links.
    pub link_key: bool,
    /// In the key that seals webhook secrets.
    pub webhook_key: bool,
    /// In the folder or bucket.
    pub object_store: bool,
}

impl Difference {
    /// Whether there is one.
    pub fn is_some(self) -> bool {
        self.link_key || self.webhook_key || self.object_store
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [
            (
                self.link_key,
                "another link-signing key (artifacts.signing_key)",
            ),
            (
                self.webhook_key,
                "another key for webhook secrets (webhooks.secret_key)",
            ),
            (
                self.object_store,
                "another store of objects (artifacts.dir or artifacts.s3)",
            ),
        ];
        let named: Vec<_> = all
            .iter()
            .filter(|(differs, _)| *differs)
            .map(|(_, name)| *name)
            .collect();
        f.write_str(&named.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_secret_has_the_same_fingerprint_and_no_other_has() {
        let one = Fingerprint::of(b"a secret of the configuration");
        assert_eq!(one, Fingerprint::of(b"a secret of the configuration"));
        assert_ne!(one, Fingerprint::of(b"a secret of the configuratioN"));
    }

    #[test]
    fn a_difference_names_what_differs_and_nothing_else() {
        assert!(!Difference::default().is_some());
        let difference = Difference {
            link_key: true,
            object_store: true,
            ..Difference::default()
        };
        assert!(difference.is_some());
        let text = difference.to_string();
        assert!(
            text.contains("signing_key") && text.contains("artifacts.dir"),
            "{text}"
        );
        assert!(!text.contains("webhook"), "{text}");
    }
}
