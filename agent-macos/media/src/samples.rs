//! Sources as unit tests want them: ordinary, but for what a test says itself.

use crate::{AudioStream, Container, Probe, Size, VideoStream};

impl VideoStream {
    /// Upright, ordinary H.264 of 30 frames a second, the first stream of its file.
    pub(crate) fn sample(size: Size, seconds: f64) -> Self {
        Self {
            index: 0,
            codec: "h264".to_owned(),
            stored: size,
            displayed: size,
            rotation: 0,
            square_pixels: true,
            pixel_format: "yuv420p".to_owned(),
            transfer: String::new(),
            matrix: String::new(),
            primaries: String::new(),
            range: String::new(),
            fps: Some(30.0),
            duration_seconds: Some(seconds),
            late_seconds: 0.0,
            end_seconds: Some(seconds),
            attached_picture: false,
        }
    }
}

impl AudioStream {
    /// AAC of six channels, the second stream of its file.
    pub(crate) fn sample(seconds: f64) -> Self {
        Self {
            index: 1,
            codec: "aac".to_owned(),
            channels: 6,
            duration_seconds: Some(seconds),
            late_seconds: 0.0,
            end_seconds: Some(seconds),
        }
    }
}

impl Probe {
    /// An mp4 of these streams, as long as its video.
    pub(crate) fn sample(video: VideoStream, audio: Option<AudioStream>) -> Self {
        Self {
            container: Container::Mp4,
            duration_seconds: video.duration_seconds,
            video: vec![video],
            streams: 1 + usize::from(audio.is_some()),
            audio: Vec::from_iter(audio),
            captions: Vec::new(),
        }
    }
}
