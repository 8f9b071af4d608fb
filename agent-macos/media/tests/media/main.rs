//! Media work with the FFmpeg of this machine.
#![cfg(test)]

mod assembles;
mod burns;
mod checks;
mod children;
mod colours;
mod hostile;
mod kit;
mod leaks;
mod limits;
mod shapes;
mod stitches;
mod sync;
mod transcodes;
