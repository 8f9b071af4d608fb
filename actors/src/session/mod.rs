//! One device's session: a pure core, and the actor that does what it says.

mod actor;
mod answers;
mod core;
mod greeting;
mod handlers;
mod lanes;
mod offers;
mod progress;
mod slots;

pub use actor::{DeviceSession, Neighbours};
pub use offers::OfferLinks;
pub use progress::ProgressCall;
