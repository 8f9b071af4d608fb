//! How a picture of another shape is made to fit the film's frame. It is never stretched.

use fencepost_domain::service::stitch_export::Fit;

use crate::picture::Picture;
use crate::{Size, VideoStream};

/// The filters that give `video` the size of the film.
pub(super) fn filters(video: &VideoStream, fit: Fit, picture: &Picture) -> Vec<String> {
    let (frame, shown) = (picture.size, video.displayed);
    let across = f64::from(frame.width) / f64::from(shown.width.max(1));
    let down = f64::from(frame.height) / f64::from(shown.height.max(1));
    match fit {
        Fit::Pad => {
            let ratio = across.min(down);
            let inner = Size {
                width: scaled(shown.width, ratio).min(frame.width),
                height: scaled(shown.height, ratio).min(frame.height),
            };
            let mut chain = vec![picture.scale(inner)];
            if inner != frame {
                // Even, as colours are stored for two pixels at once.
                let x = (frame.width - inner.width) / 4 * 2;
                let y = (frame.height - inner.height) / 4 * 2;
                chain.push(format!("pad={}:{}:{x}:{y}", frame.width, frame.height));
            }
            chain
        }
        Fit::Crop => {
            let ratio = across.max(down);
            let stored = upright(video);
            let kept = Size {
                width: part(stored.width, across / ratio),
                height: part(stored.height, down / ratio),
            };
            if kept == stored {
                return vec![picture.scale(frame)];
            }
            let (x, y) = (
                (stored.width - kept.width) / 2,
                (stored.height - kept.height) / 2,
            );
            // Cut before it is enlarged: a line of pixels would become a picture without end. And
            // the first scale holds a source to the size that it said.
            vec![
                format!("scale={}:{}", stored.width, stored.height),
                format!("crop={}:{}:{x}:{y}:exact=1", kept.width, kept.height),
                picture.scale(frame),
            ]
        }
    }
}

/// The stored picture, turned upright; its pixels may not be square.
fn upright(video: &VideoStream) -> Size {
    let Size { width, height } = video.stored;
    if video.rotation % 180 == 90 {
        Size::new(height, width)
    } else {
        Size::new(width, height)
    }
}

fn scaled(pixels: u32, ratio: f64) -> u32 {
    rounded(f64::from(pixels) * ratio / 2.0).max(1) * 2
}

fn part(pixels: u32, ratio: f64) -> u32 {
    rounded(f64::from(pixels) * ratio).clamp(1, pixels.max(1))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is clamped into the range of pictures first"
)]
fn rounded(pixels: f64) -> u32 {
    pixels.round().clamp(0.0, 1e6) as u32
}
