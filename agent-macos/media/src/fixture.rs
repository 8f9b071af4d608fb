//! Clips made with FFmpeg itself, for tests and for the demo: nothing to download, nothing to
//! license. And where the tests find Remotion, which has to be downloaded.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::child::{self, ChildLimits, ChildSpec, Stdout};
use crate::exit::{not_started, require_success};
use crate::{MediaFailure, StopSignal, Tools};

/// A moving test picture with a tone: h264 and aac.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clip {
    /// Length in seconds.
    pub seconds: u32,
    /// Picture width.
    pub width: u32,
    /// Picture height.
    pub height: u32,
    /// Whether there is a tone.
    pub sound: bool,
}

impl Clip {
    /// The base clip: 640x360 at 30 frames per second, with a tone.
    pub fn base(seconds: u32) -> Self {
        Self {
            seconds,
            width: 640,
            height: 360,
            sound: true,
        }
    }

    /// Writes it to `file`, in the container that the extension names.
    pub async fn write(self, tools: &Tools, file: &Path) -> Result<(), MediaFailure> {
        let Self {
            seconds,
            width,
            height,
            sound,
        } = self;
        let picture = format!("testsrc=size={width}x{height}:rate=30:duration={seconds}");
        let tone = format!("sine=frequency=440:sample_rate=48000:duration={seconds}");
        let mut args = vec!["-f", "lavfi", "-i", &picture];
        if sound {
            args.extend(["-f", "lavfi", "-i", &tone, "-c:a", "aac"]);
        }
        // 4:2:0 needs even sides; an odd picture is stored with full colour.
        let format = if (width | height) % 2 == 0 {
            "yuv420p"
        } else {
            "yuv444p"
        };
        args.extend([
            "-c:v",
            "libx264",
            "-preset",
            "ultrafast",
            "-pix_fmt",
            format,
        ]);
        ffmpeg(tools, &args, file).await
    }
}

/// Runs FFmpeg with `args`, writing `file`. For what has no recipe here.
pub async fn ffmpeg(tools: &Tools, args: &[&str], file: &Path) -> Result<(), MediaFailure> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    let mut all: Vec<OsString> = ["-hide_banner", "-nostdin", "-y", "-loglevel", "error"]
        .map(OsString::from)
        .into();
    all.extend(args.iter().map(OsString::from));
    all.push(file.into());
    let spec = ChildSpec {
        program: &tools.ffmpeg,
        args: all,
        folder,
        limits: ChildLimits {
            run_time: Duration::from_mins(2),
            start: None,
            no_progress: None,
            file_bytes: None,
            memory_bytes: None,
        },
        isolation: &tools.isolation,
        roster: None,
    };
    let finished = child::run(spec, Stdout::Keep(0), &StopSignal::new())
        .await
        .map_err(|error| not_started("ffmpeg", &error))?;
    require_success("making a clip", &finished, folder)
}

/// Where a provider would have installed Remotion's renderer (what `--remotion` takes): an absolute
/// path, in whose `node_modules` it is.
///
/// # Panics
///
/// Where `.ci/prepare-remotion` has not been run: a test of Remotion cannot do without.
pub fn remotion_folder() -> PathBuf {
    prepared("renderer")
}

/// A bundle as a buyer would send it, with the compositions of `tests/remotion/README.md`: the
/// absolute path of its folder.
///
/// # Panics
///
/// Where `.ci/prepare-remotion` has not been run: a test of Remotion cannot do without.
pub fn remotion_bundle() -> PathBuf {
    prepared("bundle")
}

/// What the script has finished in the workspace's `target`, which is its place whatever
/// `CARGO_TARGET_DIR` says. It writes the note last, after the folder.
fn prepared(what: &str) -> PathBuf {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/remotion");
    let note = place.join(format!("{what}.ready"));
    assert!(
        note.exists(),
        "there is no {}: run .ci/prepare-remotion, which needs the network",
        note.display()
    );
    let place = place.join(what).canonicalize();
    place.unwrap_or_else(|error| panic!("target/remotion/{what}: {error}"))
}
