//! `caption_burn.v1`: captions, drawn into the picture.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Capability, Definition, InputSlot, TranscodeParams};
use crate::field::FieldError;

/// What the buyer asks of `caption_burn.v1`.
///
/// Captions are a text file in UTF-8: SubRip (srt), WebVTT (vtt) or Advanced SubStation Alpha
/// (ass), told apart by their beginnings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CaptionBurnParams {
    /// How the film is written, as in transcode.v1.
    pub encode: TranscodeParams,
    /// Where srt and vtt captions stand; ass captions say so themselves.
    #[serde(default)]
    pub position: Position,
    /// Height of a line of srt and vtt captions, in percent of the picture's: 2 to 20. Left out: 6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 20))]
    pub size_percent: Option<f64>,
}

/// Where captions stand in the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Position {
    /// Below.
    #[default]
    Bottom,
    /// In the middle.
    Middle,
    /// Above.
    Top,
}

impl CaptionBurnParams {
    /// Height of a line in percent of the picture's, if the captions do not say so themselves.
    pub fn size_percent(&self) -> f64 {
        self.size_percent.unwrap_or(6.0)
    }
}

impl Definition for CaptionBurnParams {
    const SUMMARY: &'static str = "Draw captions (srt, vtt or ass) into the picture of a video.";
    const INPUTS: &'static [InputSlot] = &[
        InputSlot::one("source", "a video"),
        InputSlot::one("captions", "its captions as srt, vtt or ass, in UTF-8"),
    ];

    fn check(&self) -> Result<(), FieldError> {
        self.encode
            .check()
            .map_err(|error| error.within("encode"))?;
        match self.size_percent {
            Some(percent) if !(2.0..=20.0).contains(&percent) => Err(FieldError::new(
                "size_percent",
                format!("must be between 2 and 20, got {percent}"),
            )),
            Some(_) | None => Ok(()),
        }
    }

    fn requirements(&self) -> BTreeSet<Capability> {
        self.encode.requirements()
    }

    fn output_extension(&self) -> &'static str {
        self.encode.output_extension()
    }
}
