//! The closed list of services that a Mac may run.
//!
//! A buyer names a service and gives parameters; nobody ever sends a command line. Each service is
//! one typed definition which is its schema, its validation and its documentation at once.

mod inputs;
pub mod transcode;

use std::collections::BTreeSet;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::field::FieldError;
pub use inputs::{InputCount, InputSlot};
pub use transcode::TranscodeParams;

/// A service by its public name and version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ServiceName {
    /// Re-encode one video: codec, size, frame rate, quality.
    #[serde(rename = "transcode.v1")]
    TranscodeV1,
    /// Does nothing, to measure everything around the work. Offered only where a configuration
    /// says so.
    #[serde(rename = "noop.v1")]
    NoopV1,
}

impl ServiceName {
    /// Every service there is.
    pub const ALL: [Self; 2] = [Self::TranscodeV1, Self::NoopV1];

    /// The public name, version included.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TranscodeV1 => "transcode.v1",
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
        match self {
            Self::TranscodeV1 => "Re-encode one video to another codec, size, rate or quality.",
            Self::NoopV1 => "Take any bytes as the output; for load tests.",
        }
    }

    /// JSON Schema of the service's parameters, complete in itself.
    pub fn params_schema(self) -> Schema {
        let generator = SchemaGenerator::default();
        match self {
            Self::TranscodeV1 => generator.into_root_schema_for::<TranscodeParams>(),
            Self::NoopV1 => generator.into_root_schema_for::<NoopParams>(),
        }
    }

    /// The same as a part of a larger document, whose definitions `generator` collects.
    pub fn params_schema_in(self, generator: &mut SchemaGenerator) -> Schema {
        match self {
            Self::TranscodeV1 => generator.subschema_for::<TranscodeParams>(),
            Self::NoopV1 => generator.subschema_for::<NoopParams>(),
        }
    }

    /// The inputs that a job of this service takes.
    pub fn inputs(self) -> &'static [InputSlot] {
        match self {
            Self::TranscodeV1 => transcode::INPUTS,
            Self::NoopV1 => &[],
        }
    }

    /// Whether it is for tests of the system, not for buyers.
    pub fn is_for_tests(self) -> bool {
        match self {
            Self::TranscodeV1 => false,
            Self::NoopV1 => true,
        }
    }
}

/// Parameters of one job, typed and checked.
#[derive(Debug, Clone, PartialEq)]
pub enum ServiceParams {
    /// For [`ServiceName::TranscodeV1`].
    Transcode(TranscodeParams),
    /// For [`ServiceName::NoopV1`].
    Noop(NoopParams),
}

/// Parameters of `noop.v1`: none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoopParams {}

impl ServiceParams {
    /// Reads and checks the parameters of `service`. Unknown fields are refused.
    ///
    /// The field in the error is relative to the parameters (`height`, not `params.height`).
    pub fn parse(service: ServiceName, params: &Value) -> Result<Self, FieldError> {
        match service {
            ServiceName::TranscodeV1 => TranscodeParams::parse(params).map(Self::Transcode),
            ServiceName::NoopV1 => read_params(params).map(Self::Noop),
        }
    }

    /// The service that they are for.
    pub fn service(&self) -> ServiceName {
        match self {
            Self::Transcode(_) => ServiceName::TranscodeV1,
            Self::Noop(_) => ServiceName::NoopV1,
        }
    }

    /// Whether a job with these parameters may have exactly the inputs of these names.
    ///
    /// The field in the error is seen from the order (`inputs.source`, `params.clips[0].input`).
    pub fn check_inputs(&self, names: &[&str]) -> Result<(), FieldError> {
        self.service().check_input_names(names)
    }

    /// What a device must have proven to be offered this job, as capability words.
    pub fn requirements(&self) -> BTreeSet<Capability> {
        match self {
            Self::Transcode(params) => params.requirements(),
            Self::Noop(_) => BTreeSet::from([Capability::new(ServiceName::NoopV1.as_str())]),
        }
    }

    /// File extension of the output.
    pub fn output_extension(&self) -> &'static str {
        match self {
            Self::Transcode(params) => params.codec.extension(),
            Self::Noop(_) => "bin",
        }
    }
}

/// One thing that a device has shown it can do, such as `transcode.v1` or `videotoolbox.h264`.
///
/// The agent states a capability only after it ran it once (an encoder that lists itself may still
/// refuse to open).
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Capability(#[schemars(regex(pattern = "^[!-~]{1,100}$"))] pub String);

impl Capability {
    /// A capability by its word.
    pub fn new(word: impl Into<String>) -> Self {
        Self(word.into())
    }

    /// Whether it is one short word of printable ASCII, as all are that a job can ask for.
    pub fn is_readable(&self) -> bool {
        (1..=100).contains(&self.0.len()) && self.0.bytes().all(|byte| byte.is_ascii_graphic())
    }
}

/// Reads typed parameters out of JSON, naming the field when it does not fit.
fn read_params<T: serde::de::DeserializeOwned>(params: &Value) -> Result<T, FieldError> {
    T::deserialize(params).map_err(|error| {
        let text = error.to_string();
        // serde names the field between backticks: `unknown field `heigth`, expected …`.
        let field = text
            .split('`')
            .nth(1)
            .filter(|_| text.contains("field"))
            .unwrap_or("");
        FieldError::new(field, text.clone())
    })
}
