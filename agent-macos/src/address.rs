//! Which addresses the agent talks to, and how safely.

use url::{Host, Url};

/// Why an address is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It is not an address.
    #[error("{0:?} is not an address; write it like https://gateway.example.com")]
    Malformed(String),
    /// A scheme that we do not speak.
    #[error("{0}: only https (or http to this same machine) is spoken")]
    Scheme(String),
    /// Secrets would cross a network in clear.
    #[error(
        "{0}: plain http would send secrets in clear to another host; use https, or a tunnel that \
         ends on this machine"
    )]
    InClear(String),
}

/// The HTTP address of a gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gateway(Url);

impl Gateway {
    /// Reads an address and refuses one that would send secrets in clear.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let mut url = Url::parse(text).map_err(|_| AddressError::Malformed(text.to_owned()))?;
        if url.host().is_none() || !url.username().is_empty() || url.password().is_some() {
            // Not repeated: what stands before the @ may be a password.
            return Err(AddressError::Malformed("the gateway's address".to_owned()));
        }
        check_safe(&url)?;
        url.set_query(None);
        url.set_fragment(None);
        if !url.path().ends_with('/') {
            url.set_path(&format!("{}/", url.path()));
        }
        Ok(Self(url))
    }

    /// The address as it is kept.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Where to pair.
    pub fn pair_url(&self) -> Result<Url, AddressError> {
        self.below("v1/provider/pair")
    }

    /// Where leases outside a session are asked for; `path` begins with a slash or is empty.
    pub fn leases_url(&self, path: &str) -> Result<Url, AddressError> {
        self.below(&format!("v1/provider/leases{path}"))
    }

    /// Where the session's WebSocket is.
    pub fn session_url(&self) -> Result<Url, AddressError> {
        let mut url = self.below("v1/provider/ws")?;
        let scheme = if url.scheme() == "https" { "wss" } else { "ws" };
        // Between special schemes this cannot fail; if it did, we would rather not dial.
        url.set_scheme(scheme)
            .map_err(|()| AddressError::Scheme(url.to_string()))?;
        Ok(url)
    }

    /// The address of a grant: absolute, or relative to the gateway.
    pub fn grant_url(&self, text: &str) -> Result<Url, AddressError> {
        let url = self
            .0
            .join(text)
            .map_err(|_| AddressError::Malformed("a grant".to_owned()))?;
        check_safe(&url).map(|()| url)
    }

    /// Whether an address is the gateway's own: the same scheme, host and port.
    pub fn has(&self, url: &Url) -> bool {
        self.0.origin() == url.origin()
    }

    /// Whether it is on this machine, where no proxy must come between.
    pub fn is_local(&self) -> bool {
        is_loopback(&self.0)
    }

    fn below(&self, path: &str) -> Result<Url, AddressError> {
        self.0
            .join(path)
            .map_err(|_| AddressError::Malformed(self.0.to_string()))
    }
}

/// https anywhere; http only to this machine. The message names the host alone, since a grant's
/// address holds a signature.
fn check_safe(url: &Url) -> Result<(), AddressError> {
    let host = url.host_str().unwrap_or_default().to_owned();
    match url.scheme() {
        "https" => Ok(()),
        "http" if is_loopback(url) => Ok(()),
        "http" => Err(AddressError::InClear(host)),
        other => Err(AddressError::Scheme(format!("{other}://{host}"))),
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_goes_to_this_machine_only() {
        for local in [
            "http://127.0.0.1:8080",
            "http://localhost",
            "http://[::1]:1",
        ] {
            assert!(Gateway::parse(local).is_ok(), "{local}");
        }
        for remote in [
            "http://10.0.0.1",
            "http://localhost.example.com",
            "http://0.0.0.0",
        ] {
            let error = Gateway::parse(remote).unwrap_err();
            assert!(matches!(error, AddressError::InClear(_)), "{remote}");
        }
        assert!(Gateway::parse("https://gateway.example.com").is_ok());
    }

    #[test]
    fn other_schemes_and_credentials_in_the_address_are_refused() {
        assert!(Gateway::parse("ftp://127.0.0.1").is_err());
        assert!(Gateway::parse("gateway.example.com").is_err());
        let error = Gateway::parse("https://me:hunter2@gateway.example.com").unwrap_err();
        assert!(!error.to_string().contains("hunter2"));
    }

    #[test]
    fn the_session_is_below_the_address_with_the_matching_scheme() {
        let plain = Gateway::parse("http://127.0.0.1:1")
            .unwrap()
            .session_url()
            .unwrap();
        assert_eq!(plain.as_str(), "ws://127.0.0.1:1/v1/provider/ws");
        let deep = Gateway::parse("https://g.example/fp")
            .unwrap()
            .session_url()
            .unwrap();
        assert_eq!(deep.as_str(), "wss://g.example/fp/v1/provider/ws");
    }

    #[test]
    fn a_grant_may_be_relative_or_elsewhere_but_not_in_clear() {
        let gateway = Gateway::parse("http://127.0.0.1:1").unwrap();
        let relative = gateway.grant_url("/v1/objects/a?sig=x").unwrap();
        assert_eq!(relative.as_str(), "http://127.0.0.1:1/v1/objects/a?sig=x");
        assert!(gateway.grant_url("https://bucket.example/k").is_ok());
        let error = gateway
            .grant_url("http://bucket.example/k?sig=abc123")
            .unwrap_err();
        assert!(!error.to_string().contains("abc123"));
    }
}
