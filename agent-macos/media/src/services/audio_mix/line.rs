//! The command line of a mix: what becomes of each track, and of their sum.

use std::path::Path;

use fencepost_domain::service::audio_mix::{AudioFormat, Channels, MixLength};

use super::{Heard, Mix};
use crate::args::Args;
use crate::probe::file_url;

/// Samples per second of every mix.
const HERTZ: f64 = 48_000.0;
/// FFmpeg knows what more channels than this are for only in a few layouts.
const MOST_MIXED_DOWN: u32 = 8;

/// Where a run of FFmpeg leaves the mix.
#[derive(Clone, Copy)]
pub(super) enum Output<'a> {
    /// Nowhere: it is only measured.
    Nothing,
    File(&'a Path),
}

impl Heard<'_> {
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

impl Mix<'_> {
    /// The same for these files, one for each track: one that is heard twice is opened twice.
    pub(super) fn line(
        &self,
        files: &[&Path],
        finish: &str,
        (output, stop_after): (Output<'_>, u32),
    ) -> Args {
        let mut args = Args::followed();
        args.strict_about(self.heard.iter().map(|heard| heard.source));
        for (heard, file) in self.heard.iter().zip(files) {
            // A sound that changes its form begins the whole mix anew otherwise, with its silence.
            args.words("-reinit_filter 0");
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
