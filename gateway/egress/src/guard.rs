//! The judgement on an address: by its form, and by what its name leads to.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use url::{Host, Url};

use crate::address::is_public;
use crate::allow::AllowList;
use crate::lookup::{Lookup, SystemLookup};

/// Longer than any resolver that works.
const LOOKUP_WITHIN: Duration = Duration::from_secs(5);

/// Why an address is not used. Says nothing about what a name leads to: whoever chose the name must
/// not learn of our network by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Another scheme, or no host.
    #[error("must be an address like https://example.com/path")]
    Form,
    /// A name or password before the host.
    #[error("must not have a user or password in it")]
    Credentials,
    /// Plain HTTP across networks.
    #[error("must begin with https://")]
    InClear,
    /// At least one of the host's addresses is not public.
    #[error("must lead to public addresses only")]
    NotPublic,
    /// The name leads nowhere.
    #[error("leads nowhere: its host has no address")]
    Unknown,
}

/// Judges addresses. Cheap to clone.
#[derive(Clone)]
pub struct Guard {
    allowed: AllowList,
    lookup: Arc<dyn Lookup>,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guard({})", self.allowed)
    }
}

impl Guard {
    /// A guard that lets requests go to public addresses and to the networks of `allowed`.
    pub fn new(allowed: AllowList) -> Self {
        Self::with_lookup(allowed, SystemLookup)
    }

    /// The same with another way to find the addresses of names.
    pub fn with_lookup(allowed: AllowList, lookup: impl Lookup + 'static) -> Self {
        let lookup = Arc::new(lookup);
        Self { allowed, lookup }
    }

    /// The networks that are allowed beside the public ones.
    pub fn allowed(&self) -> &AllowList {
        &self.allowed
    }

    /// Judges an address where it is written down: its form, and every address of its name now.
    ///
    /// # Errors
    /// Why it may not be used.
    pub async fn admit(&self, url: &Url) -> Result<(), Refused> {
        self.judge_form(url)?;
        if let Some(Host::Domain(name)) = url.host() {
            self.addresses(name, in_clear(url)).await?;
        }
        Ok(())
    }

    /// Judges what can be seen without asking anybody. A host that is a number, in whatever spelling,
    /// is an address already.
    pub(crate) fn judge_form(&self, url: &Url) -> Result<(), Refused> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refused::Form);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refused::Credentials);
        }
        match url.host() {
            None => Err(Refused::Form),
            Some(Host::Ipv4(four)) => self.judge(IpAddr::V4(four), in_clear(url)),
            Some(Host::Ipv6(six)) => self.judge(IpAddr::V6(six), in_clear(url)),
            // In clear nothing goes further than to networks that the operator named.
            Some(Host::Domain(_)) if in_clear(url) && self.allowed.is_empty() => {
                Err(Refused::InClear)
            }
            Some(Host::Domain(_)) => Ok(()),
        }
    }

    /// All addresses of a name, each of them good.
    pub(crate) async fn addresses(
        &self,
        name: &str,
        in_clear: bool,
    ) -> Result<Vec<IpAddr>, Refused> {
        let looking = self.lookup.lookup(name.to_owned());
        let found = tokio::time::timeout(LOOKUP_WITHIN, looking).await;
        let found = found.ok().and_then(Result::ok).unwrap_or_default();
        if found.is_empty() {
            return Err(Refused::Unknown);
        }
        for address in &found {
            self.judge(*address, in_clear)?;
        }
        Ok(found)
    }

    fn judge(&self, address: IpAddr, in_clear: bool) -> Result<(), Refused> {
        if self.allowed.contains(address) {
            Ok(())
        } else if !is_public(address) {
            Err(Refused::NotPublic)
        } else if in_clear {
            Err(Refused::InClear)
        } else {
            Ok(())
        }
    }
}

/// Whether everybody on the way can read along.
pub(crate) fn in_clear(url: &Url) -> bool {
    url.scheme() == "http"
}

#[cfg(test)]
#[path = "guard_tests.rs"]
pub(crate) mod tests;
