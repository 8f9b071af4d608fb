//! Reads what FFmpeg writes with `-progress` and turns it into a percentage that only grows.

/// What the work is busy with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Writing the output.
    Encoding,
    /// Decoding what was written, to see that it can be.
    Checking,
}

/// How far the work is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// What it is busy with.
    pub stage: Stage,
    /// 0 to 100 over all stages, never falling; nothing if the source's length is unknown.
    pub percent: Option<u8>,
    /// Seconds of media that this stage has handled.
    pub media_seconds: f64,
}

/// Receives progress, about twice a second. Must return at once.
pub type OnProgress<'a> = &'a (dyn Fn(Progress) + Send + Sync);

/// Encoding fills the percentage up to here, checking the rest.
const ENCODED: u8 = 90;

/// Follows one FFmpeg.
pub(crate) struct Meter<'a> {
    stage: Stage,
    expected_seconds: Option<f64>,
    on_progress: OnProgress<'a>,
    percent: u8,
    /// Frames handled so far.
    pub(crate) frames: u64,
    /// Seconds of media handled so far.
    pub(crate) media_seconds: f64,
    bytes: u64,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(stage: Stage, expected: Option<f64>, on_progress: OnProgress<'a>) -> Self {
        let expected_seconds = expected.filter(|&seconds| seconds > 0.0);
        let percent = if stage == Stage::Checking { ENCODED } else { 0 };
        Self {
            stage,
            expected_seconds,
            on_progress,
            percent,
            frames: 0,
            media_seconds: 0.0,
            bytes: 0,
        }
    }

    /// Takes one `key=value` line; says whether something moved since the last one.
    pub(crate) fn line(&mut self, line: &str) -> bool {
        let Some((key, value)) = line.split_once('=') else {
            return false;
        };
        let number = || value.trim().parse::<u64>().ok();
        match key {
            "frame" => grow(&mut self.frames, number()),
            "total_size" => grow(&mut self.bytes, number()),
            "out_time_us" => {
                let seconds = number().map_or(0.0, micros_to_seconds);
                let moved = seconds > self.media_seconds;
                self.media_seconds = self.media_seconds.max(seconds);
                moved
            }
            "progress" => {
                self.report();
                false
            }
            _ => false,
        }
    }

    fn report(&mut self) {
        let percent = self.expected_seconds.map(|expected| {
            let (from, to) = if self.stage == Stage::Encoding {
                (0, ENCODED)
            } else {
                (ENCODED, 100)
            };
            let part = (self.media_seconds / expected).clamp(0.0, 1.0);
            self.percent = self.percent.max(from + whole(part * f64::from(to - from)));
            self.percent
        });
        (self.on_progress)(Progress {
            stage: self.stage,
            percent,
            media_seconds: self.media_seconds,
        });
    }
}

fn grow(seen: &mut u64, now: Option<u64>) -> bool {
    let moved = now.is_some_and(|now| now > *seen);
    if let Some(now) = now {
        *seen = now.max(*seen);
    }
    moved
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 285 years of media")]
fn micros_to_seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "callers give 0 to 100"
)]
fn whole(percent: f64) -> u8 {
    percent as u8
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn percents(expected: Option<f64>, lines: &[&str]) -> Vec<Option<u8>> {
        let seen = Mutex::new(Vec::new());
        let note = |progress: Progress| seen.lock().unwrap().push(progress.percent);
        let mut meter = Meter::new(Stage::Encoding, expected, &note);
        for line in lines {
            meter.line(line);
        }
        seen.into_inner().unwrap()
    }

    #[test]
    fn percent_never_falls_and_never_passes_its_share() {
        let lines = [
            "out_time_us=5000000",
            "progress=continue",
            "out_time_us=2000000",
            "progress=continue",
            "out_time_us=99000000",
            "progress=end",
        ];
        assert_eq!(percents(Some(10.0), &lines), [Some(45), Some(45), Some(90)]);
    }

    #[test]
    fn an_unknown_length_has_no_percent_and_not_available_is_no_number() {
        assert_eq!(
            percents(None, &["out_time_us=N/A", "progress=continue"]),
            [None]
        );
    }

    #[test]
    fn repeating_the_same_numbers_is_no_movement() {
        let mut meter = Meter::new(Stage::Encoding, None, &|_| ());
        assert!(meter.line("frame=1"));
        assert!(!meter.line("frame=1"));
        assert!(!meter.line("speed=1x"));
    }
}
