//! `fencepost`.
fn main() {}
