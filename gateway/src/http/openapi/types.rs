//! Types of answers that are not ours.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use time::OffsetDateTime;

/// A point in time, written as RFC 3339.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(transparent)]
pub struct Time(#[serde(with = "time::serde::rfc3339")] pub OffsetDateTime);

impl JsonSchema for Time {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}
