//! The scopes that are explored, by name.

use crate::scope::{Network, Scope};
use crate::step::Frame;

/// Enough to do everything but in every wording.
const FEW_FRAMES: &[Frame] = &[Frame::Progress, Frame::Commit, Frame::Fail, Frame::Stopped];

/// What `make test` explores: a minute at most, without optimisation, on two cores.
pub fn bounded() -> Vec<(&'static str, Scope)> {
    let small = |scope: Scope| Scope {
        attempts: 2,
        resumes: 1,
        ..scope
    };
    vec![
        (
            "open-small",
            Scope {
                devices: 1,
                max_attempts: 1,
                ..small(Scope::two_devices(Network::Open))
            },
        ),
        (
            "open-devices-small",
            Scope {
                jumps: 0,
                sessions: 1,
                max_attempts: 1,
                frames: FEW_FRAMES,
                ..small(Scope::two_devices(Network::Open))
            },
        ),
        (
            "open-jobs-small",
            Scope {
                jumps: 0,
                sessions: 1,
                pickups: 1,
                max_attempts: 1,
                operators: false,
                frames: &[Frame::Progress, Frame::Commit],
                ..small(Scope::two_jobs(Network::Open))
            },
        ),
        (
            "counted-small",
            Scope {
                devices: 1,
                attempts: 1,
                max_attempts: 1,
                jumps: 0,
                operators: false,
                frames: &[Frame::Progress, Frame::Commit],
                ..small(Scope::two_devices(Network::Counted { in_flight: 2 }))
            },
        ),
    ]
}

/// What `make model` explores: minutes each, with optimisation, on two cores.
pub fn full() -> Vec<(&'static str, Scope)> {
    let counted = |in_flight| Network::Counted { in_flight };
    let few = |scope: Scope| Scope {
        frames: FEW_FRAMES,
        operators: false,
        resumes: 1,
        attempts: 2,
        ..scope
    };
    let mut all = bounded();
    all.extend([
        ("open-devices", Scope::two_devices(Network::Open)),
        (
            "open-jobs",
            Scope {
                attempts: 3,
                jumps: 0,
                pickups: 1,
                ..few(Scope::two_jobs(Network::Open))
            },
        ),
        (
            "counted-devices",
            Scope {
                jumps: 0,
                pickups: 1,
                max_attempts: 1,
                ..few(Scope::two_devices(counted(2)))
            },
        ),
        (
            "counted-clock",
            Scope {
                devices: 1,
                ..few(Scope::two_devices(counted(2)))
            },
        ),
        (
            "counted-jobs",
            Scope {
                jumps: 0,
                pickups: 1,
                max_attempts: 1,
                frames: &[Frame::Progress, Frame::Commit],
                ..few(Scope::two_jobs(counted(2)))
            },
        ),
        (
            "counted-three",
            Scope {
                devices: 1,
                sessions: 3,
                jumps: 0,
                pickups: 1,
                max_attempts: 1,
                ..few(Scope::two_devices(counted(3)))
            },
        ),
    ]);
    all
}
