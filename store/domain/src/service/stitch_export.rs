//! `stitch_export.v1`: clips, one after the other, as one film.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::parts::{Part, check_number, check_seconds, check_use, parts_of};
use super::{Capability, Definition, InputSlot, TranscodeParams};
use crate::field::FieldError;

/// The most clips of one film, however many inputs they come from.
const MAX_CLIPS: usize = 64;

/// What the buyer asks of `stitch_export.v1`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StitchExportParams {
    /// How the film is written, as in transcode.v1. Without width and height it has the size of the
    /// first clip, without fps the rate of the first clip, or 10 if that is slower. A clip is as
    /// long as its picture, in whole frames of the film; where it has no sound, it is silent.
    pub encode: TranscodeParams,
    /// What is shown, one after the other: 1 to 64 clips. Left out: every input as it is, in the
    /// order of their numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub clips: Option<Vec<Clip>>,
    /// How a clip of another shape is made to fit.
    #[serde(default)]
    pub fit: Fit,
}

/// A part of an input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Clip {
    /// Name of the input, such as clip_1. It may be shown more than once.
    pub input: String,
    /// Where in the input it begins, in seconds. Left out: at the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 86_400))]
    pub start_seconds: Option<f64>,
    /// Where in the input it ends, in seconds, at least a tenth after its start. Left out: at the
    /// end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.1, max = 86_400))]
    pub end_seconds: Option<f64>,
}

/// How a picture is made to fit a frame of another shape. It is never stretched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fit {
    /// All of the picture, with black bars beside it.
    #[default]
    Pad,
    /// All of the frame, with what sticks out cut off.
    Crop,
}

impl Part for Clip {
    fn all_of(input: String) -> Self {
        Self {
            input,
            start_seconds: None,
            end_seconds: None,
        }
    }

    fn input(&self) -> &str {
        &self.input
    }
}

impl Clip {
    fn check(&self, position: usize) -> Result<(), FieldError> {
        let field = |name: &str| format!("clips[{position}].{name}");
        check_seconds(&field("start_seconds"), self.start_seconds)?;
        check_seconds(&field("end_seconds"), self.end_seconds)?;
        let start = self.start_seconds.unwrap_or(0.0);
        match self.end_seconds {
            // What was written with one digit is not told apart exactly in binary.
            Some(end) if end - start < 0.1 - 1e-9 => Err(FieldError::new(
                field("end_seconds"),
                format!("must be at least a tenth of a second after the start ({start})"),
            )),
            Some(_) | None => Ok(()),
        }
    }
}

impl StitchExportParams {
    /// What is shown, of inputs with these names, which are in the order of their numbers.
    pub fn clips_of<'a>(&self, names: impl Iterator<Item = &'a str>) -> Vec<Clip> {
        parts_of(self.clips.as_deref(), names)
    }
}

impl Definition for StitchExportParams {
    const SUMMARY: &'static str = "Show up to 64 clips, or parts of them, one after the other.";
    const INPUTS: &'static [InputSlot] =
        &[InputSlot::family("clip_", 64, "the videos to put together")];

    fn check(&self) -> Result<(), FieldError> {
        self.encode
            .check()
            .map_err(|error| error.within("encode"))?;
        check_number("clips", self.clips.as_deref(), MAX_CLIPS)?;
        let mut clips = self.clips.iter().flatten().enumerate();
        clips.try_for_each(|(position, clip)| clip.check(position))
    }

    fn check_inputs(&self, names: &[&str]) -> Result<(), FieldError> {
        check_use("clips", self.clips.as_deref(), names)
    }

    fn requirements(&self) -> BTreeSet<Capability> {
        self.encode.requirements()
    }

    fn output_extension(&self) -> &'static str {
        self.encode.output_extension()
    }
}
