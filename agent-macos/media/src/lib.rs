//! Everything of Fencepost that touches FFmpeg, in one place: the agent runs the services with it
//! and the control plane's verifier checks an output with it, so that both judge alike.
//!
//! ```text
//! Tools::find ──> Workbench { tools, folder, limits, stop }
//!                     ├── probe         what is this file?            (sniff, then ffprobe)
//!                     ├── run           probe, make, check            (the agent)
//!                     ├── check_output  is it what was promised?      (agent and verifier)
//!                     └── capabilities  what can this machine encode? (by doing it)
//! child::run is the only place that starts a process.
//! ```
//!
//! Media files are hostile until proven otherwise: the container is recognised from its first
//! bytes and its demuxer forced, only the `file` protocol is open, the process has an empty
//! environment, no stdin, no network where the platform allows that, and hard limits.

mod args;
mod capabilities;
mod captions;
mod check;
pub mod child;
mod clean;
pub mod disk;
mod encoder;
mod exit;
mod failure;
#[cfg(feature = "fixtures")]
pub mod fixture;
mod group;
mod isolation;
mod judge;
mod limits;
mod picture;
mod probe;
mod processes;
mod progress;
mod remotion;
mod report;
mod roster;
#[cfg(test)]
mod samples;
mod services;
mod size;
mod sniff;
mod tail;
mod tools;
mod verdict;
mod work;
mod workbench;

pub use capabilities::capabilities;
pub use check::check_output;
pub use encoder::Encoder;
pub use failure::MediaFailure;
pub use fencepost_domain::failure::FailureCode;
pub use isolation::Isolation;
pub use judge::{
    Expectation, Length, PicturePromise, Pictures, Promise, SoundPromise, VideoPromise,
};
pub use limits::Limits;
pub use probe::{AudioStream, Probe, Sources, VideoStream, probe};
pub use progress::{OnProgress, Progress, Stage};
pub use remotion::{Remotion, RemotionOverrides, Wall};
pub use roster::Roster;
pub use size::Size;
pub use sniff::Container;
/// How a running piece of work is told to stop: cancel it and the child is gone within two seconds.
pub use tokio_util::sync::CancellationToken as StopSignal;
pub use tools::{Overrides, Tools};
pub use verdict::{CheckFailure, Checked, Rejection};
pub use work::{Job, Output, run};
pub use workbench::Workbench;
