//! `fencepost-agent`.
fn main() {}
