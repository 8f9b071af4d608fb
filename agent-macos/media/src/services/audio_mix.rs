//! `audio_mix.v1`: several tracks of sound as one.

mod loudness;

use std::path::Path;

use fencepost_domain::service::audio_mix::{AudioFormat, Channels, MixLength, Track};
use fencepost_domain::service::{AudioMixParams, ServiceName};

use self::loudness::{Finish, MEASURING, Measured, Search};
use super::require_affordable;
use crate::args::Args;
use crate::judge::{Length, Promise, SoundPromise};
use crate::probe::file_url;
use crate::progress::{Meter, Stage};
use crate::work::{Made, Task, invalid};
use crate::{AudioStream, Container, MediaFailure, Probe, Sources};

/// Samples per second of every mix.
const HERTZ: f64 = 48_000.0;
/// FFmpeg knows what more channels than this are for only in a few layouts.
const MOST_MIXED_DOWN: u32 = 8;

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

/// Where a run of FFmpeg leaves the mix.
#[derive(Clone, Copy)]
enum Output<'a> {
    /// Nowhere: it is only measured.
    Nothing,
    File(&'a Path),
}

impl Heard<'_> {
    /// When it ends in the mix, in seconds; nothing if its file does not say.
    fn end(&self) -> Option<f64> {
        let length = self.audio.duration_seconds;
        let length = length.or(self.source.duration_seconds)?;
        // Matroska counts from the beginning of the file.
        let late = match self.source.container {
            Container::Matroska | Container::Webm => 0.0,
            _ => self.audio.late_seconds,
        };
        Some(self.track.start_seconds + late + length)
    }

    /// The filters that bring it into the form of the mix, as loud and as late as asked for.
    fn filters(&self, channels: Channels) -> String {
        // Holes in the sound are silence. So is what is before it in a film; FFmpeg leaves that
        // out of some containers when nothing but the sound is read.
        let form = "asetpts=PTS-STARTPTS,aresample=48000:async=1,aformat=sample_fmts=fltp";
        let delay = (self.track.start_seconds + self.audio.late_seconds) * HERTZ;
        let gain = self.track.gain_db;
        let layout = spread(self.audio.channels, channels);
        format!("{form}{layout},volume={gain}dB,adelay=delays={delay:.0}S:all=1")
    }
}

/// How sound of so many channels becomes that of the mix: one channel is as loud in both ears as it
/// was, two are as loud in one as they were on average. What follows on `sample_fmts=fltp`.
fn spread(from: u32, to: Channels) -> &'static str {
    let is_mixed_down = (3..=MOST_MIXED_DOWN).contains(&from);
    match (from, to) {
        (1, Channels::Mono) => ",pan=mono|c0=c0",
        (1, Channels::Stereo) => ",pan=stereo|c0=c0|c1=c0",
        (_, Channels::Mono) if is_mixed_down => ":channel_layouts=stereo,pan=mono|c0=0.5*c0+0.5*c1",
        (_, Channels::Stereo) if is_mixed_down => ":channel_layouts=stereo",
        (_, Channels::Mono) => ",pan=mono|c0=0.5*c0+0.5*c1",
        (_, Channels::Stereo) => ",pan=stereo|c0=c0|c1=c1",
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

    /// The same for these files, one for each track: one that is heard twice is opened twice.
    fn line(&self, files: &[&Path], finish: &str, (output, stop_after): (Output<'_>, u32)) -> Args {
        let mut args = Args::followed();
        args.strict_about(self.heard.iter().map(|heard| heard.source));
        for (heard, file) in self.heard.iter().zip(files) {
            args.input(heard.source.container, file);
        }
        args.word("-filter_complex").word(self.graph(finish));
        args.words("-map [mix]").nameless();
        args.word("-t").word(stop_after.to_string());
        match output {
            // What the measuring filter found is said at this level.
            Output::Nothing => args.words("-loglevel info -f null -"),
            Output::File(file) => {
                args.words(match self.format {
                    AudioFormat::Aac => "-c:a aac -b:a 192k -movflags +faststart -f ipod",
                    AudioFormat::Flac => {
                        "-c:a flac -sample_fmt s32 -bits_per_raw_sample 24 -f flac"
                    }
                    AudioFormat::Wav => "-c:a pcm_s16le -rf64 auto -f wav",
                });
                args.word(file_url(file))
            }
        };
        args
    }

    /// The sum of all tracks, not their average.
    fn graph(&self, finish: &str) -> String {
        let tracks = self.heard.iter().enumerate().map(|(number, heard)| {
            let (stream, filters) = (heard.audio.index, heard.filters(self.channels));
            format!("[{number}:{stream}]{filters}[t{number}];")
        });
        let labels = (0..self.heard.len()).map(|number| format!("[t{number}]"));
        let inputs = tracks.chain(labels).collect::<Vec<_>>().concat();
        let number = self.heard.len();
        let length = match self.length {
            MixLength::Longest => "longest",
            MixLength::First => "first",
        };
        let channels = match self.channels {
            Channels::Stereo => "stereo",
            Channels::Mono => "mono",
        };
        format!(
            "{inputs}amix=inputs={number}:duration={length}:dropout_transition=0:\
             normalize=0,{finish},aformat=sample_rates=48000:channel_layouts={channels}[mix]"
        )
    }
}

fn longest(seconds: Vec<f64>) -> Option<f64> {
    seconds.into_iter().reduce(f64::max)
}

#[cfg(test)]
#[path = "audio_mix_tests.rs"]
mod tests;
