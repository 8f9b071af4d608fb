//! The agents' sockets, as far as they are sockets.
//!
//! A session is an actor that lives elsewhere and knows nothing of HTTP; here is what stands
//! between it and the wire:
//!
//! ```text
//! wire ─> Intake (bounds what is buffered) ─> Transport (frames) ── try_send ─> DeviceSession
//! wire <──────── Transport (writes) <── try_send ── Outlet <──────── try_send ── DeviceSession
//!                                                     └ cuts the connection when the peer stops reading
//! ```
//!
//! The transport is polled as the body of a response, so it stands still while its peer does not
//! read. That is why it holds no state worth keeping, and why the outlet, which never stands
//! still, decides when to give up. `actix-web-actors` is known to [`transport`] and [`upgrade`]
//! alone.

mod assembly;
mod connection;
mod intake;
mod outlet;
mod reading;
mod transport;
mod upgrade;

pub(crate) use connection::Cutter;
pub use connection::remember;
pub use upgrade::operation;
