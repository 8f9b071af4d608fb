//! Addresses from which a Mac fetches an input, and what the buyer says of the bytes there.
//!
//! The digest stands where a browser expects a fragment, which no server ever sees:
//! `https://…/film.mp4#sha256=…`. So it stays with the address when the two are copied, and is taken off
//! before anything is sent.

use fencepost_domain::secret_url::SecretUrl;
use fencepost_domain::sha256;

/// Where a file is, and what is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// The address alone.
    pub(super) url: SecretUrl,
    /// What the SHA-256 of its bytes must be.
    pub(super) sha256: Option<String>,
    /// How many bytes there must be.
    pub(super) size_bytes: Option<u64>,
}

/// Why an address is not taken. Said later than other mistakes: an argument that is refused is shown
/// whole, with the signature that may be in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unfit {
    /// No Mac fetches from addresses of this scheme.
    Scheme(String),
    /// What stands behind `#` is not what can be said of a file.
    Fragment(&'static str),
}

impl Unfit {
    /// What is wrong with the input of this name, without its address.
    pub(super) fn says(&self, name: &str) -> String {
        match self {
            Self::Scheme(scheme) => format!(
                "the input {name} is at an address with {scheme}://, and Macs fetch from https:// alone: \
                 give such an address, or a file"
            ),
            Self::Fragment(problem) => format!(
                "the address of the input {name} {problem}: it may end with #sha256=DIGEST ({}), with \
                 #size_bytes=NUMBER, or with both, as in '#sha256=DIGEST&size_bytes=NUMBER', and with no \
                 other #",
                sha256::EXPECTED
            ),
        }
    }
}

/// `https` of `https://…`: what is before `://`, if it can be the scheme of an address.
pub(super) fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once("://")?;
    let is_one = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    is_one.then_some(scheme)
}

/// An address; what is wrong with it besides its scheme and its fragment is said by the gateway.
pub(super) fn address(text: &str) -> Result<Address, Unfit> {
    let scheme = scheme(text).unwrap_or_default();
    let lower = scheme.to_ascii_lowercase();
    if !matches!(lower.as_str(), "https" | "http" | "") {
        return Err(Unfit::Scheme(lower));
    }
    let rest = &text[scheme.len()..];
    let (rest, fragment) = match rest.split_once('#') {
        Some((rest, fragment)) => (rest, Some(fragment)),
        None => (rest, None),
    };
    let mut address = Address {
        // The gateway takes them in one spelling only.
        url: SecretUrl::new(lower + rest),
        sha256: None,
        size_bytes: None,
    };
    if let Some(fragment) = fragment {
        read_fragment(fragment, &mut address).map_err(Unfit::Fragment)?;
    }
    Ok(address)
}

fn read_fragment(fragment: &str, address: &mut Address) -> Result<(), &'static str> {
    for word in fragment.split('&') {
        match word.split_once('=') {
            Some(("sha256", _)) if address.sha256.is_some() => {
                return Err("says sha256 twice");
            }
            Some(("sha256", digest)) => {
                // Not every tool writes them in lower case.
                let digest = digest.to_ascii_lowercase();
                if sha256::parse(&digest).is_none() {
                    return Err("has a sha256 behind its # that is none");
                }
                address.sha256 = Some(digest);
            }
            Some(("size_bytes", _)) if address.size_bytes.is_some() => {
                return Err("says size_bytes twice");
            }
            Some(("size_bytes", number)) => {
                let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
                let number = number.parse().ok().filter(|size| is_number && *size > 0);
                let size =
                    number.ok_or("has a size_bytes behind its # that is no number from 1")?;
                address.size_bytes = Some(size);
            }
            _ => return Err("has something behind its # that is not known"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "https://x.example/A?b=C";

    fn at(url: &str) -> Address {
        Address {
            url: SecretUrl::new(url),
            sha256: None,
            size_bytes: None,
        }
    }

    #[test]
    fn a_scheme_is_known_in_any_case() {
        for text in [URL, "HTTPS://x.example/A?b=C", "hTTps://x.example/A?b=C"] {
            assert_eq!(address(text), Ok(at(URL)), "{text}");
        }
        let refused = address("S3://bucket/a?sig=s3cret#sha256=0").unwrap_err();
        assert_eq!(refused, Unfit::Scheme("s3".to_owned()));
        assert!(
            refused
                .says("source")
                .contains("the input source is at an address with s3://")
        );
    }

    #[test]
    fn what_is_known_of_the_bytes_stands_behind_the_address_and_is_taken_off() {
        let (digest, upper) = ("0a".repeat(32), "0A".repeat(32));
        for (fragment, sha256, size_bytes) in [
            (format!("sha256={digest}"), Some(&digest), None),
            (format!("sha256={upper}"), Some(&digest), None),
            ("size_bytes=7".to_owned(), None, Some(7)),
            (
                format!("sha256={digest}&size_bytes=7"),
                Some(&digest),
                Some(7),
            ),
            (
                format!("size_bytes=7&sha256={digest}"),
                Some(&digest),
                Some(7),
            ),
        ] {
            let expected = Address {
                sha256: sha256.cloned(),
                size_bytes,
                ..at(URL)
            };
            assert_eq!(
                address(&format!("{URL}#{fragment}")),
                Ok(expected),
                "{fragment}"
            );
        }
    }

    #[test]
    fn anything_else_behind_an_address_is_refused_without_repeating_it() {
        let digest = "0a".repeat(32);
        for (fragment, says) in [
            (String::new(), "not known"),
            ("s3cret".to_owned(), "not known"),
            ("t=10,20".to_owned(), "not known"),
            (digest.clone(), "not known"),
            (format!("sha-256={digest}"), "not known"),
            (format!("SHA256={digest}"), "not known"),
            (format!("sha256={digest}&"), "not known"),
            (
                format!("sha256={digest}#"),
                "sha256 behind its # that is none",
            ),
            (
                format!("sha256={}", &digest[2..]),
                "sha256 behind its # that is none",
            ),
            ("sha256=".to_owned(), "sha256 behind its # that is none"),
            (format!("sha256={digest}&sha256={digest}"), "sha256 twice"),
            ("size_bytes=0".to_owned(), "no number from 1"),
            ("size_bytes=+1".to_owned(), "no number from 1"),
            ("size_bytes=".to_owned(), "no number from 1"),
            ("size_bytes=1&size_bytes=1".to_owned(), "size_bytes twice"),
        ] {
            let refused = address(&format!("{URL}#{fragment}")).expect_err(&fragment);
            let said = refused.says("source");
            assert!(said.contains(says), "{fragment}: {said}");
            assert!(
                said.contains("'#sha256=DIGEST&size_bytes=NUMBER'"),
                "{said}"
            );
            assert!(
                !said.contains("x.example") && !said.contains("s3cret"),
                "{said}"
            );
        }
    }
}
