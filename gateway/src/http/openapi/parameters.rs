//! What stands in an address or in a header: said once, named by many operations.

use serde_json::{Map, Value, json};

use crate::http::jobs::headers;
use crate::http::limit;
use crate::http::request_id;

/// One parameter of a request.
pub struct Parameter {
    place: &'static str,
    name: &'static str,
    about: String,
    schema: Value,
    is_object: bool,
}

impl Parameter {
    /// A parameter in the query; it may be left out.
    pub fn query(name: &'static str, schema: Value, about: impl Into<String>) -> Self {
        Self::new("query", name, schema, about)
    }

    /// An object in the query, as in `name[key]=value`; it may be left out.
    pub fn query_object(name: &'static str, schema: Value, about: impl Into<String>) -> Self {
        Self {
            is_object: true,
            ..Self::query(name, schema, about)
        }
    }

    /// A header of the request; it may be left out.
    pub fn header(name: &'static str, schema: Value, about: impl Into<String>) -> Self {
        Self::new("header", name, schema, about)
    }

    fn new(
        place: &'static str,
        name: &'static str,
        schema: Value,
        about: impl Into<String>,
    ) -> Self {
        Self {
            place,
            name,
            about: about.into(),
            schema,
            is_object: false,
        }
    }

    /// What a path holds between braces.
    pub(super) fn of_path(path: &'static str) -> Vec<Self> {
        let uuid = || json!({ "type": "string", "format": "uuid" });
        let named = path.split('/').filter_map(|part| {
            let name = part.strip_prefix('{')?.strip_suffix('}')?;
            Some(match name {
                "link" => Self::new(
                    "path",
                    name,
                    json!({ "type": "string" }),
                    "What we signed; take the whole link as it came.",
                ),
                _ => Self::new("path", name, uuid(), format!("Id of the {name}.")),
            })
        });
        named.collect()
    }

    /// As it stands in the document.
    pub(super) fn describe(&self) -> Value {
        let mut described = json!({
            "in": self.place,
            "name": self.name,
            "description": self.about,
            "required": self.place == "path",
            "schema": self.schema,
        });
        if self.is_object {
            described["style"] = "deepObject".into();
            described["explode"] = true.into();
        }
        described
    }
}

/// Every header that an answer may have: name, schema and meaning.
fn headers_of_answers() -> Vec<(&'static str, Value, &'static str)> {
    let text = || json!({ "type": "string" });
    let number = || json!({ "type": "integer", "minimum": 0 });
    vec![
        (
            request_id::NAME,
            json!({ "type": "string", "format": "uuid" }),
            "The name of this request, for questions to the operators.",
        ),
        ("Location", text(), "Where it is."),
        (
            headers::REPLAYED,
            json!({ "const": "true" }),
            "This answers an earlier request that had the same key.",
        ),
        (
            "Preference-Applied",
            text(),
            "The preference that was followed, such as `wait=20`.",
        ),
        (
            "Retry-After",
            number(),
            "Seconds until it is worth asking again.",
        ),
        (
            limit::LIMIT,
            number(),
            "How many requests of your org may come at once, on this gateway.",
        ),
        (limit::REMAINING, number(), "How many more may come now."),
        (
            limit::RESET,
            number(),
            "Seconds until as many may come at once as ever.",
        ),
        ("WWW-Authenticate", text(), "`Bearer`."),
        ("Allow", text(), "The methods of this address."),
        ("Accept-Ranges", text(), "`bytes`."),
        (
            "Content-Disposition",
            text(),
            "`attachment`, and what to call the file.",
        ),
        ("Content-Range", text(), "Which part of the object this is."),
    ]
}

/// The headers as components of the document.
pub(super) fn components() -> Value {
    let described = headers_of_answers()
        .into_iter()
        .map(|(name, schema, about)| {
            let header = json!({ "description": about, "schema": schema });
            (name.to_owned(), header)
        });
    Value::Object(described.collect())
}

/// References to headers of an answer.
pub(super) fn references(names: &[&'static str]) -> Value {
    let known = headers_of_answers();
    let references: Map<String, Value> = names
        .iter()
        .map(|name| {
            let is_known = known.iter().any(|(known, ..)| known == name);
            assert!(is_known, "{name} is not among the headers of answers");
            let reference = json!({ "$ref": format!("#/components/headers/{name}") });
            ((*name).to_owned(), reference)
        })
        .collect();
    Value::Object(references)
}
