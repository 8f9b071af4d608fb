//! Requests to addresses that strangers chose: webhooks to receivers, inputs from other hosts.
//!
//! Whoever may name an address can make us knock at doors that only we can reach: our own loopback,
//! the network behind us, a cloud's metadata. So an address is judged by what it *is*, not by how it
//! is spelled ([`address`]), when it is written down ([`Guard::admit`]) and again when it is used,
//! where the connection goes to the very addresses that were judged ([`Guarded`]). Redirects are not
//! followed and proxies are not asked.
#![warn(missing_docs)]

pub mod address;
mod allow;
mod guard;
mod guarded;
mod lookup;

pub use allow::{AllowList, NotANetwork};
pub use guard::{Guard, Refused};
pub use guarded::{Answer, Failed, Guarded, Limits};
pub use lookup::{Lookup, SystemLookup};
