//! The document is one, and says of every route what there is to say.

use std::collections::BTreeSet;

use serde_json::Value;

use super::*;

fn operations() -> Vec<(String, Value)> {
    let paths = document()["paths"].clone();
    let paths = paths.as_object().expect("paths").clone();
    let of = |(path, methods): (String, Value)| {
        let methods = methods.as_object().expect("methods").clone();
        let named = methods.into_iter();
        named.map(move |(method, operation)| (format!("{method} {path}"), operation))
    };
    paths.into_iter().flat_map(of).collect()
}

#[test]
fn the_committed_copy_is_this_document() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openapi.json");
    let text = std::fs::read_to_string(path).expect("docs/openapi.json");
    let committed: Value = serde_json::from_str(&text).expect("JSON");
    let same = committed == document();
    assert!(
        same,
        "the API's description has changed: run make openapi, and look at the difference"
    );
}

#[test]
fn every_reference_leads_somewhere() {
    let document = document();
    let mut waiting = vec![&document];
    let mut references = 0;
    while let Some(value) = waiting.pop() {
        match value {
            Value::Object(fields) => {
                if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
                    let place = reference.strip_prefix('#').expect("within the document");
                    assert!(document.pointer(place).is_some(), "{reference}");
                    references += 1;
                }
                waiting.extend(fields.values());
            }
            Value::Array(elements) => waiting.extend(elements),
            _ => {}
        }
    }
    assert!(references > 100, "{references}");
}

#[test]
fn every_operation_has_a_name_of_its_own_and_says_what_it_does() {
    let mut names = BTreeSet::new();
    for (place, operation) in operations() {
        let id = operation["operationId"].as_str().expect("a name");
        assert!(names.insert(id.to_owned()), "{id} is there twice");
        assert_ne!(operation["summary"], "", "{place}");
        let responses = operation["responses"].as_object().expect("responses");
        let fine = |status: &String| ["1", "2", "3"].iter().any(|one| status.starts_with(one));
        assert!(responses.keys().any(fine), "{place} answers nothing");
        assert!(responses.contains_key("500"), "{place}");
    }
    assert_eq!(names.len(), crate::http::operations().len());
}

#[test]
fn fields_are_described() {
    let document = document();
    let schemas = document["components"]["schemas"]
        .as_object()
        .expect("schemas");
    for (name, schema) in schemas {
        let fields = schema["properties"].as_object();
        for (field, described) in fields.into_iter().flatten() {
            let says = described.get("description").is_some() || described.get("$ref").is_some();
            assert!(says, "{name}.{field} is not described");
        }
    }
}
