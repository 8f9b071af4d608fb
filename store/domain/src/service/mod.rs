//! The closed list of services that a Mac may run.
//!
//! A buyer names a service and gives parameters; nobody ever sends a command line. Each service is
//! one typed definition, in a file of its own, which is its schema, its validation and its
//! documentation at once. A new one is such a file, and an arm in the matches of this one.

pub mod assemble;
pub mod audio_mix;
mod capability;
pub mod caption_burn;
mod inputs;
mod noop;
mod parts;
pub(crate) mod read;
mod remotion;
pub mod stitch_export;
pub mod thumbnail;
pub mod transcode;

use std::collections::BTreeSet;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::field::FieldError;
pub use assemble::AssembleParams;
pub use audio_mix::AudioMixParams;
pub use capability::Capability;
pub use caption_burn::CaptionBurnParams;
pub use inputs::{InputCount, InputForm, InputSlot};
pub use noop::NoopParams;
pub use parts::Part;
pub use remotion::{Composition, Compositions, RemotionInspectParams, RemotionRenderParams};
pub use stitch_export::StitchExportParams;
pub use thumbnail::ThumbnailParams;
pub use transcode::TranscodeParams;

/// A service by its public name and version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ServiceName {
    /// Re-encode one video: codec, size, frame rate, quality.
    #[serde(rename = "transcode.v1")]
    TranscodeV1,
    /// Put clips together, one after the other.
    #[serde(rename = "stitch_export.v1")]
    StitchExportV1,
    /// Draw captions into the picture.
    #[serde(rename = "caption_burn.v1")]
    CaptionBurnV1,
    /// Put a picture, its sound and its captions into one file.
    #[serde(rename = "assemble.v1")]
    AssembleV1,
    /// Mix sound tracks into one.
    #[serde(rename = "audio_mix.v1")]
    AudioMixV1,
    /// Take one picture out of a video.
    #[serde(rename = "thumbnail.v1")]
    ThumbnailV1,
    /// List the compositions of a Remotion bundle.
    #[serde(rename = "remotion.inspect.v1")]
    RemotionInspectV1,
    /// Render a composition of a Remotion bundle.
    #[serde(rename = "remotion.render.v1")]
    RemotionRenderV1,
    /// Does nothing, to measure everything around the work. Offered only where a configuration
    /// says so.
    #[serde(rename = "noop.v1")]
    NoopV1,
}

/// Parameters of one job, typed and checked.
#[derive(Debug, Clone, PartialEq)]
pub enum ServiceParams {
    /// For [`ServiceName::TranscodeV1`].
    Transcode(TranscodeParams),
    /// For [`ServiceName::StitchExportV1`].
    StitchExport(StitchExportParams),
    /// For [`ServiceName::CaptionBurnV1`].
    CaptionBurn(CaptionBurnParams),
    /// For [`ServiceName::AssembleV1`].
    Assemble(AssembleParams),
    /// For [`ServiceName::AudioMixV1`].
    AudioMix(AudioMixParams),
    /// For [`ServiceName::ThumbnailV1`].
    Thumbnail(ThumbnailParams),
    /// For [`ServiceName::RemotionInspectV1`].
    RemotionInspect(RemotionInspectParams),
    /// For [`ServiceName::RemotionRenderV1`].
    RemotionRender(RemotionRenderParams),
    /// For [`ServiceName::NoopV1`].
    Noop(NoopParams),
}

/// What every service says about itself.
trait Definition: DeserializeOwned + Serialize + JsonSchema {
    /// What it does, in one sentence for the catalogue.
    const SUMMARY: &'static str;
    /// The inputs that a job of it takes.
    const INPUTS: &'static [InputSlot];

    /// Whether the parameters keep the rules that their types cannot say. The field in the error is
    /// seen from the parameters.
    fn check(&self) -> Result<(), FieldError> {
        Ok(())
    }

    /// Whether the parameters fit a job with exactly these inputs, all of which the service knows.
    /// The field in the error is seen from the order.
    fn check_inputs(&self, _names: &[&str]) -> Result<(), FieldError> {
        Ok(())
    }

    /// What a device must have proven beside the service itself.
    fn requirements(&self) -> BTreeSet<Capability> {
        BTreeSet::new()
    }

    /// File extension of the output.
    fn output_extension(&self) -> &'static str;
}

/// The expression, with the parameters' type of the service named `$name` as `$params`.
macro_rules! of_service {
    ($name:expr, $params:ident => $expression:expr) => {
        match $name {
            ServiceName::TranscodeV1 => of_service!(@ TranscodeParams, $params => $expression),
            ServiceName::StitchExportV1 => of_service!(@ StitchExportParams, $params => $expression),
            ServiceName::CaptionBurnV1 => of_service!(@ CaptionBurnParams, $params => $expression),
            ServiceName::AssembleV1 => of_service!(@ AssembleParams, $params => $expression),
            ServiceName::AudioMixV1 => of_service!(@ AudioMixParams, $params => $expression),
            ServiceName::ThumbnailV1 => of_service!(@ ThumbnailParams, $params => $expression),
            ServiceName::RemotionInspectV1 => of_service!(@ RemotionInspectParams, $params => $expression),
            ServiceName::RemotionRenderV1 => of_service!(@ RemotionRenderParams, $params => $expression),
            ServiceName::NoopV1 => of_service!(@ NoopParams, $params => $expression),
        }
    };
    (@ $type:ident, $params:ident => $expression:expr) => {{
        type $params = $type;
        $expression
    }};
}

/// The expression, with the parameters themselves, whatever their type, as `$inner`.
macro_rules! of_params {
    ($params:expr, $inner:ident => $expression:expr) => {
        match $params {
            ServiceParams::Transcode($inner) => $expression,
            ServiceParams::StitchExport($inner) => $expression,
            ServiceParams::CaptionBurn($inner) => $expression,
            ServiceParams::Assemble($inner) => $expression,
            ServiceParams::AudioMix($inner) => $expression,
            ServiceParams::Thumbnail($inner) => $expression,
            ServiceParams::RemotionInspect($inner) => $expression,
            ServiceParams::RemotionRender($inner) => $expression,
            ServiceParams::Noop($inner) => $expression,
        }
    };
}

impl ServiceName {
    /// Every service there is.
    pub const ALL: [Self; 9] = [
        Self::TranscodeV1,
        Self::StitchExportV1,
        Self::CaptionBurnV1,
        Self::AssembleV1,
        Self::AudioMixV1,
        Self::ThumbnailV1,
        Self::RemotionInspectV1,
        Self::RemotionRenderV1,
        Self::NoopV1,
    ];

    /// The public name, version included.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TranscodeV1 => "transcode.v1",
            Self::StitchExportV1 => "stitch_export.v1",
            Self::CaptionBurnV1 => "caption_burn.v1",
            Self::AssembleV1 => "assemble.v1",
            Self::AudioMixV1 => "audio_mix.v1",
            Self::ThumbnailV1 => "thumbnail.v1",
            Self::RemotionInspectV1 => "remotion.inspect.v1",
            Self::RemotionRenderV1 => "remotion.render.v1",
            Self::NoopV1 => "noop.v1",
        }
    }

    /// Finds a service by its public name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|service| service.as_str() == name)
    }

    /// What the service does, in one sentence for the catalogue.
    pub fn summary(self) -> &'static str {
        of_service!(self, Params => Params::SUMMARY)
    }

    /// JSON Schema of the service's parameters, complete in itself.
    pub fn params_schema(self) -> Schema {
        let generator = SchemaGenerator::default();
        of_service!(self, Params => generator.into_root_schema_for::<Params>())
    }

    /// The same as a part of a larger document, whose definitions `generator` collects.
    pub fn params_schema_in(self, generator: &mut SchemaGenerator) -> Schema {
        of_service!(self, Params => generator.subschema_for::<Params>())
    }

    /// The inputs that a job of this service takes.
    pub fn inputs(self) -> &'static [InputSlot] {
        of_service!(self, Params => Params::INPUTS)
    }

    /// Whether it is for tests of the system, not for buyers.
    pub fn is_for_tests(self) -> bool {
        self == Self::NoopV1
    }
}

impl ServiceParams {
    /// Reads and checks the parameters of `service`. Unknown fields are refused.
    ///
    /// The field in the error is relative to the parameters (`height`, not `params.height`).
    pub fn parse(service: ServiceName, params: &Value) -> Result<Self, FieldError> {
        match service {
            ServiceName::TranscodeV1 => read(params).map(Self::Transcode),
            ServiceName::StitchExportV1 => read(params).map(Self::StitchExport),
            ServiceName::CaptionBurnV1 => read(params).map(Self::CaptionBurn),
            ServiceName::AssembleV1 => read(params).map(Self::Assemble),
            ServiceName::AudioMixV1 => read(params).map(Self::AudioMix),
            ServiceName::ThumbnailV1 => read(params).map(Self::Thumbnail),
            ServiceName::RemotionInspectV1 => read(params).map(Self::RemotionInspect),
            ServiceName::RemotionRenderV1 => read(params).map(Self::RemotionRender),
            ServiceName::NoopV1 => read(params).map(Self::Noop),
        }
    }

    /// The service that they are for.
    pub fn service(&self) -> ServiceName {
        match self {
            Self::Transcode(_) => ServiceName::TranscodeV1,
            Self::StitchExport(_) => ServiceName::StitchExportV1,
            Self::CaptionBurn(_) => ServiceName::CaptionBurnV1,
            Self::Assemble(_) => ServiceName::AssembleV1,
            Self::AudioMix(_) => ServiceName::AudioMixV1,
            Self::Thumbnail(_) => ServiceName::ThumbnailV1,
            Self::RemotionInspect(_) => ServiceName::RemotionInspectV1,
            Self::RemotionRender(_) => ServiceName::RemotionRenderV1,
            Self::Noop(_) => ServiceName::NoopV1,
        }
    }

    /// Whether a job with these parameters may have exactly the inputs of these names.
    ///
    /// The field in the error is seen from the order (`inputs.source`, `params.clips[0].input`).
    pub fn check_inputs(&self, names: &[&str]) -> Result<(), FieldError> {
        self.service().check_input_names(names)?;
        of_params!(self, params => params.check_inputs(names))
    }

    /// What a device must have proven to be offered this job, as capability words.
    pub fn requirements(&self) -> BTreeSet<Capability> {
        let mut words = of_params!(self, params => params.requirements());
        words.insert(Capability::new(self.service().as_str()));
        words
    }

    /// File extension of the output.
    pub fn output_extension(&self) -> &'static str {
        of_params!(self, params => params.output_extension())
    }
}

fn read<P: Definition>(params: &Value) -> Result<P, FieldError> {
    let params: P = read::typed(params)?;
    params.check()?;
    Ok(params)
}
