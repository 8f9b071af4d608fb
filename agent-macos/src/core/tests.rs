//! Frames in, effects out.

mod ending;
mod links;
mod reconnecting;
mod room;
mod working;
