//! A source that keeps this very machine busy for about a known time, whatever was given to us.
//!
//! To freeze a Mac in the middle of its work there must be a middle. So a short piece of the input
//! is made into plain 720p, encoded once to see how fast this machine is, and repeated as often as
//! it takes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fencepost_domain::service::{ServiceName, ServiceParams};
use fencepost_media::fixture::ffmpeg;
use fencepost_media::{Job, Workbench, run};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::error::DemoError;

/// Length of the piece that is repeated.
const PIECE_SECONDS: u32 = 4;
/// How long one Mac of this machine's speed is to be busy.
const BUSY: Duration = Duration::from_secs(10);
/// However fast the machine is: bounds what is written to the disk.
const MOST_REPEATS: u32 = 300;

/// What the second job asks for: in software, since a hardware encoder would be done at once.
pub(super) fn params() -> Value {
    json!({ "codec": "h264", "height": 720, "crf": 20, "hardware": "never" })
}

/// A source and how long it is.
#[derive(Debug)]
pub(super) struct Heavy {
    piece: PathBuf,
    repeats: u32,
}

impl Heavy {
    /// Makes the piece out of `input` and finds out how often it must be repeated.
    pub(super) async fn prepare(bench: &Workbench, input: &Path) -> Result<Self, DemoError> {
        let piece = bench.folder.join("piece.mp4");
        let (length, source) = (PIECE_SECONDS.to_string(), input.to_string_lossy());
        let shape = "fps=30,scale=1280:720:force_original_aspect_ratio=decrease,\
                     pad=1280:720:-1:-1,setsar=1,format=yuv420p";
        let mut args = vec![
            "-stream_loop",
            "-1",
            "-protocol_whitelist",
            "file",
            "-i",
            &source,
        ];
        args.extend(["-map", "0:V:0", "-an", "-t", &length, "-vf", shape]);
        args.extend(["-c:v", "libx264", "-preset", "ultrafast", "-crf", "18"]);
        ffmpeg(&bench.tools, &args, &piece).await?;
        let took = encode_once(bench, &piece).await?;
        Ok(Self {
            piece,
            repeats: repeats(took),
        })
    }

    /// Twice as much work.
    pub(super) fn double(&mut self) {
        self.repeats = (self.repeats * 2).min(MOST_REPEATS);
    }

    /// Length of the source in seconds.
    pub(super) fn seconds(&self) -> u32 {
        self.repeats * PIECE_SECONDS
    }

    /// Writes the source: the piece again and again, not encoded again.
    pub(super) async fn write(&self, bench: &Workbench) -> Result<PathBuf, DemoError> {
        let file = bench.folder.join("heavy.mp4");
        let (again, piece) = ((self.repeats - 1).to_string(), self.piece.to_string_lossy());
        let args = ["-stream_loop", &again, "-i", &piece, "-c", "copy"];
        ffmpeg(&bench.tools, &args, &file).await?;
        Ok(file)
    }
}

async fn encode_once(bench: &Workbench, piece: &Path) -> Result<Duration, DemoError> {
    let params = ServiceParams::parse(ServiceName::TranscodeV1, &params())
        .map_err(|error| DemoError::stuck(format!("the demo's own parameters: {error}")))?;
    let job = Job {
        params,
        inputs: BTreeMap::from([("source".to_owned(), piece.to_owned())]),
        max_output_seconds: PIECE_SECONDS + 1,
        proven: BTreeSet::new(),
    };
    let began = Instant::now();
    let output = run(bench, &job, &|_| {}).await?;
    let took = began.elapsed();
    tokio::fs::remove_file(output.file).await?;
    Ok(took)
}

/// How often a piece that took so long fills the time.
fn repeats(took: Duration) -> u32 {
    let times = BUSY.as_millis() / took.as_millis().max(1);
    u32::try_from(times)
        .unwrap_or(MOST_REPEATS)
        .clamp(2, MOST_REPEATS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_machines_repeat_less_and_fast_ones_within_reason() {
        for (ms, times) in [(0, MOST_REPEATS), (500, 20), (2_500, 4), (60_000, 2)] {
            assert_eq!(repeats(Duration::from_millis(ms)), times);
        }
    }
}
