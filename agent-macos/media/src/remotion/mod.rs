//! Runs Remotion bundles: films that are programmed as web pages.
//!
//! ```text
//! Remotion::find ──> Remotion { node, packages, browser, wall }   what this machine has
//!                        └── session: one folder, one browser ──> wall ──> node script.mjs
//!                                │                                          └── launcher.sh ──> browser
//!                                └── events: what the script says, judged before a frame is drawn
//! ```
//!
//! A bundle is a stranger's program. A browser runs it that was never made to keep it from the files
//! of this machine (Remotion turns its sandbox off, and reads sounds with an FFmpeg that follows
//! playlists), so everything runs behind a wall of the operating system: without network, with nothing
//! of this machine's files but programs and fonts, in a folder that is new for every try. Where there
//! is no such wall, no bundle is run.

mod disk;
mod events;
mod find;
mod heard;
mod session;
mod strays;
mod wall;

use std::path::PathBuf;

pub(crate) use events::frames_of;
pub(crate) use heard::Listener;
pub(crate) use session::{Drawing, Errand, run};
pub use wall::Wall;

/// What the provider has installed to render with, and named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemotionOverrides {
    /// The folder in which `npm install @remotion/renderer` was run.
    pub folder: PathBuf,
    /// Path of `node`; the one of PATH and the usual places if left out.
    pub node: Option<PathBuf>,
    /// Path of the browser; one that Remotion has fetched, or else one of the usual places, if left
    /// out.
    pub browser: Option<PathBuf>,
}

/// What renders bundles on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remotion {
    /// Absolute path of `node`.
    pub node: PathBuf,
    /// The folder whose `node_modules` has `@remotion/renderer`.
    pub packages: PathBuf,
    /// Version of `@remotion/renderer`.
    pub version: String,
    /// Absolute path of the browser.
    pub browser: PathBuf,
    /// What keeps it from this machine and its network.
    pub wall: Wall,
}
