//! Bundles at the terminal: a manifest of what is in a folder, and orders that say its digest.

use std::path::Path;

use fencepost_domain::bundle::Manifest;
use fencepost_tests::Site;
use fencepost_tests::gateway::{TO_THIS_MACHINE, hex_sha256};
use fencepost_tests::terminal::{Terminal, complaint};
use serde_json::{Value, json};

use super::terminal;

const PAGE: &[u8] = b"<!doctype html>";

/// A folder as a bundler writes it.
fn folder(within: &Path) -> String {
    let folder = within.join("dist");
    for (path, bytes) in [
        ("index.html", PAGE),
        ("static/main.js", b"console.log(1)"),
        ("static/main.js.map", b"{}"),
        (".DS_Store", b"x"),
        ("empty.txt", b""),
    ] {
        let file = folder.join(path);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("it is made");
        std::fs::write(file, bytes).expect("it is written");
    }
    folder.to_str().expect("a plain path").to_owned()
}

/// What is said of a folder to a program; no gateway is there.
async fn told(words: &[&str]) -> Value {
    let nobody = Terminal::new("http://127.0.0.1:1", "");
    nobody.told(words).await.remove(0)
}

#[tokio::test]
async fn a_manifest_says_every_byte_of_a_folder_and_what_to_order_with() {
    let temp = tempfile::tempdir().expect("a folder");
    let dist = folder(temp.path());
    let file = format!("{dist}/fencepost.json");
    let first = told(&["bundle", "manifest", &dist]).await;
    let bytes = std::fs::read(&file).expect("it was written");
    let digest = hex_sha256(&bytes);
    let expected = json!({
        "type": "bundle_manifest",
        "file": file,
        "sha256": digest,
        "size_bytes": bytes.len(),
        "files": 4,
        "total_bytes": PAGE.len() + 16,
        "left_out": [".DS_Store"],
        "input": format!("bundle=https://HOST/PATH/fencepost.json#sha256={digest}"),
    });
    assert_eq!(first, expected);
    let manifest = Manifest::read(&bytes).expect("a manifest");
    let paths: Vec<_> = manifest
        .files()
        .iter()
        .map(|file| file.path.as_str())
        .collect();
    let listed = [
        "empty.txt",
        "index.html",
        "static/main.js",
        "static/main.js.map",
    ];
    assert_eq!(paths, listed);
    assert_eq!(hex::encode(manifest.files()[1].sha256), hex_sha256(PAGE));
    // Whoever serves the folder can read it, and nothing is left beside it.
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&file).expect("facts"));
    assert_eq!(mode & 0o444, 0o444, "{mode:o}");
    assert_eq!(std::fs::read_dir(&dist).expect("a folder").count(), 5);
    // The same folder has the same manifest, wherever it is written.
    assert_eq!(told(&["bundle", "manifest", &dist]).await, first);
    let other = temp.path().join("other.json");
    let other = other.to_str().expect("a plain path");
    std::fs::remove_file(&file).expect("it is there");
    let again = told(&["bundle", "manifest", &dist, "--out", other]).await;
    assert_eq!(again["sha256"], digest.as_str());
    let nobody = Terminal::new("http://127.0.0.1:1", "");
    let said = nobody.says(&["bundle", "manifest", &dist]).await;
    for word in [
        format!("--input 'bundle=https://HOST/PATH/fencepost.json#sha256={digest}'"),
        ".DS_Store".to_owned(),
        "4 files".to_owned(),
    ] {
        assert!(said.contains(&word), "{word}: {said}");
    }
}

#[tokio::test]
async fn the_examples_of_the_help_can_be_pasted_as_they_are() {
    let nobody = Terminal::new("http://127.0.0.1:1", "");
    let help = nobody.says(&["bundle", "manifest", "--help"]).await;
    let example: Vec<_> = help
        .lines()
        .skip_while(|line| !line.contains("job submit"))
        .take_while(|line| !line.is_empty())
        .collect();
    let (last, before) = example.split_last().expect("an example");
    assert!(before.iter().all(|line| line.ends_with(" \\")), "{help}");
    assert!(last.ends_with("fencepost.json#sha256=$sha256\""), "{help}");
}

#[tokio::test]
async fn a_folder_that_cannot_be_listed_gets_no_manifest() {
    let temp = tempfile::tempdir().expect("a folder");
    let dist = folder(temp.path());
    let nobody = Terminal::new("http://127.0.0.1:1", "");
    let page = format!("{dist}/index.html");
    let lost = format!("{dist}/nowhere/a.json");
    for (words, says) in [
        (
            &["bundle", "manifest", &page][..],
            "is no folder: name the one with index.html in it",
        ),
        (
            &["bundle", "manifest", &dist, "--out", &page],
            "is no manifest",
        ),
        (
            &["bundle", "manifest", &dist, "--out", &lost],
            "there is no folder",
        ),
    ] {
        let output = nobody.buyer(words).await;
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(complaint(&output).contains(says), "{output:?}");
    }
    assert_eq!(std::fs::read(&page).expect("it is there"), PAGE);
    std::os::unix::fs::symlink("/etc/hosts", format!("{dist}/hosts")).expect("a link");
    let output = nobody.buyer(&["bundle", "manifest", &dist]).await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(
        complaint(&output).contains("\"hosts\" is a link that leads out"),
        "{output:?}"
    );
    std::fs::remove_file(format!("{dist}/hosts")).expect("it is there");
    std::fs::write(format!("{dist}/Index.HTML"), "").expect("it is written");
    if std::fs::read(&page).expect("it is there") == PAGE {
        // On a file system that keeps both.
        let output = nobody.buyer(&["bundle", "manifest", &dist]).await;
        let said = complaint(&output);
        assert!(
            said.contains("\"index.html\": its path") && said.contains("\"Index.HTML\""),
            "{said}"
        );
    }
    assert!(!Path::new(&dist).join("fencepost.json").exists());
}

#[tokio::test]
async fn the_digest_behind_an_address_becomes_that_of_the_order() {
    let site = Site::new().await;
    let gateway = site.gateway_with(&[TO_THIS_MACHINE]).await;
    let terminal = terminal(&site, &gateway);
    let digest = "0a".repeat(32);
    let at =
        |fragment: &str| format!("bundle=http://127.0.0.1:9/fencepost.json?sig=s3cret{fragment}");
    let order = ["--service", "remotion.inspect.v1", "--input"];
    // A price is said also to whoever has no bundle yet.
    let quote = terminal
        .json(&["quote", "--service", "remotion.inspect.v1"], 0)
        .await;
    assert_eq!(
        quote[0]["needs"],
        json!(["input.url", "remotion.inspect.v1"])
    );
    for command in ["quote", "submit"] {
        for (fragment, says) in [
            ("", "inputs.bundle.sha256"),
            ("#part", "not known"),
            ("#sha256=0a", "sha256 behind its # that is none"),
        ] {
            let input = at(fragment);
            let output = terminal
                .run(&[&[command], &order[..], &[&input]].concat())
                .await;
            assert_eq!(output.status.code(), Some(2), "{output:?}");
            let said = complaint(&output);
            assert!(said.contains(says) && !said.contains("s3cret"), "{said}");
        }
        let input = at(&format!("#sha256={digest}&size_bytes=7"));
        terminal
            .json(&[&[command], &order[..], &[&input]].concat(), 0)
            .await;
    }
    let jobs = terminal.json(&["list"], 0).await;
    assert_eq!(jobs.len(), 1);
    let id = jobs[0]["id"].as_str().expect("an id");
    let job = &terminal.json(&["get", id], 0).await[0];
    let shown = json!({
        "upload_id": null, "host": "127.0.0.1:9", "sha256": digest, "size_bytes": 7,
    });
    assert_eq!(job["inputs"]["bundle"], shown, "{job}");
    let said = terminal
        .says(&["job", "services", "remotion.inspect.v1"])
        .await;
    assert!(said.contains("fencepost bundle"), "{said}");
    // A folder is no input: what to do instead is said.
    let folder = format!("bundle={}", site.folder.path().display());
    let output = terminal
        .run(&[&["submit"], &order[..], &[&folder]].concat())
        .await;
    assert!(
        complaint(&output).contains("fencepost bundle manifest"),
        "{output:?}"
    );
}
