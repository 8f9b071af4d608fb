//! Fetching outputs: resumed, checked, and interrupted.

use std::time::Duration;

use fencepost_tests::terminal::complaint;
use fencepost_tests::wait::until;
use fencepost_tests::{Line, Proxy, Site};
use rustix::process::Signal;

use super::{at_port, path, succeeded, terminal};

#[tokio::test]
async fn a_download_that_is_cut_goes_on_where_it_was() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let bytes: Vec<u8> = (0..1_900_000_u32)
        .map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[1])
        .collect();
    let job = succeeded(&site, &gateway, &bytes).await;
    let slow = Line::to(gateway.port()).await;
    let proxy = Proxy::to(slow.port()).await;
    slow.delay(Duration::from_millis(10));
    let (file, part) = (path(&site, "a.bin"), path(&site, "a.bin.part"));
    let log = site.folder.path().join("download.log");
    let words = ["download", &job, "--output", &file];
    let mut download = at_port(&site, proxy.port()).start(&words, &log);
    let size = |name: &str| std::fs::metadata(name).map_or(0, |metadata| metadata.len());
    until("some of it to be there", || async { size(&part) > 100_000 }).await;
    proxy.cut();
    assert!(download.wait().await.success(), "{}", download.log());
    assert!(download.log().contains("going on at"), "{}", download.log());
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
    assert!(!std::fs::exists(&part).unwrap());
    // What another process left is used if it fits, and fetched anew if it does not.
    let terminal = terminal(&site, &gateway);
    for before in [&bytes[..1_000_000], b"something else", &bytes] {
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&part, before).unwrap();
        let output = terminal.run(&words).await;
        assert!(output.status.success(), "{output:?}");
        let is_anew = complaint(&output).contains("all of it again");
        assert_eq!(is_anew, before == b"something else", "{output:?}");
        assert_eq!(std::fs::read(&file).unwrap(), bytes);
    }
}

#[tokio::test]
async fn a_download_that_is_interrupted_says_how_it_goes_on() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let bytes = vec![9; 1_900_000];
    let job = succeeded(&site, &gateway, &bytes).await;
    let slow = Line::to(gateway.port()).await;
    slow.delay(Duration::from_millis(10));
    let (file, part) = (path(&site, "a.bin"), path(&site, "a.bin.part"));
    let log = site.folder.path().join("download.log");
    let words = ["download", &job, "--output", &file];
    let mut download = at_port(&site, slow.port()).start(&words, &log);
    let size = || std::fs::metadata(&part).map_or(0, |metadata| metadata.len());
    until("some of it to be there", || async { size() > 100_000 }).await;
    download.signal(Signal::INT);
    assert_eq!(
        download.wait().await.code(),
        Some(130),
        "{}",
        download.log()
    );
    let said = format!("fencepost job download {job} --output {file}");
    assert!(download.log().contains(&said), "{}", download.log());
    let kept = size();
    assert!(kept > 100_000 && kept < 1_900_000, "{kept}");
    let output = terminal(&site, &gateway).run(&words).await;
    assert!(output.status.success(), "{output:?}");
    assert!(
        !complaint(&output).contains("all of it again"),
        "{output:?}"
    );
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
}

#[tokio::test]
async fn an_output_that_was_deleted_is_gone_and_says_so() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let terminal = terminal(&site, &gateway);
    let job = succeeded(&site, &gateway, b"something").await;
    let told = terminal.json(&["delete-output", &job], 0).await;
    assert_eq!(told[0]["job_id"], job);
    terminal.json(&["delete-output", &job], 0).await;
    let output = terminal.run(&["download", &job]).await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(complaint(&output).contains("was deleted at"), "{output:?}");
    let shown = terminal.says(&["job", "get", &job]).await;
    assert!(shown.contains("deleted at"), "{shown}");
    let upload = site.buyer(&gateway).upload(b"bytes").await;
    terminal.json(&["delete-upload", &upload], 0).await;
    let gone = "select (deleted_at is not null)::text from uploads where id = ";
    let gone = site.db.text(&format!("{gone} '{upload}'")).await;
    assert_eq!(gone, "true");
    for _ in 0..2 {
        terminal.json(&["delete", &job], 0).await;
    }
    let shown = terminal.run(&["get", &job]).await;
    assert_eq!(shown.status.code(), Some(2), "{shown:?}");
    let waiting = site.buyer(&gateway).submit_noop().await;
    let refused = terminal.run(&["delete", &waiting]).await;
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(
        complaint(&refused).contains("cancel it first"),
        "{refused:?}"
    );
}
