//! What the script says, and what is decided by it before a frame is drawn. Pure rules.

use fencepost_domain::service::transcode::{MAX_HEIGHT, MAX_WIDTH};
use fencepost_domain::service::{Composition, RemotionRenderParams};
use serde::Deserialize;
use serde_json::Value;

use crate::services::require_affordable;
use crate::work::invalid;
use crate::{FailureCode, MediaFailure};

/// One line of the script's stdout.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Line {
    /// The browser is open.
    #[serde(default)]
    pub(super) opened: bool,
    /// What is going to be drawn.
    pub(super) composition: Option<Value>,
    /// Frames that were drawn so far.
    pub(super) drawn: Option<u32>,
    /// Frames that were written so far.
    pub(super) written: Option<u32>,
    /// It ends without success.
    pub(super) failed: Option<Failed>,
    /// It ends with success.
    #[serde(default)]
    pub(super) done: bool,
}

/// Why the script gave up.
#[derive(Debug, Deserialize)]
pub(super) struct Failed {
    /// What it was about.
    pub(super) place: Place,
    /// What Remotion or the bundle said.
    pub(super) message: String,
    /// Whether it is an error of the operating system that this machine is to blame for.
    pub(super) ours: bool,
}

/// What the script was about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Place {
    /// Opening the browser.
    Opening,
    /// Running the bundle in it.
    Bundle,
}

/// Which frames are drawn: the first and the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frames {
    pub(crate) first: u32,
    pub(crate) last: u32,
}

impl Frames {
    pub(crate) fn number(self) -> u32 {
        self.last - self.first + 1
    }
}

/// Which frames of a composition the buyer wants, if they can be had and were paid for.
pub(crate) fn frames_of(
    composition: &Composition,
    params: &RemotionRenderParams,
    max_output_seconds: u32,
) -> Result<Frames, MediaFailure> {
    let Composition {
        width, height, fps, ..
    } = *composition;
    if !(1..=MAX_WIDTH).contains(&width) || !(1..=MAX_HEIGHT).contains(&height) {
        return Err(invalid(format!(
            "the composition is {width}x{height}, and at most {MAX_WIDTH}x{MAX_HEIGHT} is drawn"
        )));
    }
    if !(fps.is_finite() && fps > 0.0) {
        return Err(invalid("the composition has no frame rate"));
    }
    let length = composition.duration_in_frames;
    let inside = |field: &str, frame: u32| {
        if frame < length {
            return Ok(frame);
        }
        Err(invalid(format!(
            "{field} is {frame}, and the composition has {length} frames, counted from 0"
        )))
    };
    let first = inside("first_frame", params.first_frame.unwrap_or(0))?;
    let last = params.last_frame.unwrap_or(length.saturating_sub(1));
    let last = inside("last_frame", last)?;
    let frames = Frames { first, last };
    require_affordable(
        Some(composition.seconds_of(frames.number())),
        max_output_seconds,
    )?;
    Ok(frames)
}

/// Said when a browser goes down under what it shows.
const CRASHED: &[&str] = &[
    "Target closed",
    "Session closed",
    "Page crashed",
    "browser crashed",
    "Browser crashed",
    "Connection closed",
    "Navigation failed because browser has disconnected",
];
/// Said when a frame or the page itself is not ready in time.
const LATE: &[&str] = &["delayRender(", "Timed out", "timed out", "Timeout"];

/// Whose fault it was. A bundle that throws, or brings the browser down, does so on every machine. No words
/// of a bundle's can blame the machine.
pub(super) fn blame(failed: &Failed) -> FailureCode {
    let says = |signs: &[&str]| signs.iter().any(|sign| failed.message.contains(sign));
    if failed.place == Place::Opening || failed.ours {
        FailureCode::DeviceFault
    } else if says(CRASHED) {
        FailureCode::RunnerFailed
    } else if says(LATE) {
        FailureCode::Stalled
    } else {
        FailureCode::InputInvalid
    }
}

/// Where Remotion goes on with what is of no use to a buyer: other ways to render, and the page's text.
const DIGRESSIONS: &[&str] = &[
    "When using the Remotion Lambda",
    "The page loaded contained",
];
/// Said of what would have had to come from a network.
const CUT_OFF: &[&str] = &["Failed to fetch", "net::ERR_", "https://"];

/// Where the renderer serves the bundle, up to the port.
const SERVED: &str = "http://localhost:";

/// What a bundle or Remotion said, without what does not help and with files of the bundle named by their
/// paths in it, and what that means.
pub(super) fn told(said: &str) -> (&'static str, String) {
    let mut said = said;
    while let Some(rest) = said.strip_prefix("Error: ") {
        said = rest;
    }
    let ends = DIGRESSIONS.iter().filter_map(|words| said.find(words));
    let said = &said[..ends.min().unwrap_or(said.len())];
    let means = if CUT_OFF.iter().any(|sign| said.contains(sign)) {
        "the bundle cannot be rendered (there is no network, so what it shows must be files of the bundle)"
    } else {
        "the bundle cannot be rendered"
    };
    (means, as_files(said))
}

/// `public/a.png` instead of `http://localhost:4001/public/a.png`.
fn as_files(said: &str) -> String {
    let mut parts = said.split(SERVED);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let path = part.trim_start_matches(|c: char| c.is_ascii_digit());
        out.push_str(path.strip_prefix('/').unwrap_or(path));
    }
    out
}

#[cfg(test)]
mod tests {
    use fencepost_domain::service::{ServiceName, ServiceParams};
    use serde_json::json;

    use super::*;

    fn composition(size: (u32, u32), fps: f64, frames: u32) -> Composition {
        Composition {
            id: "film".to_owned(),
            width: size.0,
            height: size.1,
            fps,
            duration_in_frames: frames,
            default_props: serde_json::Map::new(),
        }
    }

    fn wish(first: Option<u32>, last: Option<u32>) -> RemotionRenderParams {
        let mut params = json!({"composition": "film", "encode": {"codec": "h264"}});
        if let Some(first) = first {
            params["first_frame"] = json!(first);
        }
        if let Some(last) = last {
            params["last_frame"] = json!(last);
        }
        match ServiceParams::parse(ServiceName::RemotionRenderV1, &params).unwrap() {
            ServiceParams::RemotionRender(params) => params,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn frames_are_those_asked_for_within_the_composition() {
        let film = composition((320, 180), 25.0, 20);
        let all = frames_of(&film, &wish(None, None), 60).unwrap();
        assert_eq!((all.first, all.last, all.number()), (0, 19, 20));
        let some = frames_of(&film, &wish(Some(3), Some(3)), 60).unwrap();
        assert_eq!((some.first, some.last, some.number()), (3, 3, 1));
        for (wish, field) in [
            (wish(Some(20), None), "first_frame is 20"),
            (wish(None, Some(20)), "last_frame is 20"),
        ] {
            let failure = frames_of(&film, &wish, 60).unwrap_err();
            assert_eq!(failure.code(), Some(FailureCode::InputInvalid));
            assert!(failure.to_string().contains(field), "{failure}");
        }
    }

    #[test]
    fn a_composition_that_is_too_large_too_long_or_empty_is_refused_before_it_is_drawn() {
        for (film, why) in [
            (composition((4098, 100), 25.0, 20), "4098x100"),
            (composition((100, 2162), 25.0, 20), "100x2162"),
            (composition((0, 100), 25.0, 20), "0x100"),
            (composition((100, 100), 0.0, 20), "frame rate"),
            (composition((100, 100), 25.0, 0), "has 0 frames"),
            (composition((100, 100), 25.0, 1600), "max_output_seconds"),
        ] {
            let failure = frames_of(&film, &wish(None, None), 60).unwrap_err();
            assert_eq!(failure.code(), Some(FailureCode::InputInvalid));
            assert!(failure.to_string().contains(why), "{failure}");
        }
        // A part of a long one may be short enough.
        let long = composition((100, 100), 25.0, 1600);
        assert!(frames_of(&long, &wish(Some(1500), None), 60).is_ok());
    }

    #[test]
    fn what_needs_a_network_is_said_to_have_none_and_digressions_are_left_out() {
        for (said, hints, left) in [
            ("title is undefined", false, "title is undefined"),
            (
                "Error: Error loading image with src: https://x.example/a.png",
                true,
                "Error loading image with src: https://x.example/a.png",
            ),
            (
                "Error loading image with src: http://localhost:4001/public/a.png",
                false,
                "Error loading image with src: public/a.png",
            ),
            ("prices: Failed to fetch", true, "prices: Failed to fetch"),
            (
                "use 4.0.529\nWhen using the Remotion Lambda:\nsee https://remotion.dev",
                false,
                "use 4.0.529\n",
            ),
        ] {
            let (means, said) = told(said);
            assert_eq!(said, left);
            assert_eq!(means.contains("no network"), hints, "{said}: {means}");
        }
    }

    #[test]
    fn who_is_to_blame_follows_from_what_was_said() {
        for (place, ours, message, code) in [
            (
                Place::Opening,
                false,
                "Failed to launch the browser process!",
                FailureCode::DeviceFault,
            ),
            (
                Place::Bundle,
                true,
                "ENOSPC: no space left on device, write",
                FailureCode::DeviceFault,
            ),
            (
                Place::Bundle,
                false,
                "ENOSPC: no space left on device, write",
                FailureCode::InputInvalid,
            ),
            (
                Place::Bundle,
                false,
                "Protocol error (Page.captureScreenshot): Target closed.",
                FailureCode::RunnerFailed,
            ),
            (
                Place::Bundle,
                false,
                "A delayRender() \"fonts\" was called but not cleared after 28000ms.",
                FailureCode::Stalled,
            ),
            (
                Place::Bundle,
                false,
                "title is undefined",
                FailureCode::InputInvalid,
            ),
        ] {
            let message = message.to_owned();
            let failed = Failed {
                place,
                message,
                ours,
            };
            assert_eq!(blame(&failed), code, "{failed:?}");
        }
    }
}
