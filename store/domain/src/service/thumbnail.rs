//! `thumbnail.v1`: one picture out of a video.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::parts::check_seconds;
use super::transcode::{MAX_HEIGHT, MAX_WIDTH};
use super::{Definition, InputSlot};
use crate::field::FieldError;

/// What the buyer asks of `thumbnail.v1`.
///
/// Without width and height the picture is as large as the video is shown; with one of them the
/// other follows the displayed aspect ratio; with both, the picture is scaled to exactly that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThumbnailParams {
    /// How the picture is stored.
    #[serde(default)]
    pub format: PictureFormat,
    /// When in the video, in seconds: the frame that is shown then. Left out: a frame that is
    /// typical of what comes after the first tenth, which is seldom black.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 86_400))]
    pub at_seconds: Option<f64>,
    /// Width in pixels, 1 to 4096.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4096))]
    pub width: Option<u32>,
    /// Height in pixels, 1 to 2160.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2160))]
    pub height: Option<u32>,
}

/// How a picture is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PictureFormat {
    /// JPEG of high quality.
    #[default]
    Jpeg,
    /// PNG, without loss.
    Png,
}

impl Definition for ThumbnailParams {
    const SUMMARY: &'static str = "Take one picture out of a video, as jpeg or png.";
    const INPUTS: &'static [InputSlot] = &[InputSlot::one("source", "a video")];

    fn check(&self) -> Result<(), FieldError> {
        check_seconds("at_seconds", self.at_seconds)?;
        within("width", self.width, MAX_WIDTH)?;
        within("height", self.height, MAX_HEIGHT)
    }

    fn output_extension(&self) -> &'static str {
        match self.format {
            PictureFormat::Jpeg => "jpg",
            PictureFormat::Png => "png",
        }
    }
}

fn within(field: &str, pixels: Option<u32>, max: u32) -> Result<(), FieldError> {
    match pixels {
        Some(n) if n < 1 || n > max => Err(FieldError::new(
            field,
            format!("must be between 1 and {max} pixels, got {n}"),
        )),
        Some(_) | None => Ok(()),
    }
}
