//! `audio_mix.v1`: several tracks of sound as one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::parts::{Part, check_number, check_seconds, check_use, parts_of};
use super::{Definition, InputSlot};
use crate::field::FieldError;

/// The most tracks of one mix, however many inputs they come from.
const MAX_TRACKS: usize = 16;

/// What the buyer asks of `audio_mix.v1`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AudioMixParams {
    /// How the sound is stored.
    #[serde(default)]
    pub format: AudioFormat,
    /// What is heard together: 1 to 16 tracks. Left out: every input as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    pub tracks: Option<Vec<Track>>,
    /// Loudness of the whole, in LUFS (EBU R 128): -40 to -8; -23 is usual in broadcasting, -16 for
    /// podcasts. Peaks stay below -1 dBTP. Left out: as loud as the tracks together are, with peaks
    /// held below full scale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -40, max = -8))]
    pub loudness_lufs: Option<f64>,
    /// How long it is.
    #[serde(default)]
    pub length: MixLength,
    /// Whether it has two channels or one.
    #[serde(default)]
    pub channels: Channels,
}

/// A track of the mix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Track {
    /// Name of the input, such as track_1: sound, or a video whose sound is taken. It may be heard
    /// more than once.
    pub input: String,
    /// How much louder or softer it is made, in dB: -60 to 12.
    #[serde(default)]
    #[schemars(range(min = -60, max = 12))]
    pub gain_db: f64,
    /// When it begins to be heard, in seconds from the beginning of the mix.
    #[serde(default)]
    #[schemars(range(min = 0, max = 86_400))]
    pub start_seconds: f64,
}

/// How sound is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AudioFormat {
    /// AAC at 192 kbit/s in m4a.
    #[default]
    Aac,
    /// FLAC, without loss.
    Flac,
    /// 16-bit PCM in wav.
    Wav,
}

/// How long a mix is whose tracks are not equally long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MixLength {
    /// Until the last track ends.
    #[default]
    Longest,
    /// Until the first of the listed tracks ends, as music under a voice.
    First,
}

/// Channels of a mix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Channels {
    /// Left and right.
    #[default]
    Stereo,
    /// One.
    Mono,
}

impl Channels {
    /// How many they are.
    pub fn number(self) -> u32 {
        match self {
            Self::Mono => 1,
            Self::Stereo => 2,
        }
    }
}

impl Part for Track {
    fn all_of(input: String) -> Self {
        Self {
            input,
            gain_db: 0.0,
            start_seconds: 0.0,
        }
    }

    fn input(&self) -> &str {
        &self.input
    }
}

impl Track {
    fn check(&self, position: usize) -> Result<(), FieldError> {
        let field = |name: &str| format!("tracks[{position}].{name}");
        check_seconds(&field("start_seconds"), Some(self.start_seconds))?;
        if !(-60.0..=12.0).contains(&self.gain_db) {
            let problem = format!("must be between -60 and 12 dB, got {}", self.gain_db);
            return Err(FieldError::new(field("gain_db"), problem));
        }
        Ok(())
    }
}

impl AudioMixParams {
    /// What is heard, of inputs with these names, which are in the order of their numbers.
    pub fn tracks_of<'a>(&self, names: impl Iterator<Item = &'a str>) -> Vec<Track> {
        parts_of(self.tracks.as_deref(), names)
    }
}

impl Definition for AudioMixParams {
    const SUMMARY: &'static str = "Mix up to 16 tracks of sound into one, to a given loudness.";
    const INPUTS: &'static [InputSlot] = &[InputSlot::family(
        "track_",
        16,
        "the sounds to mix, or videos whose sound is taken",
    )];

    fn check(&self) -> Result<(), FieldError> {
        check_number("tracks", self.tracks.as_deref(), MAX_TRACKS)?;
        let mut tracks = self.tracks.iter().flatten().enumerate();
        tracks.try_for_each(|(position, track)| track.check(position))?;
        match self.loudness_lufs {
            Some(lufs) if !(-40.0..=-8.0).contains(&lufs) => Err(FieldError::new(
                "loudness_lufs",
                format!("must be between -40 and -8 LUFS, got {lufs}"),
            )),
            Some(_) | None => Ok(()),
        }
    }

    fn check_inputs(&self, names: &[&str]) -> Result<(), FieldError> {
        check_use("tracks", self.tracks.as_deref(), names)
    }

    fn output_extension(&self) -> &'static str {
        match self.format {
            AudioFormat::Aac => "m4a",
            AudioFormat::Flac => "flac",
            AudioFormat::Wav => "wav",
        }
    }
}
