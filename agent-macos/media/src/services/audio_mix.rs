//! `audio_mix.v1`: several tracks of sound as one.

mod line;
mod loudness;

use fencepost_domain::service::audio_mix::{AudioFormat, Channels, MixLength, Track};
use fencepost_domain::service::{AudioMixParams, ServiceName};

use self::line::Output;
use self::loudness::{Finish, MEASURING, Measured, Search};
use super::require_affordable;
use crate::args::Args;
use crate::judge::{Length, Promise, SoundPromise};
use crate::progress::{Meter, Stage};
use crate::work::{Made, Task, invalid};
use crate::{AudioStream, Container, MediaFailure, Probe, Sources};

/// Probes the inputs and mixes them.
pub(super) async fn make(task: &Task<'_>, params: &AudioMixParams) -> Result<Made, MediaFailure> {
    let names = in_order(task.job.inputs.keys().map(String::as_str));
    let tracks = params.tracks_of(names.iter().copied());
    let mut sources = Sources::new();
    for name in names {
        sources.insert(name.to_owned(), task.probe(name).await?);
    }
    let mix = Mix::new(params, &tracks, &sources)?;
    let length = mix.seconds(|_| true);
    require_affordable(length.or(mix.least_seconds()), task.job.max_output_seconds)?;
    let finish = match params.loudness_lufs {
        Some(lufs) => mix.find_finish(task, lufs).await?,
        None => Finish::Limit,
    };
    let args = mix.arguments(task, &finish.filters(), Output::File(task.output))?;
    let mut meter = Meter::new(Stage::Encoding, length, task.on_progress);
    task.ffmpeg("mixing", args, &mut meter).await?;
    Ok(Made {
        sources,
        encoder: None,
        copied: false,
    })
}

/// What the output has to be; without its sources less is known.
pub(super) fn promise(params: &AudioMixParams, sources: &Sources) -> Promise {
    let (container, codec) = match params.format {
        AudioFormat::Aac => (Container::Mp4, "aac"),
        AudioFormat::Flac => (Container::Flac, "flac"),
        AudioFormat::Wav => (Container::Wav, "pcm_s16le"),
    };
    let tracks = params.tracks_of(in_order(sources.keys().map(String::as_str)).into_iter());
    let mix = Mix::new(params, &tracks, sources).ok();
    let seconds = mix.and_then(|mix| mix.seconds(Container::states_duration));
    Promise::Sound(SoundPromise {
        container,
        codec,
        channels: params.channels.number(),
        length: seconds.map(|seconds| Length { seconds, fps: None }),
    })
}

/// Inputs in the order of their numbers.
fn in_order<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<_> = names.collect();
    names.sort_by_key(|name| ServiceName::AudioMixV1.place_of_input(name));
    names
}

/// Everything decided before FFmpeg starts.
struct Mix<'a> {
    /// What is heard, in the order of the list.
    heard: Vec<Heard<'a>>,
    channels: Channels,
    length: MixLength,
    format: AudioFormat,
}

/// A track and the sound that it is of.
struct Heard<'a> {
    track: &'a Track,
    source: &'a Probe,
    audio: &'a AudioStream,
}

impl Heard<'_> {
    /// When it ends in the mix, in seconds; nothing if its file does not say.
    fn end(&self) -> Option<f64> {
        let end = self.audio.end_seconds.or(self.source.duration_seconds)?;
        Some(self.track.start_seconds + end)
    }
}

impl<'a> Mix<'a> {
    /// The tracks with their sounds. An input without sound is `input_invalid`.
    fn new(
        params: &AudioMixParams,
        tracks: &'a [Track],
        sources: &'a Sources,
    ) -> Result<Self, MediaFailure> {
        let heard = tracks.iter().map(|track| {
            let name = &track.input;
            let missing = || invalid(format!("the job has no input {name}"));
            let source = sources.get(name).ok_or_else(missing)?;
            let audio = source.main_audio();
            let audio = audio.ok_or_else(|| invalid(format!("input {name} has no sound")))?;
            Ok(Heard {
                track,
                source,
                audio,
            })
        });
        Ok(Self {
            heard: heard.collect::<Result<_, MediaFailure>>()?,
            channels: params.channels,
            length: params.length,
            format: params.format,
        })
    }

    /// The tracks that decide how long the mix is.
    fn deciding(&self) -> &[Heard<'a>] {
        match self.length {
            MixLength::Longest => &self.heard,
            MixLength::First => &self.heard[..self.heard.len().min(1)],
        }
    }

    /// How long the mix will be, if all containers that decide it state their lengths and are
    /// believed.
    fn seconds(&self, is_believed: impl Fn(Container) -> bool) -> Option<f64> {
        let ends = self
            .deciding()
            .iter()
            .map(|heard| heard.end().filter(|_| is_believed(heard.source.container)));
        longest(ends.collect::<Option<Vec<_>>>()?)
    }

    /// The least that it can be long, whatever the files say.
    fn least_seconds(&self) -> Option<f64> {
        let starts = self
            .deciding()
            .iter()
            .map(|heard| heard.track.start_seconds);
        longest(starts.collect())
    }

    /// What gives the mix a loudness, found by measuring.
    async fn find_finish(&self, task: &Task<'_>, lufs: f64) -> Result<Finish, MediaFailure> {
        // A decibel below full scale is promised, and a lossy encoder gives more than it was given.
        let peak = match self.format {
            AudioFormat::Aac => -2.5,
            AudioFormat::Flac | AudioFormat::Wav => -1.2,
        };
        let finish = Finish::of(lufs, peak, self.measure(task, "anull").await?);
        let Finish::Press { gain, peak } = finish else {
            return Ok(finish);
        };
        let mut search = Search::new(lufs, peak, gain);
        for _ in 0..Search::ROUNDS {
            let found = self.measure(task, &search.finish().filters()).await?;
            match search.next(found) {
                Some(next) => search = next,
                None => break,
            }
        }
        Ok(search.finish())
    }

    /// How loud the mix is behind these filters.
    async fn measure(&self, task: &Task<'_>, finish: &str) -> Result<Measured, MediaFailure> {
        let finish = format!("{finish},{MEASURING}");
        let args = self.arguments(task, &finish, Output::Nothing)?;
        // The sound is gone through at least once more.
        let twice = self.seconds(|_| true).map(|length| length * 2.0);
        let mut meter = Meter::new(Stage::Encoding, twice, task.on_progress);
        let said = task.ffmpeg("measuring", args, &mut meter).await?;
        Measured::read(&said)
    }

    /// FFmpeg's arguments for mixing, with these filters after the sum.
    fn arguments(
        &self,
        task: &Task<'_>,
        finish: &str,
        output: Output<'_>,
    ) -> Result<Args, MediaFailure> {
        let files = self.heard.iter().map(|heard| task.file(&heard.track.input));
        let files: Vec<_> = files.collect::<Result<_, _>>()?;
        Ok(self.line(&files, finish, (output, task.stop_after_seconds())))
    }
}

fn longest(seconds: Vec<f64>) -> Option<f64> {
    seconds.into_iter().reduce(f64::max)
}

#[cfg(test)]
#[path = "audio_mix_tests.rs"]
mod tests;
