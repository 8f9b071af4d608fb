//! Where a name leads.

use std::io;
use std::net::IpAddr;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

/// Finds all addresses of a name.
pub trait Lookup: Send + Sync {
    /// All addresses of `name`.
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// What this machine's own resolver says.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        }
        .boxed()
    }
}
