//! Addresses that buyers give us for their inputs. Most such addresses are keys: who has the link has
//! the file, for as long as its signature lasts.

use std::fmt;

/// The longest address of an input, in bytes. Links of object stores, which carry a signature and the
/// token of a session, have up to three thousand.
pub const MAX_URL_BYTES: usize = 4_000;
/// The most bytes of all addresses of one job: they are sent in one frame.
pub const MAX_URLS_BYTES: usize = 160_000;

/// An address that may be a secret. `Debug` shows the scheme and the host, which is all that may stand
/// in a log.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretUrl(String);

impl SecretUrl {
    /// An address as the URL parser writes it.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The whole address, for whoever is to fetch what is there.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The host, with its port if that is written: all that is shown of it. Empty if there is none.
    pub fn host(&self) -> &str {
        let rest = self.0.split_once("://").map_or("", |(_, rest)| rest);
        let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or("");
        authority
            .rsplit_once('@')
            .map_or(authority, |(_, host)| host)
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.0.split_once("://").map_or("", |(scheme, _)| scheme);
        let scheme = match scheme {
            "http" | "https" => scheme,
            _ => "?",
        };
        write!(f, "SecretUrl({scheme}://{}/..)", self.host())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_scheme_and_host_is_shown() {
        for (text, host, shown) in [
            (
                "https://files.example/a/b?sig=abc#x",
                "files.example",
                "SecretUrl(https://files.example/..)",
            ),
            (
                "http://127.0.0.1:9000/k?sig=abc",
                "127.0.0.1:9000",
                "SecretUrl(http://127.0.0.1:9000/..)",
            ),
            (
                "https://[2001:db8::1]:8443?sig=abc",
                "[2001:db8::1]:8443",
                "SecretUrl(https://[2001:db8::1]:8443/..)",
            ),
            (
                "https://me:abc@files.example/",
                "files.example",
                "SecretUrl(https://files.example/..)",
            ),
            ("abc", "", "SecretUrl(?:///..)"),
            (
                "abc://files.example/",
                "files.example",
                "SecretUrl(?://files.example/..)",
            ),
        ] {
            let url = SecretUrl::new(text);
            assert_eq!((url.host(), url.expose()), (host, text));
            assert_eq!(format!("{url:?}"), shown);
            assert!(!format!("{url:?}").contains("abc"));
        }
    }
}
