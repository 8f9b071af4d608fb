//! What a manifest may say, and by which field it is refused.

use std::path::{Component, Path};

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn file(path: &str) -> Value {
    json!({ "path": path, "sha256": "0a".repeat(32), "size_bytes": 1 })
}

fn manifest(files: &[Value]) -> Value {
    json!({ "files": files })
}

fn read(value: &Value) -> Result<Manifest, FieldError> {
    Manifest::read(value.to_string().as_bytes())
}

fn of_paths(paths: &[&str]) -> Result<Manifest, FieldError> {
    let files: Vec<_> = paths.iter().copied().map(file).collect();
    read(&manifest(&files))
}

fn with(field: &str, value: Value) -> Value {
    let mut odd = file("a.js");
    odd[field] = value;
    manifest(&[file(INDEX), odd])
}

#[test]
fn a_manifest_lists_files_with_what_is_known_of_them() {
    let mut far = file("static/ä b.js");
    far["url"] = json!("https://files.example/b.js?sig=s3cret");
    let mut empty = file("empty.txt");
    empty["size_bytes"] = json!(0);
    let whole = manifest(&[file(INDEX), far, empty]);
    let read = read(&whole).unwrap();
    assert_eq!((read.files().len(), read.total_bytes()), (3, 2));
    let far = &read.files()[1];
    assert_eq!(far.path, "static/ä b.js");
    assert_eq!(far.sha256, [10; 32]);
    let url = far.url.as_ref().map(SecretUrl::expose);
    assert_eq!(url, Some("https://files.example/b.js?sig=s3cret"));
    assert_eq!(read.files()[0].url, None);
    assert!(!format!("{read:?}").contains("s3cret"));
    let text = read.to_json().unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), whole);
    assert_eq!(text.lines().count(), 5);
    assert_eq!(Manifest::read(text.as_bytes()), Ok(read));
}

#[test]
fn what_is_wrong_is_named_by_its_field() {
    let mut missing = file("a.js");
    missing.as_object_mut().unwrap().remove("sha256");
    let long_url = format!("https://x.example/{}", "x".repeat(4_000));
    for (value, field) in [
        (json!([]), "manifest"),
        (json!({}), "files"),
        (json!({ "files": [] }), "files"),
        (json!({ "files": {} }), "files"),
        (json!({ "files": [file(INDEX)], "version": 1 }), "version"),
        (manifest(&[file("main.js")]), "files"),
        (manifest(&[file("INDEX.HTML")]), "files"),
        (manifest(&[file(INDEX), missing]), "files[1].sha256"),
        (with("path", json!(1)), "files[1].path"),
        (with("path", json!(null)), "files[1].path"),
        (with("sha256", json!("0A".repeat(32))), "files[1].sha256"),
        (with("sha256", json!("0a")), "files[1].sha256"),
        (with("size_bytes", json!(-1)), "files[1].size_bytes"),
        (with("size_bytes", json!(1.5)), "files[1].size_bytes"),
        (with("size_bytes", json!("1")), "files[1].size_bytes"),
        (with("size_bytes", json!(u64::MAX)), "files"),
        (with("mode", json!(1)), "files[1].mode"),
        (with("url", json!("ftp://x.example/a")), "files[1].url"),
        (with("url", json!("a.js")), "files[1].url"),
        (with("url", json!("https://")), "files[1].url"),
        (with("url", json!("https:///a")), "files[1].url"),
        (with("url", json!("https://x.example/a#b")), "files[1].url"),
        (with("url", json!("https://x.example/a b")), "files[1].url"),
        (with("url", json!(long_url)), "files[1].url"),
        (with("url", json!(["https://x.example"])), "files[1].url"),
    ] {
        let error = read(&value).expect_err(&value.to_string());
        assert_eq!(error.field, field, "{value}: {error}");
        assert!(error.problem.len() > 5, "{error}");
    }
    let error = Manifest::read(b"{\"files\": [").unwrap_err();
    assert_eq!(error.field, "manifest");
    assert!(
        error.problem.contains("fencepost bundle manifest"),
        "{error}"
    );
}

#[test]
fn complaints_repeat_no_address() {
    let address = "https://files.example/a?sig=s3cret";
    let mut named = file("a.js");
    named[address] = json!(1);
    for value in [
        json!({ address: 1 }),
        manifest(&[file(INDEX), named]),
        with("size_bytes", json!(address)),
        with("sha256", json!(address)),
        with("path", json!(address)),
        with("url", json!(format!("{address}#x"))),
        json!(address),
    ] {
        let error = read(&value).expect_err(&value.to_string());
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
}

#[test]
fn a_path_stays_within_the_folder_and_has_one_spelling() {
    let longest = format!("a/{}", "b".repeat(MAX_PATH_BYTES - 2));
    for good in [
        "a", "a/b/c.js", ".map", "a b", "..a", "a..", "...", "ä/ü", "%2e%2e/a", "C:", &longest,
    ] {
        assert!(of_paths(&[INDEX, good]).is_ok(), "{good}");
    }
    let too_long = format!("{longest}b");
    for (bad, says) in [
        ("", "1 to 200 bytes"),
        (too_long.as_str(), "1 to 200 bytes, has 201"),
        ("/a", "begin with /"),
        ("a/", "before and after each /"),
        ("a//b", "before and after each /"),
        (".", "not have . for"),
        ("./a", "not have . for"),
        ("a/./b", "not have . for"),
        ("..", "not have .. for"),
        ("../a", "not have .. for"),
        ("a/../../b", "not have .. for"),
        ("a\\b", "backslash"),
        ("..\\a", "backslash"),
        ("a\0", "control"),
        ("a\n", "control"),
        ("a\u{7f}", "control"),
        ("a\u{85}", "control"),
    ] {
        let error = of_paths(&[INDEX, bad]).expect_err(bad);
        assert_eq!(error.field, "files[1].path", "{bad:?}");
        assert!(error.problem.contains(says), "{bad:?}: {error}");
    }
}

#[test]
fn no_two_files_are_in_one_place_on_a_mac() {
    for (paths, field, says) in [
        (&["a", "a"][..], "files[2].path", "files[1]"),
        (&["A.js", "a.JS"], "files[2].path", "files[1]"),
        (&["Index.html"], "files[1].path", "files[0]"),
        (&["stra\u{df}e", "STRASSE"], "files[2].path", "files[1]"),
        (&["\u{e9}", "e\u{301}"], "files[2].path", "files[1]"),
        (&["\u{3c3}", "\u{3c2}"], "files[2].path", "files[1]"),
        (&["a", "a/b"], "files[2].path", "lead through files[1]"),
        (
            &["a/b/c", "x", "A"],
            "files[1].path",
            "lead through files[3]",
        ),
        (&["a/b/c", "A/B"], "files[1].path", "lead through files[2]"),
    ] {
        let all = [&[INDEX], paths].concat();
        let error = of_paths(&all).expect_err(&paths.join(" "));
        assert_eq!(error.field, field, "{paths:?}: {error}");
        assert!(error.problem.contains(says), "{paths:?}: {error}");
    }
    let fine = ["a/b", "A/c", "ab", "a/ba", "a.b", "b/a"];
    assert!(of_paths(&[&[INDEX], &fine[..]].concat()).is_ok());
}

#[test]
fn files_and_bytes_are_bounded() {
    let of = |count: usize| {
        let mut files: Vec<_> = (1..count).map(|n| file(&n.to_string())).collect();
        files.push(file(INDEX));
        read(&manifest(&files))
    };
    assert_eq!(of(MAX_FILES).unwrap().files().len(), MAX_FILES);
    let error = of(MAX_FILES + 1).unwrap_err();
    assert_eq!(error.field, "files");
    assert!(error.problem.contains("are 5001"), "{error}");
    let mut text = manifest(&[file(INDEX)]).to_string();
    let most = usize::try_from(MAX_MANIFEST_BYTES).unwrap();
    text.push_str(&" ".repeat(most - text.len()));
    assert!(Manifest::read(text.as_bytes()).is_ok());
    text.push(' ');
    let error = Manifest::read(text.as_bytes()).unwrap_err();
    assert_eq!(error.field, "manifest");
    assert!(error.problem.contains("at most 1048576 bytes"), "{error}");
    // What would be written too long is refused too.
    let files = (0..MAX_FILES).map(|n| BundleFile {
        path: if n == 0 {
            INDEX.to_owned()
        } else {
            format!("{n}{}", "x".repeat(150))
        },
        sha256: [0; 32],
        size_bytes: 0,
        url: None,
    });
    let error = Manifest::of(files.collect())
        .unwrap()
        .to_json()
        .unwrap_err();
    assert_eq!(error.field, "manifest");
}

/// Names that are more often odd than those of files are.
fn odd_paths() -> impl Strategy<Value = Vec<String>> {
    let name = prop_oneof![
        Just("..".to_owned()),
        Just(".".to_owned()),
        Just(String::new()),
        Just("a".to_owned()),
        Just("A".to_owned()),
        Just("~".to_owned()),
        Just("\\..".to_owned()),
        Just("..\0".to_owned()),
        "[a-c]{1,2}",
        "\\PC{0,4}",
        any::<String>(),
    ];
    let path = proptest::collection::vec(name, 1..5).prop_map(|names| names.join("/"));
    proptest::collection::vec(path, 0..4)
}

#[test]
fn folders_that_no_size_speaks_of_are_counted() {
    // Each file in fifty folders of its own.
    let deep = |files: usize| {
        let paths = (0..files).map(|n| format!("{n}/{}x", "a/".repeat(49)));
        let paths: Vec<_> = paths.chain([INDEX.to_owned()]).collect();
        of_paths(&paths.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert!(deep(MAX_FOLDERS / 50).is_ok());
    let error = deep(MAX_FOLDERS / 50 + 1).unwrap_err();
    assert_eq!(error.field, "files");
    assert!(error.problem.contains("5000 folders"), "{}", error.problem);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_path_of_an_accepted_manifest_leads_out_of_its_folder(odd in odd_paths()) {
        let mut paths: Vec<&str> = odd.iter().map(String::as_str).collect();
        paths.push(INDEX);
        let Ok(manifest) = of_paths(&paths) else {
            return Ok(());
        };
        let folder = Path::new("/private/bundle");
        let mut places = HashSet::new();
        for file in manifest.files() {
            let path = Path::new(&file.path);
            prop_assert!(path.components().all(|part| matches!(part, Component::Normal(_))));
            // Written back it is the same: nothing was read another way than it is written.
            let again: Vec<_> = path.iter().map(|name| name.to_str().unwrap()).collect();
            prop_assert_eq!(again.join("/"), file.path.as_str());
            let place = folder.join(path);
            prop_assert!(place.starts_with(folder) && place != folder);
            prop_assert!(places.insert(place));
        }
        let is_folder = |one: &Path| places.iter().any(|other| other != one && other.starts_with(one));
        prop_assert!(!places.iter().any(|place| is_folder(place)));
    }

    #[test]
    fn whatever_is_read_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Manifest::read(&bytes).is_err());
    }
}
