//! What an order looks like, for the description of the API. [`super::order`] reads it, and has the
//! better words for what is wrong; a test compares the two.

use std::borrow::Cow;
use std::collections::BTreeMap;

use fencepost_domain::ids::{EndpointId, UploadId};
use fencepost_domain::service::{InputCount, InputForm, InputSlot, ServiceName};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// A job as a buyer orders it.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct JobOrder(Shape);

/// The fields of an order, whatever its service.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Shape {
    /// The service, such as `transcode.v1`.
    service: &'static str,
    /// Its parameters.
    params: Option<Map<String, Value>>,
    /// Its inputs by name.
    inputs: Option<BTreeMap<String, InputOrder>>,
    /// How many attempts may be charged before the job fails; left out: 3, unless the operator chose
    /// otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10))]
    max_attempts: Option<u8>,
    /// It is not started again after so many seconds; left out: a day.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    deadline_seconds: Option<u32>,
    /// A head start in the queue (none, ten minutes, half an hour), so that nothing waits for ever;
    /// left out: `normal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["low", "normal", "high", null]))]
    priority: Option<&'static str>,
    /// What it must not exceed.
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<LimitsOrder>,
    /// Where it may run; left out: anywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    placement: Option<PlacementOrder>,
    /// A webhook endpoint that is told of this job, whatever it is subscribed to.
    #[serde(skip_serializing_if = "Option::is_none")]
    webhook: Option<WebhookOrder>,
    /// Words of your own, at most 50 keys and 16 KiB of JSON. We keep them and show them, and jobs can be
    /// listed by those that are texts, numbers or flags.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 50))]
    metadata: Option<Map<String, Value>>,
}

/// A file to work on: an upload, or what is at an address of yours.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    {
        "title": "upload",
        "required": ["upload_id"],
        "properties": {
            "upload_id": { "type": "string" },
            "url": { "type": "null" },
            "sha256": { "type": "null" },
            "size_bytes": { "type": "null" },
        },
    },
    {
        "title": "url",
        "required": ["url"],
        "properties": { "url": { "type": "string" }, "upload_id": { "type": "null" } },
    },
]))]
struct InputOrder {
    /// An upload of your org whose bytes have arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    upload_id: Option<UploadId>,
    /// An address in the Internet, from where the Mac that does the job fetches the file: https, without
    /// user, password or fragment. It is shown to nobody else, and forgotten when the job ends.
    ///
    /// It must answer a GET with 200 and the file as it is: redirects are not followed, and a
    /// `Content-Encoding` is refused. The file may have as many bytes as the operators allow, 20 GiB unless
    /// they chose otherwise. Every attempt fetches it anew, so a signature must last as long as
    /// `deadline_seconds`. With a strong `ETag` and ranges (`Range`, `If-Range`) a download that was cut goes
    /// on where it was; without, it starts over.
    ///
    /// A redirect, a status like 401, 403, 404 or 410, packed bytes, a file that is too large or has another
    /// size or SHA-256 than the order says, and an address that leads within end the job as
    /// `input_invalid`. 408, 425, 429, 5xx, a name that is not found, a host that does not answer, sends
    /// less than 256 KiB in a minute, or cuts the line are tried again; after four tries in a row, none
    /// of which got 1 MiB further than any before, the attempt has failed (`download_failed`), and the
    /// next one begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4_000), regex(pattern = r"^https?://[^\s#]+$"))]
    url: Option<String>,
    /// What the SHA-256 of the file at the address must be.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    sha256: Option<String>,
    /// How many bytes the file at the address must have; worth saying, so that it goes to a Mac with room
    /// for it. Of a file without it, a Mac takes only what a share of its disk allows, and fails as
    /// `download_failed` beyond.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    size_bytes: Option<u64>,
}

/// A bundle to work on: many files, which a manifest lists that is at an address of yours.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BundleOrder {
    /// The manifest's address: what is said of the addresses of inputs holds for it and for each file that
    /// the manifest lists.
    #[schemars(length(max = 4_000), regex(pattern = r"^https?://[^\s#]+$"))]
    url: String,
    /// The manifest's SHA-256, so that the order says every byte of the bundle.
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    sha256: String,
    /// How many bytes the manifest must have, at most 1 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_048_576))]
    size_bytes: Option<u64>,
}

/// Who is told of a job.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WebhookOrder {
    /// A webhook endpoint of your org.
    endpoint_id: EndpointId,
}

/// What a job must not exceed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LimitsOrder {
    /// The longest output, which decides what is held; left out: 600.
    #[schemars(range(min = 1, max = 86_400))]
    max_output_seconds: Option<u32>,
}

/// Where a job may run.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PlacementOrder {
    /// On any device, or on your org's own.
    #[schemars(extend("enum" = ["shared", "own"]))]
    kind: &'static str,
    /// Words that the device must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10), inner(regex(pattern = "^[a-z0-9._-]{1,63}$")))]
    labels: Option<Vec<String>>,
}

impl JobOrder {
    /// An order that is right, of a file that was sent.
    pub(super) fn example() -> Self {
        let upload = UploadId(Uuid::from_u128(0x019a_df00_0000_7000_8000_0000_0000_0001));
        Self::of(InputOrder {
            upload_id: Some(upload),
            ..InputOrder::default()
        })
    }

    /// The same of a file that the Mac fetches.
    pub(super) fn example_elsewhere() -> Self {
        Self::of(InputOrder {
            url: Some("https://files.example/film.mp4?signature=0123456789".to_owned()),
            sha256: Some("0123456789abcdef".repeat(4)),
            size_bytes: Some(123_456_789),
            ..InputOrder::default()
        })
    }

    /// An order of what takes a bundle.
    pub(super) fn example_of_a_bundle() -> Self {
        let bundle = InputOrder {
            url: Some("https://files.example/site/fencepost.json".to_owned()),
            sha256: Some("0123456789abcdef".repeat(4)),
            ..InputOrder::default()
        };
        Self(Shape {
            service: ServiceName::RemotionInspectV1.as_str(),
            params: Some(Map::new()),
            inputs: Some(BTreeMap::from([("bundle".to_owned(), bundle)])),
            ..Shape::default()
        })
    }

    fn of(source: InputOrder) -> Self {
        let object = |value: Value| value.as_object().cloned();
        Self(Shape {
            service: ServiceName::TranscodeV1.as_str(),
            params: object(json!({ "codec": "h264", "height": 720 })),
            inputs: Some(BTreeMap::from([("source".to_owned(), source)])),
            limits: Some(LimitsOrder {
                max_output_seconds: Some(600),
            }),
            placement: Some(PlacementOrder {
                kind: "shared",
                labels: None,
            }),
            priority: Some("normal"),
            metadata: object(json!({ "order": "42" })),
            ..Shape::default()
        })
    }
}

impl JsonSchema for JobOrder {
    fn schema_name() -> Cow<'static, str> {
        "JobOrder".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let services = ServiceName::ALL
            .into_iter()
            .filter(|service| !service.is_for_tests());
        let kinds: Vec<Schema> = services
            .map(|service| of_service(service, generator))
            .collect();
        let mut schema = Shape::json_schema(generator);
        schema.insert(
            "description".to_owned(),
            "A job as a buyer orders it.".into(),
        );
        schema.insert("oneOf".to_owned(), json!(kinds));
        schema
    }
}

/// What an order of this service has to say, and what it may.
fn of_service(service: ServiceName, generator: &mut SchemaGenerator) -> Schema {
    let inputs = inputs_of(service, generator);
    let needs_params = service.params_schema().get("required").is_some();
    let mut required = vec!["service"];
    required.extend(needs_params.then_some("params"));
    required.extend((!service.inputs().is_empty()).then_some("inputs"));
    json_schema!({
        "title": service.as_str(),
        "description": service.summary(),
        "properties": {
            "service": { "const": service.as_str() },
            "params": service.params_schema_in(generator),
            "inputs": inputs,
        },
        "required": required,
    })
}

/// The inputs that it takes: those of fixed names, and families whose names end with a number.
fn inputs_of(service: ServiceName, generator: &mut SchemaGenerator) -> Schema {
    let mut input_of = |slot: &InputSlot| match slot.form {
        InputForm::File => generator.subschema_for::<InputOrder>(),
        InputForm::Bundle => generator.subschema_for::<BundleOrder>(),
    };
    let (mut fixed, mut families, mut required) = (Map::new(), Map::new(), Vec::new());
    for slot in service.inputs() {
        let input = input_of(slot);
        match slot.count {
            InputCount::One | InputCount::Optional => {
                fixed.insert(slot.name.to_owned(), json!(input));
                required.extend((slot.count == InputCount::One).then_some(slot.name));
            }
            InputCount::Family(most) => {
                let numbers: Vec<_> = (1..=most).map(|number| number.to_string()).collect();
                let pattern = format!("^{}({})$", slot.name, numbers.join("|"));
                families.insert(pattern, json!(input));
            }
        }
    }
    let fewest: u8 = service.inputs().iter().map(|slot| slot.fewest()).sum();
    let mut schema = json_schema!({
        "type": "object",
        "properties": fixed,
        "required": required,
        "minProperties": fewest,
        "additionalProperties": false,
    });
    if !families.is_empty() {
        schema.insert("patternProperties".to_owned(), Value::Object(families));
    }
    schema
}
