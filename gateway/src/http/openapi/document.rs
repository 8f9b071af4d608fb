//! The document, put together.

use std::collections::BTreeMap;

use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use super::operation::{Answer, Body, Operation, Tag, Who};
use super::{Parameter, parameters, problems, webhooks};
use crate::http::limit;
use crate::http::problem;
use crate::http::request_id;

const ABOUT: &str = "Fencepost runs media work on other people's Macs. Everything is JSON over HTTP; \
    amounts are integers in millionths of the currency unit, times are RFC 3339, ids are UUIDs. \
    Refusals are `application/problem+json` (RFC 9457) with a `code`, the offending `field` and \
    whether the same request may succeed later. Fields that are not described are refused in \
    requests; ignore them in answers, which may get more of them.";

/// What answers and bodies look like. A struct may look different in each: what has a default need
/// not be sent, but is always answered.
struct Schemas {
    answers: SchemaGenerator,
    bodies: SchemaGenerator,
}

impl Schemas {
    fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        Self {
            answers: settings.clone().for_serialize().into_generator(),
            bodies: settings.for_deserialize().into_generator(),
        }
    }

    fn into_components(mut self) -> Map<String, Value> {
        let mut all = self.answers.take_definitions(true);
        for (name, schema) in self.bodies.take_definitions(true) {
            if let Some(other) = all.get(&name) {
                assert_eq!(other, &schema, "two schemas are called {name}");
            }
            all.insert(name, schema);
        }
        all
    }
}

/// The whole description. It says the same on every gateway of a version, whatever its configuration.
pub fn document() -> Value {
    let mut schemas = Schemas::new();
    schemas.answers.subschema_for::<problem::Body<'static>>();
    let mut refusals = Map::new();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for operation in crate::http::operations() {
        let method = operation.method.as_str().to_lowercase();
        let described = describe(&operation, &mut schemas, &mut refusals);
        paths
            .entry(operation.path)
            .or_default()
            .insert(method, described);
    }
    let webhooks = webhooks::describe(&mut schemas.answers);
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Fencepost",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/", "description": "This gateway." }],
        "tags": Tag::ALL.map(|tag| json!({ "name": tag.name(), "description": tag.about() })),
        "paths": paths,
        "webhooks": webhooks,
        "components": {
            "securitySchemes": Who::schemes(),
            "headers": parameters::components(),
            "responses": refusals,
            "schemas": schemas.into_components(),
        },
    });
    document.sort_all_objects();
    document
}

fn describe(
    operation: &Operation,
    schemas: &mut Schemas,
    refusals: &mut Map<String, Value>,
) -> Value {
    let parameters = operation.parameters.iter().map(Parameter::describe);
    let mut responses: BTreeMap<String, Value> = operation
        .answers
        .iter()
        .map(|answer| {
            let described = describe_answer(answer, operation.who, schemas);
            (answer.status.to_string(), described)
        })
        .collect();
    for (status, codes) in &operation.problems {
        let name = problems::name(*status, codes);
        let reference = json!({ "$ref": format!("#/components/responses/{name}") });
        responses.insert(status.to_string(), reference);
        refusals.insert(name, problems::describe(*status, codes));
    }
    let mut described = json!({
        "operationId": operation.id,
        "tags": [operation.tag.name()],
        "summary": operation.summary,
        "description": operation.description,
        "security": operation.who.requirement(),
        "parameters": parameters.collect::<Vec<_>>(),
        "responses": responses,
    });
    if let Some(body) = &operation.body {
        described["requestBody"] = describe_body(body, schemas);
    }
    described
}

fn describe_body(body: &Body, schemas: &mut Schemas) -> Value {
    let mut content = json!({});
    if let Some(schema) = body.schema {
        content["schema"] = schema(&mut schemas.bodies).to_value();
    }
    match body.examples.as_slice() {
        [] => {}
        [(_, example)] => content["example"] = example.clone(),
        examples => {
            for (name, example) in examples {
                content["examples"][name] = json!({ "value": example });
            }
        }
    }
    json!({ "required": body.required, "content": { body.content_type: content } })
}

fn describe_answer(answer: &Answer, who: Who, schemas: &mut Schemas) -> Value {
    let mut headers = answer.headers.clone();
    headers.push(request_id::NAME);
    if who == Who::Buyer {
        headers.extend([limit::LIMIT, limit::REMAINING, limit::RESET]);
    }
    let mut described = json!({
        "description": answer.about,
        "headers": parameters::references(&headers),
    });
    if let Some(content_type) = answer.content_type {
        let schema = answer
            .schema
            .map(|schema| json!({ "schema": schema(&mut schemas.answers) }));
        described["content"] = json!({ content_type: schema.unwrap_or_else(|| json!({})) });
        if let Some(other) = answer.or_as {
            described["content"][other] = json!({});
        }
    }
    described
}

impl Tag {
    const ALL: [Self; 7] = [
        Self::Jobs,
        Self::Files,
        Self::Services,
        Self::Money,
        Self::Webhooks,
        Self::Provider,
        Self::About,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Jobs => "Jobs",
            Self::Files => "Files",
            Self::Services => "Services",
            Self::Money => "Money",
            Self::Webhooks => "Webhooks",
            Self::Provider => "Provider",
            Self::About => "About",
        }
    }

    fn about(self) -> &'static str {
        match self {
            Self::Jobs => "What buyers want done, and what became of it.",
            Self::Files => "Bytes on their way in and out, by signed links.",
            Self::Services => "What can be asked for, and what it costs.",
            Self::Money => "What an org has, and what is held.",
            Self::Webhooks => "Events, sent to your own servers as Standard Webhooks has it.",
            Self::Provider => "For devices: pairing, the socket, and leases outside of it.",
            Self::About => "The API itself.",
        }
    }
}

impl Who {
    fn schemes() -> Value {
        json!({
            "org_key": {
                "type": "http", "scheme": "bearer",
                "description": "An API key of an org: `fp_live_…` or `fp_test_…`, which do and cost the same.",
            },
            "device_token": {
                "type": "http", "scheme": "bearer",
                "description": "The token that a device got when it was paired: `fp_device_…`.",
            },
        })
    }

    fn requirement(self) -> Value {
        match self {
            Self::Buyer => json!([{ "org_key": [] }]),
            Self::Device => json!([{ "device_token": [] }]),
            Self::Bearer | Self::Anybody => json!([]),
        }
    }
}
