//! A bundle from a buyer's folder to a Mac: listed at the terminal, fetched by a real agent, and
//! another byte anywhere is not what was ordered.

use fencepost_media::fixture::remotion_folder;
use fencepost_tests::Site;
use fencepost_tests::buyer::text;
use fencepost_tests::folder_host::FolderHost;
use fencepost_tests::gateway::TO_THIS_MACHINE;
use fencepost_tests::terminal::Terminal;

#[tokio::test]
async fn a_file_that_was_changed_after_its_manifest_was_written_fails_the_job_by_its_name() {
    let site = Site::new().await;
    let gateway = site.gateway_with(&[TO_THIS_MACHINE]).await;
    let terminal = Terminal::new(&gateway.url, &site.api_key);
    let folder = site.folder.path().join("host");
    let (dist, script) = (folder.join("dist"), folder.join("dist/a b/main.js"));
    std::fs::create_dir_all(dist.join("a b")).expect("a folder");
    std::fs::write(dist.join("index.html"), "<!doctype html>").expect("it is written");
    std::fs::write(&script, "console.log(1)").expect("it is written");
    let host = FolderHost::start(&folder).await;
    let renderer = remotion_folder();
    let renderer = renderer.to_str().expect("a plain path");
    let agent = site.agent(&gateway.url, "mac").await;
    let mut agent = agent.with(&["--remotion", renderer]);
    agent.start();
    agent.is_connected().await;
    let dist = dist.to_str().expect("a plain path");
    let manifest = terminal.told(&["bundle", "manifest", dist]).await.remove(0);
    let digest = text(&manifest["sha256"]);

    std::fs::write(&script, "console.log(2)").expect("it is written");
    let url = host.url("dist/fencepost.json?sig=s3cret");
    let input = format!("bundle={url}#sha256={digest}");
    let order = [
        "submit",
        "--service",
        "remotion.inspect.v1",
        "--input",
        &input,
    ];
    let output = terminal.run(&order).await;
    assert!(output.status.success(), "{output:?}");
    let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let failed = site.buyer(&gateway).until(&id, "failed").await;
    assert_eq!(failed["failure"]["code"], "input_invalid", "{failed}");
    let message = text(&failed["failure"]["message"]);
    assert!(message.contains("file \"a b/main.js\""), "{message}");
    assert!(
        message.contains("another SHA-256 than the manifest says"),
        "{message}"
    );
    // The manifest's signature is shown with no other file, and to nobody else.
    let asked = host.asked();
    let signed: Vec<_> = asked
        .iter()
        .filter(|path| path.contains("s3cret"))
        .collect();
    assert_eq!(signed, ["/dist/fencepost.json?sig=s3cret"]);
    assert!(
        asked.contains(&"/dist/a%20b/main.js".to_owned()),
        "{asked:?}"
    );
    agent.is_idle().await;
    let log = agent.log();
    assert!(!failed.to_string().contains("s3cret") && !log.contains("s3cret"));
}
