//! Frames in, effects out.

mod ending;
mod reconnecting;
mod working;
