//! How long a stream is. Most files say so; of those that do not, every packet is read.

use crate::args::Args;
use crate::progress::{Meter, Stage};
use crate::work::{Task, invalid};
use crate::{MediaFailure, Probe};

/// What of a source is measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream<'a> {
    /// Name of the input.
    pub(super) input: &'a str,
    /// What it says about itself.
    pub(super) source: &'a Probe,
    /// Number of the stream.
    pub(super) index: u32,
    /// When the stream says that it ends, in seconds from the beginning of the file.
    pub(super) stated: Option<f64>,
}

impl<'a> Stream<'a> {
    /// The picture of an input, which must have one.
    pub(super) fn picture(input: &'a str, source: &'a Probe) -> Result<Self, MediaFailure> {
        let no_video = || invalid("there is no video in it").about(input);
        let video = source.main_video().ok_or_else(no_video)?;
        Ok(Self {
            input,
            source,
            index: video.index,
            stated: video.end_seconds,
        })
    }

    /// The sound of an input, which must have one.
    pub(super) fn sound(input: &'a str, source: &'a Probe) -> Result<Self, MediaFailure> {
        let no_sound = || invalid("there is no sound in it").about(input);
        let audio = source.main_audio().ok_or_else(no_sound)?;
        Ok(Self {
            input,
            source,
            index: audio.index,
            stated: audio.end_seconds,
        })
    }

    /// The length that it says, if that can be believed.
    pub(super) fn believed(self) -> Option<f64> {
        let stated = self.stated.or(self.source.duration_seconds);
        stated.filter(|&seconds| seconds > 0.0 && self.source.container.states_duration())
    }

    /// Its length in seconds.
    pub(super) async fn seconds(self, task: &Task<'_>) -> Result<f64, MediaFailure> {
        match self.believed() {
            Some(seconds) => Ok(seconds),
            None => self.measured(task).await,
        }
    }

    /// Its length in seconds, by the times of its packets.
    pub(super) async fn measured(self, task: &Task<'_>) -> Result<f64, MediaFailure> {
        let mut args = Args::followed();
        args.strict_about([self.source]);
        self.measured_by(task, args).await
    }

    /// When it really ends, in seconds, also if its file was cut.
    pub(super) async fn found(self, task: &Task<'_>) -> Result<f64, MediaFailure> {
        self.measured_by(task, Args::followed()).await
    }

    async fn measured_by(self, task: &Task<'_>, mut args: Args) -> Result<f64, MediaFailure> {
        args.input(self.source.container, task.file(self.input)?);
        args.map(0, self.index).words("-c copy -f null -");
        let mut meter = Meter::new(Stage::Encoding, None, task.on_progress);
        task.ffmpeg("measuring", args, &mut meter)
            .await
            .map_err(|failure| failure.about(self.input))?;
        if meter.media_seconds > 0.0 {
            return Ok(meter.media_seconds);
        }
        Err(invalid("it has no length").about(self.input))
    }
}
