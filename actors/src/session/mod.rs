//! One device's session: a pure core, and the actor that does what it says.

mod actor;
mod answers;
mod asking;
mod core;
mod greeting;
mod handlers;
mod inputs;
mod lanes;
mod offers;
mod outside;
mod parts;
mod records;
mod slots;

pub use actor::{DeviceSession, Neighbours};
pub use offers::OfferLinks;
pub use outside::{ClaimTold, Outside, Told};
pub use records::{ArtifactCall, EventCall, HandOffCall, ProgressCall, ReapedCall, Records};
