//! Frames in, effects out.

mod ending;
mod keeping;
mod links;
mod reconnecting;
mod room;
mod working;
