//! `noop.v1`: no work at all.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Definition, InputSlot};

/// Parameters of `noop.v1`: none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoopParams {}

impl Definition for NoopParams {
    const SUMMARY: &'static str = "Take any bytes as the output; for load tests.";
    const INPUTS: &'static [InputSlot] = &[];

    fn output_extension(&self) -> &'static str {
        "bin"
    }
}
