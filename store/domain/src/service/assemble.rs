//! `assemble.v1`: a picture, its sound and its captions, in one file.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Capability, Definition, InputSlot};
use crate::field::FieldError;

/// What the buyer asks of `assemble.v1`: an mp4 with the picture of `video`, the sound of `audio`
/// and the captions of `captions` as a track that can be switched on.
///
/// H.264 and H.265 pictures that every player shows alike are taken over as they are; others are
/// encoded to H.264. Without `audio` the sound of `video` is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AssembleParams {
    /// How long the film is.
    #[serde(default)]
    pub length: Length,
    /// Language of the captions, three letters of ISO 639-2 such as eng or deu. Left out: not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[a-z]{3}$"))]
    pub caption_language: Option<String>,
}

/// How long a film is whose picture and sound are not equally long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// As long as the picture: longer sound is cut, after shorter sound there is silence.
    #[default]
    Video,
    /// As long as the shorter of both.
    Shortest,
}

impl Definition for AssembleParams {
    const SUMMARY: &'static str = "Put a video, other sound and captions together into one mp4.";
    const INPUTS: &'static [InputSlot] = &[
        InputSlot::one("video", "the video whose picture is shown"),
        InputSlot::optional("audio", "sound, or a video whose sound is taken"),
        InputSlot::optional("captions", "captions as srt or vtt, in UTF-8"),
    ];

    fn check(&self) -> Result<(), FieldError> {
        let readable = |language: &String| {
            language.len() == 3 && language.bytes().all(|byte| byte.is_ascii_lowercase())
        };
        if self.caption_language.as_ref().is_some_and(|l| !readable(l)) {
            let problem = "must be three small letters of ISO 639-2, such as eng";
            return Err(FieldError::new("caption_language", problem));
        }
        Ok(())
    }

    fn check_inputs(&self, names: &[&str]) -> Result<(), FieldError> {
        let has = |name| names.contains(&name);
        if !has("audio") && !has("captions") {
            let problem = "is missing: assemble.v1 needs audio, captions or both beside the video";
            return Err(FieldError::new("inputs.audio", problem));
        }
        if self.caption_language.is_some() && !has("captions") {
            let problem = "there are no captions: give the input captions, or leave this out";
            return Err(FieldError::new("params.caption_language", problem));
        }
        Ok(())
    }

    fn requirements(&self) -> BTreeSet<Capability> {
        // For pictures that cannot be taken over.
        BTreeSet::from([Capability::new("encode.h264")])
    }

    fn output_extension(&self) -> &'static str {
        "mp4"
    }
}
