//! The command line of one transcode. Pure, so that it can be read and tested without FFmpeg.

use std::ffi::OsString;
use std::path::Path;

use fencepost_domain::service::TranscodeParams;
use fencepost_domain::service::transcode::{Audio, VideoCodec};

use crate::encoder::{Args, Encoder, Quality, encoder_arguments};
use crate::probe::file_url;
use crate::size::output_size;
use crate::{Container, FailureCode, MediaFailure, Probe, Size};

/// Everything decided before FFmpeg starts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    /// The source's container.
    pub source: Container,
    /// Number of the video stream to encode.
    pub video: u32,
    /// Number and channels of the audio stream to encode.
    pub audio: Option<(u32, u32)>,
    /// Size of the output's picture.
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
    /// Encoding ends after so many seconds, to bound a source that is longer than it says.
    pub stop_after_seconds: u32,
}

impl Plan {
    /// Decides how `source` becomes what `params` ask for.
    ///
    /// HDR is made ordinary for the 8-bit codecs where this FFmpeg can; where it cannot, picture
    /// and tags stay as they are, so that the tags stay true. ProRes keeps HDR.
    pub(crate) fn new(
        source: &Probe,
        params: &TranscodeParams,
        encoder: Encoder,
        tone_maps: bool,
        stop_after_seconds: u32,
    ) -> Result<Self, MediaFailure> {
        let video = source.main_video().ok_or_else(|| {
            MediaFailure::new(FailureCode::InputInvalid, "the source has no video")
        })?;
        let wants_tone_map = tone_maps && video.is_hdr() && params.codec != VideoCodec::Prores;
        let quality = match (params.crf, params.bitrate_kbps) {
            (Some(crf), _) => Quality::Crf(crf),
            (None, Some(kbps)) => Quality::Kbps(kbps),
            (None, None) => Quality::Usual,
        };
        Ok(Self {
            source: source.container,
            video: video.index,
            audio: source
                .main_audio()
                .filter(|_| params.audio == Audio::Keep)
                .map(|audio| (audio.index, audio.channels)),
            size: output_size(params, video)?,
            encoder,
            quality,
            fps: params.fps,
            source_fps: video.fps,
            tone_map_from: wants_tone_map.then(|| video.transfer.clone()),
            stop_after_seconds,
        })
    }

    /// FFmpeg's arguments for reading `input` and writing `output`.
    pub(crate) fn arguments(&self, input: &Path, output: &Path) -> Vec<OsString> {
        let mut args = Args(Vec::new());
        args.words("-hide_banner -nostdin -y -loglevel warning -nostats -progress pipe:1");
        if !self.source.survives_damage() {
            // Without it FFmpeg skips what is damaged or missing and exits with 0.
            args.words("-xerror");
        }
        args.words("-protocol_whitelist file -f")
            .word(self.source.demuxer());
        args.word("-i").0.push(file_url(input));
        args.word("-map").word(format!("0:{}", self.video));
        if let Some((index, _)) = self.audio {
            args.word("-map").word(format!("0:{index}"));
        }
        // Tags, chapters and time codes of the source may name people and places.
        args.words("-map_metadata -1 -map_chapters -1 -sn -dn");
        args.word("-vf").word(self.video_filter());
        args.words(if self.fps.is_some() {
            "-fps_mode cfr"
        } else {
            "-fps_mode vfr"
        });
        encoder_arguments(&mut args, self.encoder, self.quality, self.usual_kbps());
        if self.tone_map_from.is_some() {
            args.words("-color_primaries bt709 -color_trc bt709 -colorspace bt709");
        }
        if self.encoder.codec() != VideoCodec::Prores {
            args.words("-color_range tv");
        }
        self.audio_arguments(&mut args);
        args.word("-t").word(self.stop_after_seconds.to_string());
        match self.encoder.codec() {
            VideoCodec::H264 | VideoCodec::Hevc => {
                args.words("-movflags +faststart -write_tmcd 0 -f mp4");
            }
            VideoCodec::Prores => {
                args.words("-movflags +faststart -write_tmcd 0 -f mov");
            }
            VideoCodec::Vp9 => {
                args.words("-f webm");
            }
        }
        args.0.push(file_url(output));
        args.0
    }

    /// FFmpeg has turned the picture upright before this filter sees it.
    fn video_filter(&self) -> String {
        let mut chain = Vec::new();
        if let Some(fps) = self.fps {
            chain.push(format!("fps={fps}"));
        }
        let Size { width, height } = self.size;
        let range = match self.encoder.codec() {
            VideoCodec::Prores => "",
            VideoCodec::H264 | VideoCodec::Hevc | VideoCodec::Vp9 => ":out_range=tv",
        };
        chain.push(format!("scale={width}:{height}:flags=bicubic{range}"));
        if let Some(transfer) = &self.tone_map_from {
            chain.push(format!(
                "zscale=tin={transfer}:min=bt2020nc:pin=bt2020:rin=tv:t=linear:npl=100"
            ));
            chain.push("format=gbrpf32le,zscale=p=bt709,tonemap=tonemap=hable:desat=0".to_owned());
            chain.push("zscale=t=bt709:m=bt709:r=tv".to_owned());
        }
        chain.push("setsar=1".to_owned());
        chain.push(format!("format={}", self.encoder.pixel_format()));
        chain.join(",")
    }

    fn audio_arguments(&self, args: &mut Args) {
        let Some((_, channels)) = self.audio else {
            return;
        };
        match self.encoder.codec() {
            VideoCodec::Vp9 => args.words("-c:a libopus -b:a 128k"),
            VideoCodec::H264 | VideoCodec::Hevc | VideoCodec::Prores => {
                args.words("-c:a aac -b:a 160k")
            }
        };
        // Surround layouts are not all accepted by every encoder; stereo is, and plays everywhere.
        args.words("-ar 48000 -ac")
            .word(channels.clamp(1, 2).to_string());
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

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is clamped into the range of u32 first"
)]
fn kbps(value: f64) -> u32 {
    value.clamp(200.0, 200_000.0) as u32
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{AudioStream, VideoStream};

    fn source(transfer: &str) -> Probe {
        let size = Size::new(640, 360);
        Probe {
            container: Container::Mp4,
            duration_seconds: Some(8.0),
            video: vec![VideoStream {
                index: 1,
                codec: "h264".to_owned(),
                stored: size,
                displayed: size,
                rotation: 0,
                square_pixels: true,
                pixel_format: "yuv420p".to_owned(),
                transfer: transfer.to_owned(),
                fps: Some(30.0),
                duration_seconds: Some(8.0),
                attached_picture: false,
            }],
            audio: vec![AudioStream {
                index: 2,
                codec: "aac".to_owned(),
                channels: 6,
                duration_seconds: Some(8.0),
            }],
            streams: 3,
        }
    }

    fn line(params: &Value, proven: bool, source: &Probe) -> String {
        let params = TranscodeParams::parse(params).expect("parameters that are allowed");
        let encoder = Encoder::choose(&params, proven).expect("an encoder");
        let plan = Plan::new(source, &params, encoder, true, 62).expect("a plan");
        let args = plan.arguments(Path::new("/w/in.mp4"), Path::new("/w/output.mp4"));
        let words: Vec<String> = args
            .iter()
            .map(|arg| arg.to_string_lossy().into())
            .collect();
        words.join(" ")
    }

    #[test]
    fn the_whole_command_line_of_a_plain_transcode() {
        assert_eq!(
            line(&json!({"codec": "h264", "height": 180}), false, &source("")),
            "-hide_banner -nostdin -y -loglevel warning -nostats -progress pipe:1 -xerror \
             -protocol_whitelist file -f mov -i file:/w/in.mp4 -map 0:1 -map 0:2 \
             -map_metadata -1 -map_chapters -1 -sn -dn \
             -vf scale=320:180:flags=bicubic:out_range=tv,setsar=1,format=yuv420p -fps_mode vfr \
             -c:v libx264 -preset medium -crf 23 -color_range tv \
             -c:a aac -b:a 160k -ar 48000 -ac 2 -t 62 \
             -movflags +faststart -write_tmcd 0 -f mp4 file:/w/output.mp4"
        );
    }

    #[test]
    fn each_codec_has_its_encoder_quality_and_container() {
        for (codec, parts) in [
            (
                "hevc",
                [
                    "-c:v libx265",
                    "-crf 28",
                    "-tag:v hvc1",
                    "-c:a aac",
                    "-f mp4",
                ],
            ),
            (
                "vp9",
                [
                    "-c:v libvpx-vp9",
                    "-crf 32",
                    "-b:v 0",
                    "-c:a libopus",
                    "-f webm",
                ],
            ),
            (
                "prores",
                [
                    "-c:v prores_ks",
                    "standard",
                    "yuv422p10le",
                    "-c:a aac",
                    "-f mov",
                ],
            ),
        ] {
            let line = line(&json!({"codec": codec}), false, &source(""));
            for part in parts {
                assert!(line.contains(part), "{part} is not in {line}");
            }
        }
    }

    #[test]
    fn hardware_encodes_only_where_it_is_proven_and_wished_and_able() {
        let used = |params, proven| line(&params, proven, &source("")).contains("videotoolbox");
        assert!(used(json!({"codec": "h264"}), true));
        assert!(!used(json!({"codec": "h264"}), false));
        assert!(!used(json!({"codec": "h264", "hardware": "never"}), true));
        assert!(!used(json!({"codec": "h264", "crf": 20}), true));
        assert!(!used(json!({"codec": "vp9"}), true));
        assert!(used(
            json!({"codec": "hevc", "crf": 20, "hardware": "require"}),
            true
        ));
        let required = TranscodeParams::parse(&json!({"codec": "h264", "hardware": "require"}));
        let failure = Encoder::choose(&required.unwrap(), false).unwrap_err();
        assert_eq!(failure.code(), Some(FailureCode::DeviceFault));
    }

    #[test]
    fn hdr_is_decided_by_the_transfer_tag_and_prores_keeps_it() {
        let mapped = |codec, transfer| {
            line(&json!({"codec": codec}), false, &source(transfer)).contains("tonemap")
        };
        assert!(mapped("h264", "smpte2084") && mapped("vp9", "arib-std-b67"));
        assert!(!mapped("h264", "bt709") && !mapped("prores", "smpte2084"));
    }

    #[test]
    fn a_source_without_video_is_the_inputs_fault() {
        let params = TranscodeParams::parse(&json!({"codec": "h264"})).unwrap();
        let sound = Probe {
            video: Vec::new(),
            ..source("")
        };
        let plan = Plan::new(
            &sound,
            &params,
            Encoder::Software(VideoCodec::H264),
            true,
            1,
        );
        assert_eq!(plan.unwrap_err().code(), Some(FailureCode::InputInvalid));
    }
}
