//! Orders are understood whole or refused by the name of the field.

use fencepost_store::tx::submit_job::NewInput;
use serde_json::json;

use super::*;

const UPLOAD: &str = "019adf00-0000-7000-8000-000000000001";

fn smallest() -> Value {
    json!({
        "service": "transcode.v1",
        "params": { "codec": "h264" },
        "inputs": { "source": { "upload_id": UPLOAD } },
    })
}

fn with(field: &str, value: Value) -> Value {
    let mut body = smallest();
    body[field] = value;
    body
}

fn refused(body: Value) -> String {
    let shown = body.to_string();
    read(body, &Config::default())
        .map(|_| ())
        .expect_err(&shown)
        .field
}

fn taken(body: Value) -> NewJob {
    read(body, &Config::default())
        .unwrap()
        .of(OrgId::new(), None, &Vault::new(&[b"one"]))
}

#[test]
fn the_smallest_order_gets_the_defaults_of_the_contract() {
    let job = taken(smallest());
    assert_eq!(job.max_attempts, 3);
    assert_eq!(job.deadline, LeaseDuration::seconds(24 * 3600));
    assert_eq!(job.max_output_seconds, 600);
    assert_eq!(job.priority, Priority::Normal);
    assert_eq!(job.lane, "encode.h264 transcode.v1");
    let upload = NewInput::Upload(UPLOAD.parse().unwrap());
    assert_eq!(job.inputs, [("source".to_owned(), upload)]);
    assert_eq!(job.metadata, json!({}));
}

#[test]
fn a_job_with_an_address_is_only_for_devices_that_fetch_from_addresses() {
    let url = "https://files.example/film.mp4?sig=abc";
    let job = taken(with("inputs", json!({ "source": { "url": url } })));
    assert_eq!(job.lane, "encode.h264 input.url transcode.v1");
    assert!(!format!("{job:?}").contains("abc"));
}

#[test]
fn the_input_of_a_service_that_takes_a_bundle_is_read_as_one() {
    let of =
        |input: Value| json!({ "service": "remotion.inspect.v1", "inputs": { "bundle": input } });
    let url = "https://files.example/fencepost.json?sig=abc";
    let job = taken(of(json!({ "url": url, "sha256": "0a".repeat(32) })));
    assert_eq!(job.lane, "input.url remotion.inspect.v1");
    assert_eq!(refused(of(json!({ "url": url }))), "inputs.bundle.sha256");
    let upload = of(json!({ "upload_id": UPLOAD }));
    assert_eq!(refused(upload), "inputs.bundle.upload_id");
}

#[test]
fn placement_becomes_words_of_the_lane() {
    let job = taken(with(
        "placement",
        json!({ "kind": "own", "labels": ["studio-2"] }),
    ));
    let own = format!("own:{}", job.org);
    assert!(job.lane.split(' ').any(|word| word == own), "{}", job.lane);
    assert!(
        job.lane.split(' ').any(|word| word == "label:studio-2"),
        "{}",
        job.lane
    );
}

#[test]
fn every_wrong_field_is_named_with_its_path() {
    let upload = json!({ "upload_id": UPLOAD });
    for (field, value, named) in [
        ("service", json!("transcode.v2"), "service"),
        ("service", json!(null), "service"),
        (
            "params",
            json!({ "codec": "h264", "heigth": 2 }),
            "params.heigth",
        ),
        (
            "params",
            json!({ "codec": "h264", "height": 301 }),
            "params.height",
        ),
        ("params", json!([]), "params"),
        ("inputs", json!(null), "inputs"),
        ("inputs", json!({}), "inputs.source"),
        (
            "inputs",
            json!({ "source": upload, "extra": upload }),
            "inputs.extra",
        ),
        (
            "inputs",
            json!({ "source": { "upload_id": "x" } }),
            "inputs.source.upload_id",
        ),
        (
            "inputs",
            json!({ "source": { "url": "x" } }),
            "inputs.source.url",
        ),
        ("max_attempts", json!(0), "max_attempts"),
        ("max_attempts", json!(11), "max_attempts"),
        ("deadline_seconds", json!(86_401), "deadline_seconds"),
        ("priority", json!("urgent"), "priority"),
        (
            "limits",
            json!({ "max_output_seconds": 0 }),
            "limits.max_output_seconds",
        ),
        ("limits", json!({ "max_seconds": 1 }), "limits.max_seconds"),
        ("placement", json!({ "kind": "mine" }), "placement.kind"),
        (
            "placement",
            json!({ "kind": "own", "labels": ["ok", "a b"] }),
            "placement.labels[1]",
        ),
        ("metadata", json!("text"), "metadata"),
        ("metadata", json!({ "x": "y".repeat(17_000) }), "metadata"),
        ("metadata", fifty_one_keys(), "metadata"),
        ("maxattempts", json!(3), "maxattempts"),
    ] {
        assert_eq!(refused(with(field, value)), named);
    }
}

fn fifty_one_keys() -> Value {
    let keys = (0..51).map(|number| (number.to_string(), json!(number)));
    Value::Object(keys.collect())
}
