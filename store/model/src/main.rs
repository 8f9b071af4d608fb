//! Explores the model and says what it found: `make model`.
use fencepost_model::{Frame, Network, Scope, explore};
fn main() {
    let args: Vec<u8> = std::env::args().skip(2).filter_map(|a| a.parse().ok()).collect();
    let which = std::env::args().nth(1).unwrap_or_default();
    let net = if args[0] == 0 { Network::Open } else { Network::Counted { in_flight: args[0] } };
    let mut scope = if which == "d" { Scope::two_devices(net) } else { Scope::two_jobs(net) };
    scope.attempts = args[1]; scope.sessions = args[2]; scope.pickups = args[3]; scope.resumes = args[4]; scope.jumps = args[5];
    scope.operators = args[6] > 0; scope.max_attempts = args[7]; scope.devices = args[8];
    if args.get(9) == Some(&1) { scope.frames = &[Frame::Progress, Frame::Commit, Frame::Fail, Frame::Stopped]; }
    let f = explore(scope, 2);
    println!("{} states {} transitions depth {} {:?} unreached {:?}", f.states, f.transitions, f.depth, f.took, f.unreached);
    for (i, path) in f.broken { println!("{} {i:?}", i.id()); for p in path { println!("   {p}"); } }
}
