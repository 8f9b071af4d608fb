//! What is promised of a still picture.

use fencepost_domain::service::thumbnail::PictureFormat;

use super::video::wanted_size;
use super::{judge_container, same};
use crate::{Checked, Container, Probe, Rejection};

/// One still picture, upright, of square pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PicturePromise {
    /// How it is stored.
    pub format: PictureFormat,
    /// Its width, if it is known.
    pub width: Option<u32>,
    /// Its height, if it is known.
    pub height: Option<u32>,
}

/// Whether `found` is such a picture.
pub(super) fn judge(found: &Probe, promise: &PicturePromise) -> Result<Checked, Rejection> {
    let (container, codec, pixel_formats) = stored_as(promise.format);
    judge_container(container, found.container)?;
    let ([picture], 1) = (found.video.as_slice(), found.streams) else {
        let streams = found.streams;
        return Err(Rejection::Streams(format!(
            "{streams} streams instead of one picture"
        )));
    };
    same("picture codec", codec, &picture.codec)?;
    if !pixel_formats.contains(&picture.pixel_format.as_str()) {
        same("pixel format", pixel_formats[0], &picture.pixel_format)?;
    }
    let size = picture.displayed;
    let fits = promise.width.is_none_or(|width| width == size.width)
        && promise.height.is_none_or(|height| height == size.height);
    if !fits || picture.rotation != 0 || !picture.square_pixels || size != picture.stored {
        return Err(Rejection::PictureSize {
            wanted: wanted_size(promise.width, promise.height),
            found: size,
        });
    }
    Ok(Checked {
        container: Some(found.container),
        size: Some(size),
        fps: None,
        // A picture lasts no time, whatever a demuxer makes of it.
        duration_seconds: 0.0,
        frames: 0,
        has_audio: false,
    })
}

/// Container, codec and pixel formats, the usual one first.
fn stored_as(format: PictureFormat) -> (Container, &'static str, &'static [&'static str]) {
    match format {
        PictureFormat::Jpeg => (Container::Jpeg, "mjpeg", &["yuvj420p", "yuv420p"]),
        PictureFormat::Png => (Container::Png, "png", &["rgb24"]),
    }
}
