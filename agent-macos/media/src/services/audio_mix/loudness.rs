//! How loud the mix becomes: measured first, then changed by one gain for all of it. Where that would
//! push its peaks too high they are held, which makes it softer than it was to be; so that is
//! measured again, and the gain raised, until it is as loud as asked for.

use serde::{Deserialize, Deserializer};

use crate::{FailureCode, MediaFailure};

/// The filter that measures.
pub(super) const MEASURING: &str = "loudnorm=print_format=json";
/// What is softer than this is silence by EBU R 128, and cannot be made louder.
const SILENCE: f64 = -70.0;
/// How near to the loudness asked for is near enough, in LU.
const NEAR: f64 = 0.3;
/// How much of a gain becomes loudness while peaks are held: at first guessed, then as it was seen
/// to be, within bounds.
const USUAL_YIELD: f64 = 0.7;
const LEAST_YIELD: f64 = 0.2;
/// What is added at most to the gain, in dB: of a sound that is all peaks nothing more is left then.
const MOST_ADDED: f64 = 30.0;

/// What is done to the sum of all tracks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Finish {
    /// Peaks are held below full scale.
    Limit,
    /// A gain in dB, which leaves room for the peaks.
    Gain(f64),
    /// A gain, then peaks are held.
    Press {
        /// In dB.
        gain: f64,
        /// Where peaks end, in dBTP.
        peak: f64,
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

impl Finish {
    /// What makes a sound that was measured as loud as this, with no peak above `peak` dBTP.
    pub(super) fn of(lufs: f64, peak: f64, measured: Measured) -> Self {
        if measured.lufs < SILENCE || !measured.lufs.is_finite() {
            return Self::Limit;
        }
        let gain = lufs - measured.lufs;
        if measured.peak + gain <= peak {
            Self::Gain(gain)
        } else {
            Self::Press { gain, peak }
        }
    }

    pub(super) fn filters(self) -> String {
        // Only with compensated latency nothing is late and nothing is lost at the end.
        let hold = "level=0:latency=1";
        match self {
            Self::Limit => format!("alimiter=limit=0.98:{hold}"),
            Self::Gain(gain) => format!("volume={gain:.2}dB"),
            Self::Press { gain, peak } => {
                // Peaks between the samples are seen by having more of them.
                let limit = 10_f64.powf(peak / 20.0);
                format!(
                    "volume={gain:.2}dB,aresample=192000,alimiter=limit={limit:.3}:{hold},\
                     aresample=48000"
                )
            }
        }
    }
}

/// The search for the gain that gives a loudness while peaks are held.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Search {
    lufs: f64,
    peak: f64,
    first: f64,
    gain: f64,
    /// The gain and the loudness of the round before.
    before: Option<(f64, f64)>,
}

impl Search {
    /// More rounds find nothing better.
    pub(super) const ROUNDS: u32 = 4;

    /// Begins with a gain, for a loudness with peaks no higher than `peak` dBTP.
    pub(super) fn new(lufs: f64, peak: f64, gain: f64) -> Self {
        let (first, before) = (gain, None);
        Self {
            lufs,
            peak,
            first,
            gain,
            before,
        }
    }

    /// What is to be measured, and in the end done.
    pub(super) fn finish(self) -> Finish {
        let Self { gain, peak, .. } = self;
        Finish::Press { gain, peak }
    }

    /// The next round, after the one before gave this loudness; none if that was near enough.
    pub(super) fn next(self, found: Measured) -> Option<Self> {
        let missing = self.lufs - found.lufs;
        if !missing.is_finite() || missing.abs() <= NEAR {
            return None;
        }
        let seen = self
            .before
            .map(|(gain, lufs)| (found.lufs - lufs) / (self.gain - gain));
        let yields = seen.filter(|seen| seen.is_finite()).unwrap_or(USUAL_YIELD);
        let gain = self.gain + missing / yields.clamp(LEAST_YIELD, 1.0);
        Some(Self {
            gain: gain.clamp(self.first, self.first + MOST_ADDED),
            before: Some((self.gain, found.lufs)),
            ..self
        })
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

    fn press(gain: f64) -> Finish {
        Finish::Press { gain, peak: -1.5 }
    }

    #[test]
    fn one_gain_is_enough_while_the_peaks_have_room() {
        assert_eq!(
            Finish::of(-16.0, -1.5, measured(-26.0, -12.0)),
            Finish::Gain(10.0)
        );
        let pressed = Finish::of(-16.0, -1.5, measured(-26.0, -11.0));
        assert_eq!(pressed, press(10.0));
        assert!(pressed.filters().contains("alimiter=limit=0.841:"));
    }

    #[test]
    fn a_gain_is_raised_by_what_the_last_one_was_seen_to_yield() {
        let search = Search::new(-14.0, -1.5, 10.0);
        assert_eq!(search.next(measured(-14.2, -1.5)), None);
        let second = search.next(measured(-17.5, -1.5)).unwrap();
        assert_eq!(second.finish(), press(15.0));
        // Five dB gave one LU, two and a half are missing.
        let third = second.next(measured(-16.5, -1.5)).unwrap();
        assert_eq!(third.finish(), press(27.5));
        let least = search.next(measured(-9.0, -1.5)).unwrap();
        assert_eq!(least.finish(), press(10.0));
        assert_eq!(search.next(measured(f64::NEG_INFINITY, -1.5)), None);
    }

    #[test]
    fn silence_stays_silence() {
        assert_eq!(
            Finish::of(-16.0, -1.5, measured(f64::NEG_INFINITY, f64::NEG_INFINITY)),
            Finish::Limit
        );
        assert_eq!(
            Finish::of(-16.0, -1.5, measured(-70.5, -60.0)),
            Finish::Limit
        );
    }
}
