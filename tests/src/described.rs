//! The description of the API as tests hold answers against it: whatever a test client gets to see
//! must be described, wherever it is seen.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use jsonschema::Validator;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

/// The committed copy; that it is what gateways serve has a test of its own.
static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openapi.json");
    let text = std::fs::read_to_string(path).expect("docs/openapi.json");
    serde_json::from_str(&text).expect("JSON")
});

/// What has been made of schemas, by their text.
static VALIDATORS: LazyLock<Mutex<HashMap<String, &'static Validator>>> =
    LazyLock::new(Mutex::default);

/// One operation of the document.
#[derive(Debug, Clone)]
pub struct Described {
    /// Its method.
    pub method: Method,
    /// Its address, with names between braces.
    pub path: String,
    /// All that is said of it.
    pub operation: &'static Value,
}

/// Every operation of the document.
pub fn operations() -> Vec<Described> {
    let paths = DOCUMENT["paths"].as_object().expect("paths");
    let of = |(path, methods): (&String, &'static Value)| {
        let path = path.clone();
        let methods = methods.as_object().expect("methods").iter();
        methods.map(move |(method, operation)| Described {
            method: method.to_uppercase().parse().expect("a method"),
            path: path.clone(),
            operation,
        })
    };
    paths.iter().flat_map(of).collect()
}

/// The operation that a request asks for, if there is one.
pub fn operation(method: &Method, path: &str) -> Option<Described> {
    let path = path.split('?').next().unwrap_or(path);
    let is_it = |one: &Described| {
        let (named, asked) = (one.path.split('/'), path.split('/'));
        one.method == *method
            && named.clone().count() == asked.clone().count()
            && named.zip(asked).all(|(named, asked)| {
                named == asked || (named.starts_with('{') && !asked.is_empty())
            })
    };
    operations().into_iter().find(is_it)
}

/// Fails unless the answer is described.
pub fn check(method: &Method, path: &str, status: StatusCode, answer: &Value) {
    if let Some(described) = operation(method, path) {
        let wrong = described.wrong(status, answer);
        assert!(
            wrong.is_none(),
            "{method} {path} answered {status} {answer}: {wrong:?}"
        );
    }
}

/// Fails unless a webhook with this body is described.
pub fn check_webhook(body: &Value) {
    let kind = body["type"].as_str().expect("a type");
    let content = &DOCUMENT["webhooks"][kind]["post"]["requestBody"]["content"];
    let schema = &content["application/json"]["schema"];
    assert!(schema.is_object(), "{kind} is not described");
    let errors = validator(schema).iter_errors(body);
    let errors: Vec<_> = errors.map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{body}: {errors:?}");
}

impl Described {
    /// What is wrong with an answer, by the description.
    pub fn wrong(&self, status: StatusCode, answer: &Value) -> Option<String> {
        let response = follow(&self.operation["responses"][status.as_str()]);
        if response.is_null() {
            return Some("the status is not described".to_owned());
        }
        let contents = response["content"].as_object();
        let schema = contents.and_then(|contents| contents.values().next())?;
        let validator = validator(schema.get("schema")?);
        let errors = validator.iter_errors(answer);
        let errors = errors.map(|error| format!("{}: {error}", error.instance_path()));
        let errors: Vec<_> = errors.collect();
        (!errors.is_empty()).then(|| errors.join("; "))
    }

    /// The schema and the example of its JSON body, if it takes one; the first of several.
    pub fn body(&self) -> Option<(&'static Validator, Value)> {
        let content = &self.operation["requestBody"]["content"]["application/json"];
        let schema = content.get("schema")?;
        let several = content["examples"].as_object();
        let first = several.and_then(|examples| Some(&examples.values().next()?["value"]));
        let example = first.unwrap_or(&content["example"]);
        Some((validator(schema), example.clone()))
    }

    /// Whose credential it takes: `org_key`, `device_token`, or none.
    pub fn credential(&self) -> Option<&'static str> {
        let required = self.operation["security"].get(0)?.as_object()?;
        required.keys().next().map(String::as_str)
    }
}

/// Where a reference leads.
fn follow(value: &'static Value) -> &'static Value {
    let Some(reference) = value.get("$ref").and_then(Value::as_str) else {
        return value;
    };
    let place = reference.strip_prefix('#').expect("within the document");
    DOCUMENT.pointer(place).expect("it leads somewhere")
}

fn validator(schema: &Value) -> &'static Validator {
    let mut known = VALIDATORS.lock().unwrap_or_else(PoisonError::into_inner);
    known.entry(schema.to_string()).or_insert_with(|| {
        let root = json!({ "allOf": [schema], "components": DOCUMENT["components"] });
        let options = jsonschema::options().should_validate_formats(true);
        // As many as there are schemas, for as long as the tests run.
        Box::leak(Box::new(options.build(&root).expect("a schema")))
    })
}
