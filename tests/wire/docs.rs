//! The pages of the gateway, in a real browser.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use fencepost_tests::Site;
use fencepost_tests::gateway::TestGateway;
use reqwest::StatusCode;
use tokio::process::Command;

/// Where Debian, Ubuntu and macOS keep one.
const BROWSERS: [&str; 4] = [
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
];

/// A browser; without one this is no place to test pages, but CI has to be.
fn browser() -> Option<PathBuf> {
    let found = BROWSERS
        .iter()
        .map(PathBuf::from)
        .find(|path| path.is_file());
    if found.is_none() {
        let in_ci = std::env::var_os("CI").is_some();
        assert!(!in_ci, "there is no Chromium: run .ci/install-deps");
        eprintln!("skipped: there is no Chromium (.ci/install-deps installs it)");
    }
    found
}

/// What the page holds after its scripts have run.
async fn seen(browser: &PathBuf, url: &str) -> String {
    let profile = tempfile::tempdir().expect("a folder can be made");
    let mut command = Command::new(browser);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--virtual-time-budget=20000",
        "--dump-dom",
    ]);
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    command.arg(url).stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(Duration::from_mins(2), command.output());
    let output = output.await.expect("the browser comes to an end");
    let output = output.expect("the browser starts");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

async fn page(gateway: &TestGateway, path: &str) -> reqwest::Response {
    let request = gateway.client.get(format!("{}{path}", gateway.url));
    request.send().await.expect("the gateway answers")
}

#[tokio::test]
async fn a_browser_without_the_internet_shows_our_operations() {
    let Some(browser) = browser() else { return };
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let shown = seen(&browser, &format!("{}/docs", gateway.url)).await;
    for word in [
        "/v1/jobs",
        "Ask for work",
        "Cancel a job",
        "/v1/provider/leases",
    ] {
        assert!(shown.contains(word), "{word} is not shown in\n{shown}");
    }
}

#[tokio::test]
async fn a_browser_finds_the_place_that_a_problem_names() {
    let Some(browser) = browser() else { return };
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let (status, problem) = site.buyer(&gateway).get("/v1/jobs/none").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let kind = problem["type"].as_str().expect("a type");
    assert_eq!(kind, "/docs/problems#not_found");
    let shown = seen(&browser, &format!("{}{kind}", gateway.url)).await;
    assert!(shown.contains("<section id=\"not_found\">"), "{shown}");
}

#[tokio::test]
async fn pages_load_nothing_from_elsewhere_and_may_not() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    for path in ["/docs/", "/docs/swagger-ui-bundle.js", "/docs/problems"] {
        let response = page(&gateway, path).await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        let policy = response.headers()["content-security-policy"].to_str();
        let policy = policy.expect("a text").to_owned();
        assert!(policy.starts_with("default-src 'none'"), "{path}: {policy}");
        assert!(!policy.contains("http"), "{path}: {policy}");
    }
    let nowhere = page(&gateway, "/docs/..%2fsecret").await;
    assert_eq!(nowhere.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn pages_are_packed_only_for_who_unpacks() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    for path in ["/docs/", "/docs/swagger-ui-bundle.js"] {
        let ask = async |accepted: &str| {
            let request = gateway.client.get(format!("{}{path}", gateway.url));
            let request = request.header("Accept-Encoding", accepted);
            let response = request.send().await.expect("the gateway answers");
            assert_eq!(response.headers()["vary"], "Accept-Encoding");
            let encoding = response.headers().get("content-encoding").cloned();
            let bytes = response.bytes().await.expect("a body");
            (encoding, bytes)
        };
        let (encoding, plain) = ask("identity").await;
        assert_eq!(encoding, None);
        assert!(std::str::from_utf8(&plain).is_ok(), "{path} is not text");
        let (encoding, packed) = ask("gzip").await;
        if let Some(encoding) = encoding {
            assert_eq!(encoding, "gzip");
            assert_eq!(packed[..2], [0x1f, 0x8b]);
            assert!(packed.len() < plain.len());
        }
    }
}

#[tokio::test]
async fn with_a_public_address_a_problem_names_its_page_absolutely() {
    let site = Site::new().await;
    let public = ("http.public_url", "https://fencepost.example");
    let gateway = site.gateway_with(&[public]).await;
    let (_, problem) = site.buyer(&gateway).get("/v1/jobs/none").await;
    let kind = "https://fencepost.example/docs/problems#not_found";
    assert_eq!(problem["type"], kind);
}
