//! `transcode.v1`: one video in, one video out.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Capability, Definition, InputSlot};
use crate::field::FieldError;

/// The fewest pixels of a side that HEVC's encoders take.
pub const HEVC_LEAST: u32 = 16;
/// The largest height that any service produces, in pixels.
pub const MAX_HEIGHT: u32 = 2160;
/// The largest width, in pixels.
pub const MAX_WIDTH: u32 = 4096;

/// What the buyer asks of `transcode.v1`.
///
/// Without width and height the size is kept (made even); with one of them the other follows the
/// displayed aspect ratio, rounded to the nearest even number; with both, the picture is scaled to
/// exactly that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TranscodeParams {
    /// The video codec of the output. It decides the container: mp4 for h264 and hevc, webm for
    /// vp9, mov for prores.
    pub codec: VideoCodec,
    /// Output width in pixels: even, 2 to 4096.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 4096), extend("multipleOf" = 2))]
    pub width: Option<u32>,
    /// Output height in pixels: even, 2 to 2160.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 2160), extend("multipleOf" = 2))]
    pub height: Option<u32>,
    /// Constant output frame rate, 1 to 120. Left out: the source's timing is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 120))]
    pub fps: Option<f64>,
    /// Constant quality, 0 (best) to 51; h264, hevc and vp9 only. Not together with bitrate_kbps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 51))]
    pub crf: Option<u8>,
    /// Average video bit rate in kilobits per second, 50 to 200000. Not together with crf.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 50, max = 200_000))]
    pub bitrate_kbps: Option<u32>,
    /// What becomes of the sound.
    #[serde(default)]
    pub audio: Audio,
    /// Whether Apple's VideoToolbox may, must or must not encode (h264, hevc and prores).
    #[serde(default)]
    pub hardware: Hardware,
}

/// The codecs that `transcode.v1` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VideoCodec {
    /// H.264 in mp4.
    H264,
    /// H.265 in mp4.
    Hevc,
    /// VP9 in webm.
    Vp9,
    /// Apple ProRes 422 in mov.
    Prores,
}

impl VideoCodec {
    /// The name as it is written in JSON, which is also FFmpeg's codec name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::H264 => "h264",
            Self::Hevc => "hevc",
            Self::Vp9 => "vp9",
            Self::Prores => "prores",
        }
    }

    /// File extension of the container this codec is put into.
    pub fn extension(self) -> &'static str {
        match self {
            Self::H264 | Self::Hevc => "mp4",
            Self::Vp9 => "webm",
            Self::Prores => "mov",
        }
    }
}

/// What becomes of the sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Audio {
    /// Re-encode the first audio track if there is one (AAC, or Opus in webm).
    #[default]
    Keep,
    /// Leave the sound out.
    Drop,
}

/// Where the encoding may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Hardware {
    /// VideoToolbox where the device has proven it, software otherwise.
    #[default]
    Prefer,
    /// Only devices that have proven VideoToolbox for this codec.
    Require,
    /// Software only: the same bits on every device.
    Never,
}

impl TranscodeParams {
    /// Reads and checks parameters.
    pub fn parse(params: &Value) -> Result<Self, FieldError> {
        super::read(params)
    }
}

impl Definition for TranscodeParams {
    const SUMMARY: &'static str = "Re-encode one video to another codec, size, rate or quality.";
    const INPUTS: &'static [InputSlot] = &[InputSlot::one("source", "a video to re-encode")];

    fn check(&self) -> Result<(), FieldError> {
        even_within("width", self.width, MAX_WIDTH)?;
        even_within("height", self.height, MAX_HEIGHT)?;
        for (field, pixels) in [("width", self.width), ("height", self.height)] {
            let few =
                pixels.filter(|&pixels| pixels < HEVC_LEAST && self.codec == VideoCodec::Hevc);
            if let Some(pixels) = few {
                let problem = format!("hevc needs at least {HEVC_LEAST} pixels, got {pixels}");
                return Err(FieldError::new(field, problem));
            }
        }
        if self.fps.is_some_and(|fps| !(1.0..=120.0).contains(&fps)) {
            return Err(FieldError::new("fps", "must be between 1 and 120"));
        }
        if self.crf.is_some_and(|crf| crf > 51) {
            return Err(FieldError::new("crf", "must be between 0 and 51"));
        }
        if self
            .bitrate_kbps
            .is_some_and(|kbps| !(50..=200_000).contains(&kbps))
        {
            return Err(FieldError::new(
                "bitrate_kbps",
                "must be between 50 and 200000",
            ));
        }
        if self.crf.is_some() && self.bitrate_kbps.is_some() {
            return Err(FieldError::new(
                "crf",
                "give either crf or bitrate_kbps, not both",
            ));
        }
        if self.codec == VideoCodec::Prores && (self.crf.is_some() || self.bitrate_kbps.is_some()) {
            let field = if self.crf.is_some() {
                "crf"
            } else {
                "bitrate_kbps"
            };
            return Err(FieldError::new(
                field,
                "prores has a fixed quality: leave it out",
            ));
        }
        if self.codec == VideoCodec::Vp9 && self.hardware == Hardware::Require {
            return Err(FieldError::new(
                "hardware",
                "vp9 has no hardware encoder: use prefer",
            ));
        }
        Ok(())
    }

    /// The codec where not every FFmpeg has it, and VideoToolbox if required.
    fn requirements(&self) -> BTreeSet<Capability> {
        let means = match self.hardware {
            Hardware::Require => "videotoolbox",
            Hardware::Prefer | Hardware::Never => "encode",
        };
        let codec = self.codec.as_str();
        BTreeSet::from([Capability::new(format!("{means}.{codec}"))])
    }

    fn output_extension(&self) -> &'static str {
        self.codec.extension()
    }
}

fn even_within(field: &str, pixels: Option<u32>, max: u32) -> Result<(), FieldError> {
    match pixels {
        Some(n) if n < 2 || n > max => Err(FieldError::new(
            field,
            format!("must be between 2 and {max} pixels, got {n}"),
        )),
        Some(n) if n % 2 == 1 => Err(FieldError::new(
            field,
            format!("must be even, got {n}: video is stored in blocks of two pixels"),
        )),
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::service::{ServiceName, ServiceParams};

    fn parse(params: &Value) -> Result<ServiceParams, FieldError> {
        ServiceParams::parse(ServiceName::TranscodeV1, params)
    }

    fn problem(params: &Value) -> FieldError {
        parse(params).expect_err("these parameters break a rule")
    }

    #[test]
    fn the_smallest_request_is_a_codec() {
        let ServiceParams::Transcode(params) = parse(&json!({"codec": "h264"})).unwrap() else {
            panic!("parameters of another service");
        };
        assert_eq!(params.audio, Audio::Keep);
        assert_eq!(params.hardware, Hardware::Prefer);
    }

    #[test]
    fn hevc_is_not_asked_for_smaller_than_it_can_be() {
        for field in ["width", "height"] {
            let found = problem(&json!({"codec": "hevc", field: 14}));
            assert_eq!(found.field, field);
            assert!(found.problem.contains("16"), "{}", found.problem);
            assert!(parse(&json!({"codec": "hevc", field: 16})).is_ok());
            assert!(parse(&json!({"codec": "h264", field: 14})).is_ok());
        }
    }

    #[test]
    fn an_unknown_field_is_refused_by_name() {
        assert_eq!(
            problem(&json!({"codec": "h264", "heigth": 2})).field,
            "heigth"
        );
    }

    #[test]
    fn odd_and_oversize_pictures_are_refused_by_name() {
        assert_eq!(
            problem(&json!({"codec": "h264", "height": 301})).field,
            "height"
        );
        assert_eq!(
            problem(&json!({"codec": "h264", "height": 2162})).field,
            "height"
        );
        assert_eq!(
            problem(&json!({"codec": "h264", "width": 4098})).field,
            "width"
        );
    }

    #[test]
    fn quality_and_bit_rate_exclude_each_other() {
        assert_eq!(
            problem(&json!({"codec": "h264", "crf": 23, "bitrate_kbps": 900})).field,
            "crf"
        );
    }

    #[test]
    fn required_hardware_becomes_a_capability_to_prove() {
        let params = parse(&json!({"codec": "h264", "hardware": "require"})).unwrap();
        assert!(
            params
                .requirements()
                .contains(&Capability::new("videotoolbox.h264"))
        );
    }
}
