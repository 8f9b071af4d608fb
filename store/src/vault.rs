//! The one kind of secret that is stored to be read again: what webhooks are signed with.
//!
//! It is sealed with a key that is derived from a secret of the configuration and is in no table, so
//! a copy of the database signs nothing. What is sealed belongs to one endpoint and opens for no
//! other.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use fencepost_domain::ids::EndpointId;
use hkdf::Hkdf;
use sha2::Sha256;

use crate::secrets::entropy;

/// Separates these keys from any other use of the same secret.
const CONTEXT: &[u8] = b"fencepost webhook secrets v1";
/// The first byte of what is sealed, so that another way can come later.
const VERSION: u8 = 1;
const NONCE_BYTES: usize = 24;
const SECRET_BYTES: usize = 32;

/// What an endpoint's deliveries are signed with. Shows nothing in `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret([u8; SECRET_BYTES]);

impl WebhookSecret {
    /// A new secret.
    pub fn mint() -> Self {
        Self(entropy())
    }

    /// The text to be shown once, as Standard Webhooks has it.
    pub fn expose(&self) -> String {
        format!("whsec_{}", STANDARD.encode(self.0))
    }

    /// The bytes that sign.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret(..)")
    }
}

/// A sealed secret, as it is stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed(pub(crate) Vec<u8>);

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealed(..)")
    }
}

/// Seals and opens. Cheap to clone.
#[derive(Clone)]
pub struct Vault(Arc<[XChaCha20Poly1305]>);

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Vault(..)")
    }
}

impl Vault {
    /// Seals with the first of `secrets`, and opens what was sealed with any of them.
    pub fn new(secrets: &[&[u8]]) -> Self {
        let ciphers = secrets.iter().map(|secret| {
            let mut key = [0; 32];
            Hkdf::<Sha256>::new(None, secret)
                .expand(CONTEXT, &mut key)
                .expect("32 bytes are not too many for SHA-256");
            XChaCha20Poly1305::new(&Key::from(key))
        });
        Self(ciphers.collect())
    }

    /// Seals the secret of an endpoint.
    ///
    /// # Panics
    /// Without any secret of the configuration, which cannot be: a gateway does not start then.
    pub fn seal(&self, endpoint: EndpointId, secret: &WebhookSecret) -> Sealed {
        let nonce: [u8; NONCE_BYTES] = entropy();
        let payload = Payload {
            msg: &secret.0,
            aad: endpoint.0.as_bytes(),
        };
        let first = self.0.first().expect("there is a secret to seal with");
        let sealed = first
            .encrypt(&XNonce::from(nonce), payload)
            .expect("a secret is short enough for any cipher");
        Sealed([&[VERSION][..], &nonce, &sealed].concat())
    }

    /// Opens the secret of an endpoint; `None` if it was sealed with another key.
    pub fn open(&self, endpoint: EndpointId, sealed: &Sealed) -> Option<WebhookSecret> {
        let (version, rest) = sealed.0.split_first()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_BYTES>()?;
        if *version != VERSION {
            return None;
        }
        let opened = self.0.iter().find_map(|cipher| {
            let payload = Payload {
                msg: sealed,
                aad: endpoint.0.as_bytes(),
            };
            cipher.decrypt(&XNonce::from(*nonce), payload).ok()
        })?;
        opened.try_into().ok().map(WebhookSecret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_opens_for_its_endpoint_and_key_alone() {
        let (endpoint, secret) = (EndpointId::new(), WebhookSecret::mint());
        let vault = Vault::new(&[b"one"]);
        let sealed = vault.seal(endpoint, &secret);
        assert_eq!(vault.open(endpoint, &sealed).as_ref(), Some(&secret));
        assert_eq!(vault.open(EndpointId::new(), &sealed), None);
        assert_eq!(Vault::new(&[b"two"]).open(endpoint, &sealed), None);
        // A new key in front opens what the old one sealed.
        let rotated = Vault::new(&[b"two", b"one"]);
        assert_eq!(rotated.open(endpoint, &sealed), Some(secret.clone()));
        assert_ne!(
            vault.seal(endpoint, &secret),
            sealed,
            "a nonce is used once"
        );
        for at in [0, 1, 30, sealed.0.len() - 1] {
            let mut bent = sealed.clone();
            bent.0[at] ^= 1;
            assert_eq!(vault.open(endpoint, &bent), None, "byte {at}");
        }
        assert_eq!(vault.open(endpoint, &Sealed(Vec::new())), None);
    }

    #[test]
    fn a_secret_is_shown_only_where_it_is_asked_for() {
        let secret = WebhookSecret::mint();
        let text = secret.expose();
        assert!(text.starts_with("whsec_") && text.len() > 40);
        assert_eq!(format!("{secret:?}"), "WebhookSecret(..)");
        assert_ne!(WebhookSecret::mint(), secret);
    }
}
