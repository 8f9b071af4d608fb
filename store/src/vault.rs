//! The secrets that are stored to be read again: what webhooks are signed with, and addresses of inputs.
//!
//! They are sealed with keys that are derived from a secret of the configuration and are in no table, so
//! a copy of the database signs nothing and fetches nothing. What is sealed belongs to one endpoint, or
//! to one input of one job, and opens for no other.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use fencepost_domain::ids::{EndpointId, JobId};
use fencepost_domain::secret_url::SecretUrl;
use hkdf::Hkdf;
use sha2::Sha256;

use crate::secrets::entropy;

/// Separate these keys from each other and from any other use of the same secret.
const WEBHOOKS: &[u8] = b"fencepost webhook secrets v1";
const URLS: &[u8] = b"fencepost input urls v1";
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

impl Sealed {
    /// What was stored within JSON, in hexadecimal.
    pub fn from_hex(text: &str) -> Option<Self> {
        hex::decode(text).ok().map(Self)
    }

    /// To be stored within JSON.
    pub fn to_hex(&self) -> String {
        hex::encode(&self.0)
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealed(..)")
    }
}

/// Seals and opens. Cheap to clone.
#[derive(Clone)]
pub struct Vault(Arc<[Ciphers]>);

/// The keys of one secret of the configuration.
struct Ciphers {
    webhooks: XChaCha20Poly1305,
    urls: XChaCha20Poly1305,
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Vault(..)")
    }
}

impl Vault {
    /// Seals with the first of `secrets`, and opens what was sealed with any of them.
    pub fn new(secrets: &[&[u8]]) -> Self {
        let ciphers = secrets.iter().map(|secret| Ciphers {
            webhooks: cipher(secret, WEBHOOKS),
            urls: cipher(secret, URLS),
        });
        Self(ciphers.collect())
    }

    /// Seals the secret of an endpoint.
    ///
    /// # Panics
    /// Without any secret of the configuration, which cannot be: a gateway does not start then.
    pub fn seal(&self, endpoint: EndpointId, secret: &WebhookSecret) -> Sealed {
        seal(&self.first().webhooks, endpoint.0.as_bytes(), &secret.0)
    }

    /// Opens the secret of an endpoint; `None` if it was sealed with another key.
    pub fn open(&self, endpoint: EndpointId, sealed: &Sealed) -> Option<WebhookSecret> {
        let mut all = self.0.iter();
        let opened =
            all.find_map(|ciphers| open(&ciphers.webhooks, endpoint.0.as_bytes(), sealed))?;
        opened.try_into().ok().map(WebhookSecret)
    }

    /// Seals the address of an input of a job.
    ///
    /// # Panics
    /// As [`Self::seal`].
    pub fn seal_url(&self, job: JobId, input: &str, url: &SecretUrl) -> Sealed {
        let owner = owner_of_url(job, input);
        seal(&self.first().urls, &owner, url.expose().as_bytes())
    }

    /// Opens the address of an input of a job; `None` if it was sealed with another key.
    pub fn open_url(&self, job: JobId, input: &str, sealed: &Sealed) -> Option<SecretUrl> {
        let owner = owner_of_url(job, input);
        let mut all = self.0.iter();
        let opened = all.find_map(|ciphers| open(&ciphers.urls, &owner, sealed))?;
        String::from_utf8(opened).ok().map(SecretUrl::new)
    }

    fn first(&self) -> &Ciphers {
        self.0.first().expect("there is a secret to seal with")
    }
}

fn cipher(secret: &[u8], context: &[u8]) -> XChaCha20Poly1305 {
    let mut key = [0; 32];
    Hkdf::<Sha256>::new(None, secret)
        .expand(context, &mut key)
        .expect("32 bytes are not too many for SHA-256");
    XChaCha20Poly1305::new(&Key::from(key))
}

/// The id has always the same length, so no two inputs are told apart by nothing.
fn owner_of_url(job: JobId, input: &str) -> Vec<u8> {
    [job.0.as_bytes(), input.as_bytes()].concat()
}

fn seal(cipher: &XChaCha20Poly1305, owner: &[u8], secret: &[u8]) -> Sealed {
    let nonce: [u8; NONCE_BYTES] = entropy();
    let payload = Payload {
        msg: secret,
        aad: owner,
    };
    let sealed = cipher
        .encrypt(&XNonce::from(nonce), payload)
        .expect("a secret is short enough for any cipher");
    Sealed([&[VERSION][..], &nonce, &sealed].concat())
}

fn open(cipher: &XChaCha20Poly1305, owner: &[u8], sealed: &Sealed) -> Option<Vec<u8>> {
    let (version, rest) = sealed.0.split_first()?;
    let (nonce, sealed) = rest.split_first_chunk::<NONCE_BYTES>()?;
    if *version != VERSION {
        return None;
    }
    let payload = Payload {
        msg: sealed,
        aad: owner,
    };
    cipher.decrypt(&XNonce::from(*nonce), payload).ok()
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
    fn an_address_opens_for_its_job_input_and_key_alone_and_is_no_webhooks_secret() {
        let (job, url) = (
            JobId::new(),
            SecretUrl::new("https://files.example/a?sig=abc"),
        );
        let vault = Vault::new(&[b"one"]);
        let sealed = vault.seal_url(job, "source", &url);
        assert_eq!(vault.open_url(job, "source", &sealed), Some(url.clone()));
        assert_eq!(vault.open_url(job, "clip_1", &sealed), None);
        assert_eq!(vault.open_url(JobId::new(), "source", &sealed), None);
        let other = Vault::new(&[b"two"]);
        assert_eq!(other.open_url(job, "source", &sealed), None);
        let rotated = Vault::new(&[b"two", b"one"]);
        assert_eq!(rotated.open_url(job, "source", &sealed), Some(url));
        // The same key of the configuration, the same owner, 32 bytes: and yet another purpose.
        let address = SecretUrl::new("https://abcdefghijklmno.example/");
        assert_eq!(address.expose().len(), SECRET_BYTES);
        let sealed = vault.seal_url(job, "", &address);
        assert_eq!(vault.open(EndpointId(job.0), &sealed), None);
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
