//! `remotion.inspect.v1` and `remotion.render.v1`: films that are programmed as web pages.
//!
//! What runs is the buyer's own code, but only inside a browser without network, and never as a
//! command line: the parameters name one of the bundle's compositions and give it its properties.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Capability, Definition, InputSlot, TranscodeParams};
use crate::field::FieldError;

/// The input that both services take.
const BUNDLE: InputSlot = InputSlot::bundle(
    "bundle",
    "the manifest of a Remotion bundle, by url and sha256",
);
/// The most bytes of properties, as JSON.
const MAX_PROPS_BYTES: usize = 64 * 1024;
/// The longest name of a composition, in characters.
const MAX_ID_CHARS: usize = 100;
/// The most frames of one film: a day at sixty frames a second.
const MAX_FRAMES: u32 = 86_400 * 60;

/// What the buyer asks of `remotion.inspect.v1`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemotionInspectParams {
    /// Input properties, which size and length of a composition may depend on: an object of at most
    /// 64 KiB.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub props: Map<String, Value>,
}

/// What the buyer asks of `remotion.render.v1`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemotionRenderParams {
    /// Id of the composition, 1 to 100 characters; remotion.inspect.v1 lists what a bundle has.
    #[schemars(length(min = 1, max = 100))]
    pub composition: String,
    /// Input properties of the composition: an object of at most 64 KiB.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub props: Map<String, Value>,
    /// The first frame that is rendered, counted from 0. Left out: the composition's first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 5_184_000))]
    pub first_frame: Option<u32>,
    /// The last frame that is rendered, not before the first. Left out: the composition's last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 5_184_000))]
    pub last_frame: Option<u32>,
    /// How the film is written, as in transcode.v1. Without width and height it has the size of the
    /// composition (made even), without fps its frame rate.
    pub encode: TranscodeParams,
}

/// What `remotion.inspect.v1` answers with: the output, as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compositions {
    /// Version of Remotion's renderer on the device; a bundle should be of the same one.
    pub renderer_version: String,
    /// The compositions in the bundle's order, for the properties of the order.
    pub compositions: Vec<Composition>,
}

/// A film that a bundle can show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Composition {
    /// Its name in the bundle.
    pub id: String,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Frames per second.
    pub fps: f64,
    /// Its length in frames.
    pub duration_in_frames: u32,
    /// The properties that it has if the order gives none.
    #[serde(default)]
    pub default_props: Map<String, Value>,
}

impl Composition {
    /// How long so many of its frames last, in seconds.
    pub fn seconds_of(&self, frames: u32) -> f64 {
        f64::from(frames) / self.fps
    }
}

impl Definition for RemotionInspectParams {
    const SUMMARY: &'static str = "List what compositions a Remotion bundle has, as JSON.";
    const INPUTS: &'static [InputSlot] = &[BUNDLE];

    fn check(&self) -> Result<(), FieldError> {
        check_props(&self.props)
    }

    fn output_extension(&self) -> &'static str {
        "json"
    }
}

impl Definition for RemotionRenderParams {
    const SUMMARY: &'static str = "Render a composition of a Remotion bundle as a film.";
    const INPUTS: &'static [InputSlot] = &[BUNDLE];

    fn check(&self) -> Result<(), FieldError> {
        self.encode
            .check()
            .map_err(|error| error.within("encode"))?;
        check_props(&self.props)?;
        let chars = self.composition.chars().count();
        if !(1..=MAX_ID_CHARS).contains(&chars) {
            let problem = format!("must have 1 to {MAX_ID_CHARS} characters, has {chars}");
            return Err(FieldError::new("composition", problem));
        }
        for (field, frame) in [
            ("first_frame", self.first_frame),
            ("last_frame", self.last_frame),
        ] {
            if let Some(frame) = frame.filter(|&frame| frame > MAX_FRAMES) {
                let problem = format!("must be at most {MAX_FRAMES}, got {frame}");
                return Err(FieldError::new(field, problem));
            }
        }
        match (self.first_frame, self.last_frame) {
            (Some(first), Some(last)) if last < first => Err(FieldError::new(
                "last_frame",
                format!("must not be before first_frame ({first}), got {last}"),
            )),
            _ => Ok(()),
        }
    }

    fn requirements(&self) -> BTreeSet<Capability> {
        self.encode.requirements()
    }

    fn output_extension(&self) -> &'static str {
        self.encode.output_extension()
    }
}

fn check_props(props: &Map<String, Value>) -> Result<(), FieldError> {
    // A map of JSON values is always written.
    let bytes = serde_json::to_string(props).map_or(usize::MAX, |text| text.len());
    if bytes <= MAX_PROPS_BYTES {
        return Ok(());
    }
    let problem = format!("must have at most {MAX_PROPS_BYTES} bytes as JSON, has {bytes}");
    Err(FieldError::new("props", problem))
}
