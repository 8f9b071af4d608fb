//! How a source's picture becomes the output's: its size, rate, colours, encoder and quality.

use fencepost_domain::service::transcode::VideoCodec;

use crate::args::Args;
use crate::encoder::{Encoder, Quality, encoder_arguments};
use crate::{Size, VideoStream};

/// Everything about the output's picture, decided before FFmpeg starts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Picture {
    /// Its size.
    pub size: Size,
    /// Which encoder writes it.
    pub encoder: Encoder,
    /// How good it is to be.
    pub quality: Quality,
    /// Constant frame rate asked for.
    pub fps: Option<f64>,
    /// The source's frame rate, as far as known.
    pub source_fps: Option<f64>,
    /// Transfer characteristic of an HDR source that is to become an ordinary picture.
    pub tone_map_from: Option<String>,
    /// Matrix of a source whose colours are to be stored by that of `bt709`, and in the range of
    /// television.
    pub matrix_from: Option<&'static str>,
    /// File of ours with captions that are drawn into it.
    pub drawn: Option<&'static str>,
}

impl Picture {
    /// A picture made of `source`, in its own rate.
    ///
    /// HDR is made ordinary for the 8-bit codecs where this FFmpeg can; where it cannot, picture
    /// and tags stay as they are, so that the tags stay true. `ProRes` keeps HDR.
    pub(crate) fn of(
        source: &VideoStream,
        size: Size,
        encoder: Encoder,
        quality: Quality,
        tone_maps: bool,
    ) -> Self {
        let maps = tone_maps && source.is_hdr() && encoder.codec() != VideoCodec::Prores;
        Self {
            size,
            encoder,
            quality,
            fps: None,
            source_fps: source.fps,
            tone_map_from: maps.then(|| source.transfer.clone()),
            matrix_from: None,
            drawn: None,
        }
    }

    /// The filters between decoder and encoder. FFmpeg has turned the picture upright before.
    pub(crate) fn filters(&self) -> Vec<String> {
        let mut chain = Vec::new();
        if let Some(fps) = self.fps {
            chain.push(format!("fps={fps}"));
        }
        chain.push(self.scale(self.size));
        self.finish(&mut chain);
        chain
    }

    /// The filter that gives the picture, or a part of it, its size.
    pub(crate) fn scale(&self, Size { width, height }: Size) -> String {
        if let Some(matrix) = self.matrix_from {
            return format!(
                "scale={width}:{height}:flags=bicubic+accurate_rnd+full_chroma_int:\
                 in_color_matrix={matrix}:out_color_matrix=bt709:out_range=tv"
            );
        }
        let range = match self.encoder.codec() {
            VideoCodec::Prores => "",
            VideoCodec::H264 | VideoCodec::Hevc | VideoCodec::Vp9 => ":out_range=tv",
        };
        format!("scale={width}:{height}:flags=bicubic{range}")
    }

    /// What comes after the picture has its size.
    pub(crate) fn finish(&self, chain: &mut Vec<String>) {
        if let Some(transfer) = &self.tone_map_from {
            chain.extend(tone_mapping(transfer));
        }
        if let Some(file) = self.drawn {
            chain.push(format!("ass={file}"));
        }
        chain.push("setsar=1".to_owned());
        chain.push(format!("format={}", self.encoder.pixel_format()));
    }

    /// The encoder's arguments, and the tags that say what was done to the colours.
    pub(crate) fn encode(&self, args: &mut Args) {
        args.words(if self.fps.is_some() {
            "-fps_mode cfr"
        } else {
            "-fps_mode vfr"
        });
        encoder_arguments(args, self.encoder, self.quality, self.usual_kbps());
        if self.becomes_bt709() {
            args.words("-color_primaries bt709 -color_trc bt709 -colorspace bt709");
        }
        if self.encoder.codec() != VideoCodec::Prores {
            args.words("-color_range tv");
        }
    }

    /// Whether its colours are made those of ordinary high definition.
    pub(crate) fn becomes_bt709(&self) -> bool {
        self.tone_map_from.is_some() || self.matrix_from.is_some()
    }

    /// VideoToolbox wants a bit rate: about a tenth of a bit for each pixel shown.
    fn usual_kbps(&self) -> u32 {
        let fps = self
            .fps
            .or(self.source_fps)
            .unwrap_or(30.0)
            .clamp(1.0, 120.0);
        let pixels = f64::from(self.size.width) * f64::from(self.size.height);
        kbps(pixels * fps * 0.1 / 1000.0)
    }
}

/// Frame rates that films usually have.
const USUAL_RATES: [f64; 9] = [
    24_000.0 / 1001.0,
    24.0,
    25.0,
    30_000.0 / 1001.0,
    30.0,
    48.0,
    50.0,
    60_000.0 / 1001.0,
    60.0,
];

/// The constant rate for a picture whose own may vary: its average, or the usual one that is meant
/// by it. Never below ten, so that whatever is to happen at a time happens soon after it.
pub(crate) fn steady_rate(source: &VideoStream) -> f64 {
    let average = source.fps.unwrap_or(25.0).clamp(10.0, 120.0);
    let far = |rate: &f64| (rate - average).abs();
    let nearest = USUAL_RATES
        .into_iter()
        .min_by(|a, b| far(a).total_cmp(&far(b)));
    nearest
        .filter(|rate| far(rate) < average * 0.002)
        .unwrap_or(average)
}

/// The filters that turn an HDR picture of this transfer characteristic into an ordinary one.
pub(crate) fn tone_mapping(transfer: &str) -> [String; 3] {
    [
        format!("zscale=tin={transfer}:min=bt2020nc:pin=bt2020:rin=tv:t=linear:npl=100"),
        "format=gbrpf32le,zscale=p=bt709,tonemap=tonemap=hable:desat=0".to_owned(),
        "zscale=t=bt709:m=bt709:r=tv".to_owned(),
    ]
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is clamped into the range of u32 first"
)]
fn kbps(value: f64) -> u32 {
    value.clamp(200.0, 200_000.0) as u32
}
