//! Bundles: whole in a folder of their own, or refused by the name of a file, and never outside of it.

use std::time::{Duration, Instant};

use fencepost_agent::transfer::StepError;
use fencepost_agent::transfer::bundle::Bundle;
use fencepost_agent::workspace::Workspace;
use fencepost_domain::ids::AttemptId;
use serde_json::json;

use super::shelf::{CODE, MAX_BYTES, PAGE, Shelf, all_within, fetch, fetch_with_room};
use super::site::{Play, Site, said, whole};
use super::{SECRET, open};
use crate::gateway::sha256;
use crate::scripted::lease;

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_arrives_whole_in_a_folder_of_its_own() {
    let network = &open();
    let mut shelf = Shelf::new().await;
    let elsewhere = Site::start().await;
    elsewhere.has("/far?key=1", vec![whole(CODE)]);
    shelf.put("static/js/main.js", CODE);
    shelf.put("empty.txt", b"");
    for number in 0..10 {
        shelf.put(&format!("frames/{number}.txt"), &[b'x'; 7]);
    }
    shelf.list("ä b+c?.js", b"odd");
    shelf
        .site
        .has("/site/%C3%A4%20b%2Bc%3F.js", vec![whole(b"odd")]);
    shelf.list("far.js", CODE)["url"] = json!(format!("{}/far?key=1", elsewhere.address));
    shelf.print();
    let got = fetch(network, &shelf).await;
    let total = PAGE.len() as u64 + 2 * CODE.len() as u64 + 70 + 3;
    assert_eq!(got.result, Ok(total));
    let files = got.files();
    assert_eq!(files.len(), 15, "{:?}", files.keys());
    for (path, bytes) in [
        ("index.html", PAGE),
        ("static/js/main.js", CODE),
        ("empty.txt", b""),
        ("ä b+c?.js", b"odd"),
        ("far.js", CODE),
        ("frames/9.txt", b"xxxxxxx"),
    ] {
        assert_eq!(files[path], bytes, "{path}");
    }
    // Nothing else stays, not even the manifest.
    assert_eq!(std::fs::read_dir(got.temp.path()).unwrap().count(), 1);
    let most = got.received.iter().map(|(bytes, _)| *bytes).max();
    assert_eq!(most, Some(total));
    assert!(got.received.iter().all(|(_, all)| *all == Some(total)));
    assert_eq!(shelf.asked().len(), 14);
    assert!(
        shelf.asked().iter().all(|path| !path.contains("s3cret")),
        "{:?}",
        shelf.asked()
    );
    assert_eq!(elsewhere.asked(), ["/far?key=1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_few_files_are_fetched_at_once() {
    let mut shelf = Shelf::new().await;
    for number in 0..12 {
        let path = format!("{number}.txt");
        shelf.list(&path, b"x");
        let Play::Say(_, bytes) = whole(b"x") else {
            unreachable!()
        };
        let slowly = Play::Say(Duration::from_millis(100), bytes);
        shelf.site.has(&format!("/site/{path}"), vec![slowly]);
    }
    shelf.print();
    assert!(fetch(&open(), &shelf).await.result.is_ok());
    let most = shelf.site.most_unanswered();
    assert!((2..=4).contains(&most), "{most}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_not_what_the_manifest_says_is_named_and_the_buyers_to_mend() {
    let network = &open();
    for (name, play, says) in [
        (
            "other bytes",
            whole(b"console.log(2)"),
            "another SHA-256 than the manifest says",
        ),
        (
            "longer",
            whole(b"console.log(10)"),
            "15 bytes, and the manifest says 14",
        ),
        (
            "not there",
            said("404 No\r\ncontent-length: 0", b""),
            "HTTP 404",
        ),
        (
            "moved",
            said(
                "302 Found\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0",
                b"",
            ),
            "redirects are not followed",
        ),
    ] {
        let mut shelf = Shelf::new().await;
        shelf.list("static/main.js", CODE);
        shelf.site.has("/site/static/main.js", vec![play]);
        shelf.print();
        let got = fetch(network, &shelf).await;
        let (code, message) = got.failed(name);
        assert_eq!(code, "input_invalid", "{name}: {message}");
        assert!(
            message.contains("file \"static/main.js\""),
            "{name}: {message}"
        );
        assert!(message.contains(says), "{name}: {message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_in_trouble_is_left_to_the_next_attempt() {
    let mut shelf = Shelf::new().await;
    shelf.list("a.js", CODE);
    let busy = said("503 Later\r\ncontent-length: 0", b"");
    shelf.site.has("/site/a.js", vec![busy]);
    shelf.print();
    let (code, message) = fetch(&open(), &shelf).await.failed("in trouble");
    assert_eq!(code, "download_failed");
    assert!(
        message.contains("\"a.js\"") && message.contains("HTTP 503"),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_whose_line_was_cut_goes_on_where_it_was() {
    let mut shelf = Shelf::new().await;
    shelf.list("a.js", CODE);
    let cut = said("200 OK\r\netag: \"v1\"\r\ncontent-length: 14", &CODE[..9]);
    let rest = "206 Partial Content\r\netag: \"v1\"\r\ncontent-range: bytes 9-13/14";
    shelf
        .site
        .has("/site/a.js", vec![cut, said(rest, &CODE[9..])]);
    shelf.print();
    let got = fetch(&open(), &shelf).await;
    let total = (PAGE.len() + CODE.len()) as u64;
    assert_eq!(got.result, Ok(total));
    assert_eq!(got.files()["a.js"], CODE);
    let heads = shelf.site.heads();
    let again = heads.last().unwrap().to_lowercase();
    assert!(again.contains("range: bytes=9-"), "{again}");
    // What was there of it is counted once.
    assert!(
        got.received.iter().all(|(bytes, _)| *bytes <= total),
        "{:?}",
        got.received
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_that_is_none_is_the_buyers_to_mend_and_nothing_of_it_is_fetched() {
    let network = &open();
    let page = |path: &str| json!({ "path": path, "sha256": sha256(PAGE), "size_bytes": 15 });
    let long = format!("{{\"files\":[]{}}}", " ".repeat(1 << 20));
    let secret = format!("http://127.0.0.1/?{SECRET}");
    for (name, manifest, says) in [
        ("no JSON", "PK".to_owned(), "is no JSON"),
        (
            "no page",
            json!({ "files": [page("a.html")] }).to_string(),
            "index.html",
        ),
        (
            "a way out",
            json!({ "files": [page("index.html"), page("a/../../../stolen")] }).to_string(),
            "files[1].path",
        ),
        (
            "an absolute way out",
            json!({ "files": [page("index.html"), page("/private/tmp/stolen")] }).to_string(),
            "files[1].path",
        ),
        (
            "one place for two",
            json!({ "files": [page("index.html"), page("a"), page("A")] }).to_string(),
            "files[2].path",
        ),
        (
            "an unknown field",
            json!({ "files": [], secret: 1 }).to_string(),
            "manifest",
        ),
    ] {
        let mut shelf = Shelf::new().await;
        shelf.print_as(manifest.as_bytes());
        let got = {
            shelf.grant.max_bytes = Some(2 << 20);
            fetch(network, &shelf).await
        };
        let (code, message) = got.failed(name);
        assert_eq!(code, "input_invalid", "{name}: {message}");
        assert!(message.contains("its manifest: "), "{name}: {message}");
        assert_eq!(
            message.matches("manifest: ").count(),
            1,
            "{name}: {message}"
        );
        assert!(message.contains(says), "{name}: {message}");
        assert_eq!(shelf.asked(), [""; 0], "{name}");
        assert_eq!(all_within(got.temp.path()).len(), 1, "{name}");
    }
    let mut shelf = Shelf::new().await;
    shelf.print_as(long.as_bytes());
    shelf.grant.max_bytes = Some(2 << 20);
    let (code, message) = fetch(network, &shelf).await.failed("too long");
    assert_eq!(code, "input_invalid");
    assert!(message.contains("more than 1048576 bytes"), "{message}");
    shelf.print();
    shelf.grant.sha256 = Some(sha256(b"others"));
    let (code, message) = fetch(network, &shelf).await.failed("another manifest");
    assert_eq!(code, "input_invalid");
    assert!(
        message.contains("another SHA-256 than the order says"),
        "{message}"
    );
    assert_eq!(shelf.asked(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_file_leads_to_a_network_within() {
    // This machine's first address may be fetched from here, and no other one.
    let gateway = fencepost_agent::address::Gateway::parse("http://127.0.0.1:1").unwrap();
    let network = crate::scripted::network_with(&gateway, &["127.0.0.1/32"]);
    for host in ["127.0.0.2", "10.0.0.1", "169.254.169.254", "[::1]"] {
        let mut shelf = Shelf::new().await;
        let port = shelf.site.address.rsplit(':').next().unwrap();
        let url = format!("http://{host}:{port}/site/index.html?{SECRET}");
        shelf.list("a.html", PAGE)["url"] = json!(url);
        shelf.print();
        let got = fetch(&network, &shelf).await;
        let (code, message) = got.failed(host);
        assert_eq!(code, "download_failed", "{host}: {message}");
        assert!(message.contains("file \"a.html\""), "{host}: {message}");
        assert!(!message.contains(host), "{host}: {message}");
        let asked = shelf.asked();
        assert!(
            asked.iter().all(|path| path == "/site/index.html"),
            "{host}: {asked:?}"
        );
        assert!(
            got.files().get("a.html").is_none_or(Vec::is_empty),
            "{host}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_too_large_together_are_refused_before_any_is_asked_for() {
    let network = &open();
    let mut shelf = Shelf::new().await;
    shelf.put("a.bin", &[b'x'; 9_900]);
    shelf.put("b.bin", &[b'x'; 85]);
    shelf.print();
    // Exactly as much as is allowed, and as there is room for.
    let got = fetch_with_room(network, &shelf, Some(MAX_BYTES)).await;
    assert_eq!(got.result, Ok(MAX_BYTES));
    let before = shelf.asked().len();
    let got = fetch_with_room(network, &shelf, Some(9_999)).await;
    let (code, message) = got.failed("no room");
    assert_eq!(code, "download_failed");
    assert!(message.contains("10000 bytes together"), "{message}");
    shelf.grant.max_bytes = Some(9_999);
    let got = fetch_with_room(network, &shelf, Some(5_000)).await;
    let (code, message) = got.failed("above the limit");
    assert_eq!(code, "input_invalid");
    assert!(
        message.contains("9999 are the most") && message.contains("max_bytes"),
        "{message}"
    );
    assert_eq!(shelf.asked().len(), before);
    assert_eq!(all_within(got.temp.path()).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_fails_ends_the_others() {
    let mut shelf = Shelf::new().await;
    for number in 0..3 {
        let path = format!("{number}.txt");
        shelf.list(&path, b"x");
        shelf
            .site
            .has(&format!("/site/{path}"), vec![Play::Silence]);
    }
    shelf.list("lost.js", CODE);
    shelf.put("late.js", CODE);
    shelf.print();
    let mut network = open();
    network.idle = Duration::from_mins(1);
    let began = Instant::now();
    let (code, message) = fetch(&network, &shelf).await.failed("lost");
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(code, "input_invalid");
    assert!(message.contains("\"lost.js\""), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_ends_in_the_middle_stops_it_and_nothing_is_left() {
    let mut shelf = Shelf::new().await;
    shelf.put("a.js", CODE);
    shelf.list("never.js", CODE);
    shelf.site.has("/site/never.js", vec![Play::Silence]);
    shelf.print();
    let mut network = open();
    network.idle = Duration::from_mins(1);
    let temp = tempfile::tempdir().unwrap();
    let workspace = Workspace::create(temp.path(), AttemptId::new()).unwrap();
    let (live, stop, _deadline) = lease(Duration::from_mins(1));
    let folder = workspace.path().join("input-0");
    let bundle = Bundle {
        network: &network,
        grant: &shelf.grant,
        folder: &folder,
        room: None,
        received: &|_, _| (),
    };
    let stopping = async {
        while shelf.asked().len() < 3 || std::fs::read(folder.join("a.js")).unwrap() != CODE {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        stop.cancel();
    };
    let (result, ()) = tokio::join!(live.bound(bundle.run()), stopping);
    assert_eq!(result, Err(StepError::Stopped));
    workspace.remove().await;
    assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0);
}
