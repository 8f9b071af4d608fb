//! Media work with the FFmpeg of this machine.
#![cfg(test)]

mod checks;
mod children;
mod hostile;
mod kit;
mod limits;
mod shapes;
mod transcodes;
