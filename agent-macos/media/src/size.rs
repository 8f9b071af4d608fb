//! How large the picture becomes. One rule, used to encode and to check.

use fencepost_domain::service::transcode::{MAX_HEIGHT, MAX_WIDTH};

use crate::{FailureCode, MediaFailure, VideoStream};

/// The largest source picture that is decoded, in pixels: a guard against a header that asks for
/// all of the machine's memory (8K is 33 million).
const MOST_SOURCE_PIXELS: u64 = 8192 * 8192;

/// Width and height in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Pixels across.
    pub width: u32,
    /// Pixels down.
    pub height: u32,
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

impl Size {
    /// A size.
    pub const fn new(width: u32, height: u32) -> Self {
        Self { width, height }
    }

    /// As shown: pixels of the given aspect made square by stretching the width, then turned.
    pub(crate) fn displayed(self, pixel_aspect: f64, rotation: u16) -> Self {
        let width = nearest(f64::from(self.width) * pixel_aspect);
        if rotation % 180 == 90 {
            Self::new(self.height, width)
        } else {
            Self::new(width, self.height)
        }
    }
}

/// What a buyer says about the size of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SizeWish {
    width: Option<u32>,
    height: Option<u32>,
    /// What its sides are multiples of.
    step: u32,
}

impl SizeWish {
    /// Of a video, whose sides are even.
    pub(crate) fn even(width: Option<u32>, height: Option<u32>) -> Self {
        let step = 2;
        Self {
            width,
            height,
            step,
        }
    }

    /// Of a still picture, whose sides are any number of pixels.
    pub(crate) fn any(width: Option<u32>, height: Option<u32>) -> Self {
        let step = 1;
        Self {
            width,
            height,
            step,
        }
    }

    /// The size nearest to this one that an output may have.
    fn nearest(self, pixels: f64) -> u32 {
        let step = self.step;
        nearest(pixels / f64::from(step)).clamp(1, u32::MAX / step) * step
    }
}

/// The output's size for this source: as asked; with one side given the other follows the displayed
/// aspect ratio; kept otherwise. Of a video always even, halves rounded up (321 becomes 322, 1
/// becomes 2).
///
/// A source without a usable picture, or a result larger than the service writes, is
/// `input_invalid`.
pub(crate) fn output_size(wish: SizeWish, source: &VideoStream) -> Result<Size, MediaFailure> {
    let (stored, shown) = (source.stored, source.displayed);
    let pixels = u64::from(stored.width) * u64::from(stored.height);
    if pixels == 0 || shown.width == 0 || shown.height == 0 {
        return Err(invalid("the source's video has no picture size".to_owned()));
    }
    if pixels > MOST_SOURCE_PIXELS {
        return Err(invalid(format!(
            "the source's picture of {stored} is too large to decode"
        )));
    }
    let (width, height) = (f64::from(shown.width), f64::from(shown.height));
    let size = match (wish.width, wish.height) {
        (Some(w), Some(h)) => Size::new(w, h),
        (Some(w), None) => Size::new(w, wish.nearest(height * f64::from(w) / width)),
        (None, Some(h)) => Size::new(wish.nearest(width * f64::from(h) / height), h),
        (None, None) => Size::new(wish.nearest(width), wish.nearest(height)),
    };
    if size.width > MAX_WIDTH || size.height > MAX_HEIGHT {
        return Err(invalid(format!(
            "the output would be {size}, and at most {MAX_WIDTH}x{MAX_HEIGHT} is written: ask for \
             a smaller width or height"
        )));
    }
    Ok(size)
}

fn invalid(message: String) -> MediaFailure {
    MediaFailure::new(FailureCode::InputInvalid, message)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is clamped into the range of u32 first"
)]
fn nearest(pixels: f64) -> u32 {
    pixels.round().clamp(0.0, f64::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn source(width: u32, height: u32, aspect: f64, rotation: u16) -> VideoStream {
        let stored = Size::new(width, height);
        VideoStream {
            displayed: stored.displayed(aspect, rotation),
            rotation,
            ..VideoStream::sample(stored, 1.0)
        }
    }

    fn sized(extra: &serde_json::Value, source: &VideoStream) -> Result<String, MediaFailure> {
        let side = |name: &str| {
            extra[name]
                .as_u64()
                .map(|side| u32::try_from(side).unwrap())
        };
        let wish = SizeWish::even(side("width"), side("height"));
        output_size(wish, source).map(|size| size.to_string())
    }

    #[test]
    fn odd_sources_are_made_even_upwards() {
        assert_eq!(
            sized(&json!({}), &source(321, 241, 1.0, 0)).unwrap(),
            "322x242"
        );
        assert_eq!(sized(&json!({}), &source(1, 1, 1.0, 0)).unwrap(), "2x2");
    }

    #[test]
    fn a_still_picture_may_be_odd() {
        let sized = |width, height, source: &VideoStream| {
            output_size(SizeWish::any(width, height), source).map(|size| size.to_string())
        };
        let odd = source(321, 241, 1.0, 90);
        assert_eq!(sized(None, None, &odd).unwrap(), "241x321");
        assert_eq!(sized(Some(101), None, &odd).unwrap(), "101x135");
        assert_eq!(sized(None, Some(1), &odd).unwrap(), "1x1");
    }

    #[test]
    fn the_missing_side_follows_the_displayed_picture() {
        assert_eq!(
            sized(&json!({"height": 300}), &source(640, 360, 1.0, 0)).unwrap(),
            "534x300"
        );
        assert_eq!(
            sized(&json!({"width": 90}), &source(640, 360, 1.0, 90)).unwrap(),
            "90x160"
        );
        // PAL: 720x576 stored, shown as 1024x576.
        let pal = source(720, 576, 64.0 / 45.0, 0);
        assert_eq!(sized(&json!({"height": 288}), &pal).unwrap(), "512x288");
    }

    #[test]
    fn both_sides_given_are_taken_exactly() {
        let asked = json!({"width": 100, "height": 100});
        assert_eq!(sized(&asked, &source(640, 360, 1.0, 0)).unwrap(), "100x100");
    }

    #[test]
    fn what_the_service_does_not_write_or_decode_is_the_inputs_fault() {
        for bad in [
            source(2160, 3840, 1.0, 0),
            source(0, 0, 1.0, 0),
            source(60_000, 60_000, 1.0, 0),
        ] {
            let failure = sized(&json!({}), &bad).unwrap_err();
            assert_eq!(failure.code(), Some(FailureCode::InputInvalid));
        }
    }
}
