//! Events on their way to buyers.
//!
//! [`super::finish`] writes an event and one delivery for each endpoint that is subscribed then.
//! A dispatcher claims what is due ([`claim`]), sends with no transaction open, and records how it
//! went ([`record`]). A claim that nobody records is due again when its time is over, so whatever
//! dies in between, every delivery is made at least once.

pub mod change;
pub mod claim;
mod disable;
pub mod endpoints;
pub mod prune;
pub mod record;
pub mod redeliver;
