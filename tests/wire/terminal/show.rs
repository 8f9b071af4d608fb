//! What is shown of one thing: a job, a quote, the services; and the help.

use fencepost_domain::attempt::Phase;
use fencepost_tests::Site;
use fencepost_tests::agent_frames::fail;
use fencepost_tests::terminal::{Terminal, complaint};
use serde_json::json;

use super::{succeeded, terminal};

#[tokio::test]
async fn the_help_teaches() {
    let terminal = Terminal::new("http://127.0.0.1:1", "");
    let help = |words: &'static [&'static str]| terminal.run(words);
    let all = String::from_utf8(help(&["--help"]).await.stdout).unwrap();
    for word in [
        "submit",
        "watch",
        "download",
        "Exit codes",
        "FENCEPOST_KEY",
        "Examples:",
    ] {
        assert!(all.contains(word), "{word}: {all}");
    }
    let submit = String::from_utf8(help(&["submit", "--help"]).await.stdout).unwrap();
    for word in [
        "--input source=film.mp4",
        "--idempotency-key",
        "--cancel-on-interrupt",
    ] {
        assert!(submit.contains(word), "{word}: {submit}");
    }
}

#[tokio::test]
async fn a_job_is_shown_with_all_that_there_is_to_say() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let (terminal, buyer) = (terminal(&site, &gateway), site.buyer(&gateway));
    let order = json!({ "service": "noop.v1", "metadata": { "order": "42", "n": [1] } });
    let job = buyer.submit(&order).await;
    let waiting = terminal.says(&["job", "get", &job]).await;
    for said in [
        job.as_str(),
        "queued",
        "no connected device can run it; the nearest lacks noop.v1",
        "order=42",
        "n=[1]",
        "0.006 held",
        "deadline",
    ] {
        assert!(waiting.contains(said), "{said}: {waiting}");
    }
    assert!(
        !waiting.contains("started") && !waiting.contains("ended"),
        "{waiting}"
    );
    let mut mac = site
        .device(&gateway, "studio")
        .await
        .connect(&gateway)
        .await;
    let offer = mac.lease_in(Phase::Running).await;
    let running = terminal.says(&["job", "show", &job]).await;
    assert!(
        running.contains("running") && running.contains("started"),
        "{running}"
    );
    assert!(running.contains("1 on studio: running"), "{running}");
    mac.ask(fail(&offer, "runner_failed")).await;
    let failed = terminal.says(&["job", "get", &job]).await;
    for said in [
        "runner_failed",
        "try other parameters",
        "ended",
        "nothing charged",
    ] {
        assert!(failed.contains(said), "{said}: {failed}");
    }
    mac.cut().await;
    let done = succeeded(&site, &gateway, b"done").await;
    let shown = terminal.says(&["job", "get", &done]).await;
    for said in [
        "charged; 0.006 was held",
        "4 bytes",
        "kept until",
        "job download",
    ] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
    // A program gets what the API says, and nothing else.
    let told = terminal.json(&["get", &done], 0).await;
    assert_eq!(told, [buyer.job(&done).await]);
    let output = terminal.run(&["get", "42"]).await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let told = complaint(&output);
    assert!(
        told.contains("019adf00-") && told.contains("fencepost job list"),
        "{told}"
    );
}

#[tokio::test]
async fn a_quote_needs_no_file_and_the_services_are_shown_in_short() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let terminal = terminal(&site, &gateway);
    let before = site.db.rows().await;
    let words = [
        "job",
        "quote",
        "--service",
        "transcode.v1",
        "--param",
        "codec=h264",
    ];
    let shown = terminal.says(&words).await;
    for said in [
        "0.001, and 0.0005 for each started minute",
        "0.006 at most, for up to 600 s",
        "encode.h264 transcode.v1",
        "no connected device can run it",
    ] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
    let longer = [&words[..], &["--max-output-seconds", "601"]].concat();
    assert_eq!(terminal.told(&longer).await[0]["hold_micros"], 6_500);
    let file = [&words[..], &["--input", "source=/no/such/file"]].concat();
    terminal.says(&file).await;
    assert_eq!(site.db.rows().await, before);
    for (wrong, why) in [
        (["--param", "codec=h265"], "h265"),
        (["--input", "logo=x"], "inputs.logo"),
        (["--param", "height=3"], "params.height"),
    ] {
        let words = [&words[1..4], &wrong[..]].concat();
        let more: &[&str] = if wrong[1].starts_with("codec") {
            &[]
        } else {
            &["--param", "codec=h264"]
        };
        let output = terminal.run(&[&words[..], more].concat()).await;
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(complaint(&output).contains(why), "{output:?}");
    }
    let services = terminal.says(&["job", "services"]).await;
    for said in [
        "transcode.v1",
        "codec=h264|hevc|vp9|prores (must be given)",
        "audio=keep|drop (else keep)",
        "crf=0..51",
        "inputs   source",
    ] {
        assert!(services.contains(said), "{said}: {services}");
    }
    let one = terminal.told(&["job", "services", "transcode.v1"]).await;
    assert_eq!(one[0]["name"], "transcode.v1");
    let output = terminal.run(&["services", "transcode.v9"]).await;
    assert!(complaint(&output).contains("there are: "), "{output:?}");
}
