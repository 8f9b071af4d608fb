//! Networks that an operator lets requests go to although they are not public.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::address::canonical;

/// A text that names no network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no network; write it like 10.0.0.0/8 or fd00::/8, several with commas between them"
)]
pub struct NotANetwork(String);

/// One network, `10.20.0.0/16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Network(IpNet);

/// Networks beside the public ones; usually none. Read from a list of texts, or from one text with
/// commas.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written")]
pub struct AllowList(Vec<Network>);

/// How an operator writes it.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "here are no networks; write one like 10.0.0.0/8 or fd00::/8, several with commas between \
        them, or as a list [\"10.0.0.0/8\", \"fd00::/8\"]"
)]
enum Written {
    List(Vec<Network>),
    Line(Line),
}

/// Networks between commas.
struct Line(Vec<Network>);

impl From<Written> for AllowList {
    fn from(written: Written) -> Self {
        match written {
            Written::List(networks) | Written::Line(Line(networks)) => Self(networks),
        }
    }
}

impl<'de> Deserialize<'de> for Line {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let words = text.split(',').filter(|word| !word.trim().is_empty());
        let networks: Result<_, NotANetwork> = words.map(str::parse).collect();
        networks.map(Self).map_err(serde::de::Error::custom)
    }
}

impl AllowList {
    /// Reads networks.
    ///
    /// # Errors
    /// If one of the texts names none.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, NotANetwork> {
        let networks = texts.into_iter().map(str::parse);
        networks.collect::<Result<_, _>>().map(Self)
    }

    /// Whether nothing but the public networks is allowed, as it should be.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an address is in one of the networks.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = canonical(address);
        self.0.iter().any(|network| network.0.contains(&address))
    }
}

impl FromStr for Network {
    type Err = NotANetwork;
    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let network: IpNet = text
            .trim()
            .parse()
            .map_err(|_| NotANetwork(text.to_owned()))?;
        Ok(Self(network.trunc()))
    }
}

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for AllowList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(|network| network.0.to_string()).collect();
        f.write_str(&texts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_in_its_network_also_when_it_is_dressed_up() {
        let allowed = AllowList::parse(["127.0.0.1/8", "fd00::/8"]).unwrap();
        for text in ["127.0.0.1", "127.9.9.9", "::ffff:127.0.0.1", "fd00::1"] {
            assert!(allowed.contains(text.parse().unwrap()), "{text}");
        }
        for text in ["128.0.0.1", "::1", "::127.0.0.1", "fe80::1"] {
            assert!(!allowed.contains(text.parse().unwrap()), "{text}");
        }
        assert_eq!(allowed.to_string(), "127.0.0.0/8, fd00::/8");
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in ["", "10.0.0.1", "10.0.0.0/33", "localhost/8"] {
            assert!(AllowList::parse([text]).is_err(), "{text}");
        }
    }
}
