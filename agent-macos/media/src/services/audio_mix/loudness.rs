//! How loud the mix becomes: measured first, then changed by one gain for all of it. Only where that
//! would push its peaks too high it is compressed.

use serde::{Deserialize, Deserializer};

use crate::{FailureCode, MediaFailure};

/// Where peaks end, in dBTP. Half a decibel below what is promised, as encoders overshoot.
const PEAK: f64 = -1.5;
/// What is softer than this is silence by EBU R 128, and cannot be made louder.
const SILENCE: f64 = -70.0;

/// What is done to the sum of all tracks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Finish {
    /// Peaks are held below full scale.
    Limit,
    /// A gain in dB, which leaves room for the peaks.
    Gain(f64),
    /// A gain in dB, then loudness and peaks are held at these.
    Compress {
        /// In dB.
        gain: f64,
        /// The loudness asked for, in LUFS.
        lufs: f64,
    },
}

/// What FFmpeg's `loudnorm` says about a sound.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub(super) struct Measured {
    /// Loudness of the whole in LUFS, minus infinity for silence.
    #[serde(rename = "input_i", deserialize_with = "number")]
    lufs: f64,
    /// Highest peak in dBTP.
    #[serde(rename = "input_tp", deserialize_with = "number")]
    peak: f64,
}

impl Measured {
    /// Reads it out of what FFmpeg said.
    pub(super) fn read(said: &str) -> Result<Self, MediaFailure> {
        let json = said.rfind('{').and_then(|from| {
            let to = said[from..].find('}')?;
            said.get(from..=from + to)
        });
        let measured = json.and_then(|json| serde_json::from_str(json).ok());
        measured.ok_or_else(|| {
            let what = "FFmpeg measured the loudness and did not say it";
            MediaFailure::new(FailureCode::RunnerFailed, what)
        })
    }
}

/// The filter that measures.
pub(super) fn measuring() -> String {
    "loudnorm=print_format=json".to_owned()
}

impl Finish {
    /// What makes a sound that was measured this loud.
    pub(super) fn of(lufs: f64, measured: Measured) -> Self {
        if measured.lufs < SILENCE || !measured.lufs.is_finite() {
            return Self::Limit;
        }
        let gain = lufs - measured.lufs;
        if measured.peak + gain <= PEAK {
            Self::Gain(gain)
        } else {
            Self::Compress { gain, lufs }
        }
    }

    pub(super) fn filters(self) -> String {
        match self {
            // Only with compensated latency nothing is late and nothing is lost at the end.
            Self::Limit => "alimiter=limit=0.98:level=0:latency=1".to_owned(),
            Self::Gain(gain) => format!("volume={gain:.2}dB"),
            Self::Compress { gain, lufs } => {
                format!("volume={gain:.2}dB,loudnorm=I={lufs}:TP={PEAK}:LRA=20:linear=0")
            }
        }
    }
}

/// `loudnorm` writes numbers as texts, `-inf` among them.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.trim().parse().map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(lufs: f64, peak: f64) -> Measured {
        Measured { lufs, peak }
    }

    #[test]
    fn what_was_measured_is_found_behind_everything_else() {
        let said = "Input #0, wav {\n[Parsed_loudnorm_1 @ 0x5]\n{\n\t\"input_i\" : \"-26.36\",\n\
                    \t\"input_tp\" : \"-19.96\",\n\t\"input_lra\" : \"0.00\",\n\
                    \t\"normalization_type\" : \"dynamic\"\n}\nsize=N/A";
        assert_eq!(Measured::read(said), Ok(measured(-26.36, -19.96)));
        let silent = r#"{"input_i" : "-inf", "input_tp" : "-inf"}"#;
        let silent = Measured::read(silent).unwrap();
        assert!(silent.lufs.is_infinite());
        let failure = Measured::read("nothing at all").unwrap_err();
        assert_eq!(failure.code(), Some(FailureCode::RunnerFailed));
    }

    #[test]
    fn one_gain_is_enough_while_the_peaks_have_room() {
        assert_eq!(
            Finish::of(-16.0, measured(-26.0, -12.0)),
            Finish::Gain(10.0)
        );
        let compressed = Finish::of(-16.0, measured(-26.0, -11.0));
        assert_eq!(
            compressed,
            Finish::Compress {
                gain: 10.0,
                lufs: -16.0
            }
        );
        assert!(compressed.filters().contains("loudnorm=I=-16:TP=-1.5"));
    }

    #[test]
    fn silence_stays_silence() {
        assert_eq!(
            Finish::of(-16.0, measured(f64::NEG_INFINITY, f64::NEG_INFINITY)),
            Finish::Limit
        );
        assert_eq!(Finish::of(-16.0, measured(-70.5, -60.0)), Finish::Limit);
    }
}
