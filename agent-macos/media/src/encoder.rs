//! Which encoder writes the picture, and how it is told the quality.

use fencepost_domain::service::transcode::{Hardware, VideoCodec};

use crate::args::Args;
use crate::{FailureCode, MediaFailure};

/// Which program part encodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoder {
    /// libx264, libx265, libvpx or FFmpeg's own ProRes.
    Software(VideoCodec),
    /// Apple's media engine.
    VideoToolbox(VideoCodec),
}

impl Encoder {
    /// What it writes.
    pub fn codec(self) -> VideoCodec {
        match self {
            Self::Software(codec) | Self::VideoToolbox(codec) => codec,
        }
    }

    /// Decides by the buyer's wish and by what this machine has proven.
    ///
    /// A constant quality asked for is honoured in software when the buyer leaves the choice to
    /// us: VideoToolbox has no such scale.
    pub(crate) fn choose(
        codec: VideoCodec,
        hardware: Hardware,
        (has_scale, proven): (bool, bool),
    ) -> Result<Self, MediaFailure> {
        let usable = proven && codec != VideoCodec::Vp9;
        match hardware {
            Hardware::Require if usable => Ok(Self::VideoToolbox(codec)),
            Hardware::Require => Err(MediaFailure::new(
                FailureCode::DeviceFault,
                "this machine has not proven VideoToolbox for this codec",
            )),
            Hardware::Prefer if usable && !has_scale => Ok(Self::VideoToolbox(codec)),
            Hardware::Prefer | Hardware::Never => Ok(Self::Software(codec)),
        }
    }

    pub(crate) fn pixel_format(self) -> &'static str {
        match self {
            Self::VideoToolbox(VideoCodec::Prores) => "p210le",
            Self::Software(VideoCodec::Prores) => "yuv422p10le",
            Self::Software(_) | Self::VideoToolbox(_) => "yuv420p",
        }
    }
}

/// How good the picture is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quality {
    /// The service's own choice.
    Usual,
    /// Constant quality.
    Crf(u8),
    /// Average bit rate in kilobits per second.
    Kbps(u32),
}

/// Appends the encoder and its quality.
pub(crate) fn encoder_arguments(
    args: &mut Args,
    encoder: Encoder,
    quality: Quality,
    usual_kbps: u32,
) {
    match encoder {
        Encoder::Software(VideoCodec::H264) => args.words("-c:v libx264 -preset medium"),
        Encoder::Software(VideoCodec::Hevc) => {
            args.words("-c:v libx265 -preset medium -x265-params log-level=error -tag:v hvc1")
        }
        Encoder::Software(VideoCodec::Vp9) => {
            args.words("-c:v libvpx-vp9 -deadline good -cpu-used 4 -row-mt 1")
        }
        Encoder::Software(VideoCodec::Prores) => {
            args.words("-c:v prores_ks -profile:v standard -vendor apl0")
        }
        Encoder::VideoToolbox(VideoCodec::Prores) => {
            args.words("-c:v prores_videotoolbox -profile:v standard")
        }
        Encoder::VideoToolbox(VideoCodec::Hevc) => {
            args.words("-c:v hevc_videotoolbox -allow_sw 0 -tag:v hvc1")
        }
        // There is no VP9 in VideoToolbox; `choose` never says so.
        Encoder::VideoToolbox(VideoCodec::H264 | VideoCodec::Vp9) => {
            args.words("-c:v h264_videotoolbox -allow_sw 0")
        }
    };
    match (encoder, quality) {
        (Encoder::Software(VideoCodec::Prores) | Encoder::VideoToolbox(VideoCodec::Prores), _) => {}
        (_, Quality::Kbps(kbps)) => {
            args.word("-b:v").word(format!("{kbps}k"));
        }
        (Encoder::VideoToolbox(_), Quality::Crf(crf)) => {
            let quality = 100 - u32::from(crf) * 100 / 51;
            args.word("-q:v").word(quality.max(1).to_string());
        }
        (Encoder::VideoToolbox(_), Quality::Usual) => {
            args.word("-b:v").word(format!("{usual_kbps}k"));
        }
        (Encoder::Software(codec), quality) => {
            let crf = match (quality, codec) {
                (Quality::Crf(crf), _) => crf,
                (_, VideoCodec::H264 | VideoCodec::Prores) => 23,
                (_, VideoCodec::Hevc) => 28,
                (_, VideoCodec::Vp9) => 32,
            };
            args.word("-crf").word(crf.to_string());
            if codec == VideoCodec::Vp9 {
                args.words("-b:v 0");
            }
        }
    }
}
