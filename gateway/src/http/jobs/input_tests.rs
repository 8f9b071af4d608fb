//! An input is an upload or an address, and an address that leads inside is refused by its name.

use fencepost_egress::AllowList;
use serde_json::{Value, json};

use super::*;

const UPLOAD: &str = "019adf00-0000-7000-8000-000000000001";
const URL: &str = "https://files.example/film.mp4?sig=abc";

fn read_one(input: &Value) -> Result<Input, FieldError> {
    read_as(InputForm::File, input)
}

fn read_as(form: InputForm, input: &Value) -> Result<Input, FieldError> {
    let inputs = Fields::of_body(json!({ "source": input }))?.rest_as_objects()?;
    let (_, fields) = inputs.into_iter().next().expect("one");
    read(fields, form, 1_000)
}

#[test]
fn an_input_is_an_upload_or_an_address_with_what_is_known_of_it() {
    let upload = read_one(&json!({ "upload_id": UPLOAD, "url": null })).unwrap();
    assert_eq!(upload, Input::Upload(UPLOAD.parse().unwrap()));
    let sha256 = "0a".repeat(32);
    let input = read_one(&json!({ "url": URL, "sha256": sha256, "size_bytes": 1_000 })).unwrap();
    let expected = UrlInput {
        url: SecretUrl::new(URL),
        sha256: Some(sha256),
        size_bytes: Some(1_000),
    };
    assert_eq!(input, Input::Url(expected));
    assert!(!format!("{input:?}").contains("abc"));
    let (job, vault) = (JobId::new(), Vault::new(&[b"one"]));
    let NewInput::Elsewhere(kept) = input.of(job, "source", &vault) else {
        panic!("it is elsewhere");
    };
    assert_eq!(kept.host, "files.example");
    let opened = vault.open_url(job, "source", &kept.url).expect("it opens");
    assert_eq!(opened.expose(), URL);
}

#[test]
fn what_is_wrong_with_an_input_is_named() {
    let long = format!("{URL}{}", "x".repeat(4_000));
    for (input, field) in [
        (json!({}), "source.upload_id"),
        (json!({ "url": null }), "source.upload_id"),
        (json!({ "upload_id": "x" }), "source.upload_id"),
        (json!({ "upload_id": UPLOAD, "url": URL }), "source.url"),
        (
            json!({ "upload_id": UPLOAD, "sha256": "0a".repeat(32) }),
            "source.sha256",
        ),
        (
            json!({ "upload_id": UPLOAD, "size_bytes": 1 }),
            "source.size_bytes",
        ),
        (json!({ "url": 1 }), "source.url"),
        (json!({ "url": "files.example/film.mp4" }), "source.url"),
        (json!({ "url": format!("{URL}#part") }), "source.url"),
        (json!({ "url": long }), "source.url"),
        (
            json!({ "url": URL, "sha256": "0A".repeat(32) }),
            "source.sha256",
        ),
        (json!({ "url": URL, "size_bytes": 0 }), "source.size_bytes"),
        (
            json!({ "url": URL, "size_bytes": 1_001 }),
            "source.size_bytes",
        ),
        (json!({ "url": URL, "headers": {} }), "source.headers"),
    ] {
        let shown = input.to_string();
        let error = read_one(&input).expect_err(&shown);
        assert_eq!(error.field, field, "{shown}");
        assert!(!error.problem.contains("abc"), "{error}");
    }
}

#[test]
fn a_bundle_is_an_address_with_its_digest_and_nothing_else() {
    let sha256 = "0a".repeat(32);
    let read = |input: &Value| read_as(InputForm::Bundle, input);
    let input = json!({ "url": URL, "sha256": sha256, "upload_id": null, "size_bytes": 1_000 });
    let expected = UrlInput {
        url: SecretUrl::new(URL),
        sha256: Some(sha256.clone()),
        size_bytes: Some(1_000),
    };
    assert_eq!(read(&input), Ok(Input::Url(expected)));
    for (input, field, says) in [
        (json!({ "upload_id": UPLOAD }), "upload_id", "give url"),
        (json!({ "upload_id": 1 }), "upload_id", "give url"),
        (
            json!({ "upload_id": UPLOAD, "url": URL, "sha256": sha256 }),
            "upload_id",
            "give url",
        ),
        (json!({}), "url", "is missing"),
        (json!({ "sha256": sha256 }), "url", "is missing"),
        (json!({ "url": URL }), "sha256", "fencepost bundle manifest"),
        (
            json!({ "url": URL, "sha256": null }),
            "sha256",
            "is missing",
        ),
        (json!({ "url": URL, "sha256": "0A" }), "sha256", "64 hex"),
        (
            json!({ "url": format!("{URL}#sha256={sha256}"), "sha256": sha256 }),
            "url",
            "fragment",
        ),
        (
            json!({ "url": URL, "sha256": sha256, "size_bytes": 1_001 }),
            "size_bytes",
            "1000",
        ),
        (
            json!({ "url": URL, "sha256": sha256, "files": [] }),
            "files",
            "there are: url, sha256, size_bytes",
        ),
    ] {
        let shown = input.to_string();
        let error = read(&input).expect_err(&shown);
        assert_eq!(error.field, format!("source.{field}"), "{shown}");
        assert!(error.problem.contains(says), "{shown}: {error}");
        assert!(!error.problem.contains("abc"), "{error}");
    }
    // No device takes a larger manifest.
    let large = json!({ "url": URL, "sha256": sha256, "size_bytes": MAX_MANIFEST_BYTES + 1 });
    let inputs = Fields::of_body(json!({ "source": large })).and_then(Fields::rest_as_objects);
    let (_, fields) = inputs.unwrap().remove(0);
    let error = super::read(fields, InputForm::Bundle, u64::MAX).unwrap_err();
    assert_eq!(error.field, "source.size_bytes");
}

fn elsewhere(name: &str, url: &str) -> (String, Input) {
    let input = UrlInput {
        url: SecretUrl::new(url),
        sha256: None,
        size_bytes: None,
    };
    (name.to_owned(), Input::Url(input))
}

#[tokio::test]
async fn an_address_that_leads_inside_is_refused_by_the_name_of_its_input() {
    let strict = Guard::new(AllowList::default());
    let lenient = Guard::new(AllowList::parse(["127.0.0.0/8"]).unwrap());
    let good = elsewhere("clip_1", "https://8.8.8.8/a");
    for inside in [
        "https://127.0.0.1/x?sig=abc",
        "https://8.8.8.8@127.0.0.1/x?sig=abc",
        "https://me@8.8.8.8/x?sig=abc",
        "http://8.8.8.8/x?sig=abc",
    ] {
        let inputs = [good_again(&good), elsewhere("clip_2", inside)];
        let error = admit(&inputs, &strict).await.expect_err(inside);
        assert_eq!(error.field, "inputs.clip_2.url", "{inside}");
        assert!(!error.problem.contains("abc"), "{error}");
    }
    let inputs = [good, elsewhere("clip_2", "http://127.0.0.1:9/x")];
    assert_eq!(admit(&inputs, &lenient).await, Ok(()));
}

/// Two addresses of one host are judged once, but not where one of them has a user in it.
fn good_again((name, input): &(String, Input)) -> (String, Input) {
    elsewhere(name, input.url().expect("an address").expose())
}

#[test]
fn all_addresses_of_one_job_have_to_fit_into_one_frame() {
    let long = format!("https://8.8.8.8/{}", "x".repeat(3_000));
    let inputs = |count: usize| -> Vec<_> { (0..count).map(|_| elsewhere("a", &long)).collect() };
    assert_eq!(check_room(&inputs(53)), Ok(()));
    assert_eq!(check_room(&inputs(54)).unwrap_err().field, "inputs");
}
