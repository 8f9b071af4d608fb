//! Ordering: what is checked before anything is sent, and that an order is one job.

use fencepost_tests::buyer::{clip, film};
use fencepost_tests::gateway::{CREDIT, hex_sha256};
use fencepost_tests::stage::start;
use fencepost_tests::terminal::{complaint, lines};
use fencepost_tests::{Line, Site};
use serde_json::json;

use super::{at_port, path, terminal};

#[tokio::test]
async fn a_film_goes_in_and_its_transcode_comes_out() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let terminal = terminal(&site, &gateway);
    let mut agent = site.agent(&gateway.url, "mac").await;
    agent.start();
    let (film_file, result) = (path(&site, "film.mp4"), path(&site, "small.mp4"));
    std::fs::write(&film_file, film(2, 96, 64).await).unwrap();
    let input = format!("source={film_file}");
    let words = [
        "submit",
        "--service",
        "transcode.v1",
        "--param",
        "codec=h264",
        "--param",
        "height=32",
        "--metadata",
        "order=42",
        "--input",
        &input,
        "--output",
        &result,
    ];
    let output = terminal.run(&words).await;
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let sha256 = hex_sha256(&std::fs::read(&result).unwrap());
    assert!(
        said.contains("succeeded") && said.contains(&sha256),
        "{said}"
    );
    let told = complaint(&output);
    assert!(
        told.contains("idempotency key") && told.contains("running"),
        "{told}"
    );
    // Nothing is drawn where nobody looks.
    assert!(
        !told.contains('\u{1b}') && !said.contains('\u{1b}'),
        "{told}{said}"
    );
    let jobs = terminal.json(&["list"], 0).await;
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0]["output"]["sha256"], sha256);
    assert_eq!(jobs[0]["metadata"], json!({ "order": "42" }));
    let id = jobs[0]["id"].as_str().unwrap();
    let name = jobs[0]["output"]["filename"].as_str().unwrap();
    assert_eq!(name, format!("{id}.mp4"));
    // The file is not overwritten by mistake, also not after everything else was done.
    for words in [&["download", id, "--output", &result][..], &words] {
        let output = terminal.run(words).await;
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(complaint(&output).contains("--force"), "{output:?}");
    }
    let told = terminal
        .json(&["download", id, "--output", &result, "--force"], 0)
        .await;
    assert_eq!(told[0]["sha256"], sha256);
    assert_eq!(terminal.json(&["list"], 0).await.len(), 1);
}

#[tokio::test]
async fn an_order_whose_answer_is_lost_is_one_job() {
    let site = Site::new().await;
    let mut command = site.command(&[]);
    command.env("FENCEPOST_TEST_FAULT", "submit_job:committed=abort");
    let mut doomed = start(&mut command, &site.folder.path().join("doomed.log")).await;
    let line = Line::to(doomed.port()).await;
    let log = site.folder.path().join("submit.log");
    let words = ["submit", "--service", "noop.v1", "--json"];
    let mut submit = at_port(&site, line.port()).start(&words, &log);
    doomed.process.wait().await;
    let gateway = site.gateway().await;
    line.lead_to(gateway.port());
    assert!(submit.wait().await.success(), "{}", submit.log());
    let told = lines(submit.log().as_bytes());
    let jobs = site.db.texts("select id from jobs").await;
    assert_eq!(jobs, [told[0]["id"].as_str().unwrap()]);
}

#[tokio::test]
async fn who_gives_an_order_up_is_told_its_key_and_with_that_it_is_one_job() {
    let site = Site::new().await;
    let mut command = site.command(&[]);
    command.env("FENCEPOST_TEST_FAULT", "submit_job:committed=abort");
    let doomed = start(&mut command, &site.folder.path().join("doomed.log")).await;
    let line = Line::to(doomed.port()).await;
    let terminal = at_port(&site, line.port());
    let words = ["submit", "--service", "noop.v1", "--patience", "2s"];
    let output = terminal.run(&[&words[..], &["--json"]].concat()).await;
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let told = complaint(&output);
    let key = told.split("--idempotency-key ").nth(1);
    let key = key.and_then(|rest| rest.split(':').next()).expect(&told);
    let gateway = site.gateway().await;
    line.lead_to(gateway.port());
    let named = [&words[..], &["--idempotency-key", key]].concat();
    let again = terminal.json(&named, 0).await;
    let jobs = site.db.texts("select id from jobs").await;
    assert_eq!(jobs, [again[0]["id"].as_str().unwrap()]);
}

#[tokio::test]
async fn a_file_under_a_used_key_is_refused_with_a_word_about_uploads() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let terminal = terminal(&site, &gateway);
    let film = path(&site, "film.mp4");
    std::fs::write(&film, clip().await).unwrap();
    let input = format!("source={film}");
    let order = [
        "submit",
        "--service",
        "transcode.v1",
        "--param",
        "codec=h264",
        "--input",
        &input,
        "--idempotency-key",
        "order-42",
    ];
    terminal.json(&order, 0).await;
    let output = terminal.run(&order).await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(
        complaint(&output).contains("--input NAME=upload:ID"),
        "{output:?}"
    );
    assert_eq!(site.db.text("select count(*)::text from jobs").await, "1");
}

#[tokio::test]
async fn an_upload_that_was_sent_before_is_named_by_its_id_and_the_order_by_its_key() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let terminal = terminal(&site, &gateway);
    let film = path(&site, "film.mp4");
    std::fs::write(&film, clip().await).unwrap();
    let sent = terminal.json(&["upload", &film], 0).await;
    assert_eq!(sent[0]["sha256"], hex_sha256(clip().await));
    let input = format!("source=upload:{}", sent[0]["upload_id"].as_str().unwrap());
    let order = [
        "submit",
        "--service",
        "transcode.v1",
        "--param",
        "codec=h264",
        "--input",
        &input,
        "--idempotency-key",
        "order-42",
    ];
    let first = terminal.json(&order, 0).await;
    let again = terminal.json(&order, 0).await;
    assert_eq!(first[0]["id"], again[0]["id"]);
    let mut other = order;
    other[4] = "codec=hevc";
    terminal.json(&other, 2).await;
    terminal
        .json(&["upload", &path(&site, "none.mp4")], 2)
        .await;
}

#[tokio::test]
async fn an_order_that_would_be_refused_sends_no_file() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let terminal = terminal(&site, &gateway);
    let (film, empty) = (path(&site, "film.mp4"), path(&site, "empty.mp4"));
    std::fs::write(&film, clip().await).unwrap();
    std::fs::write(&empty, "").unwrap();
    let (source, none) = (format!("source={film}"), path(&site, "none.mp4"));
    let (missing, hollow) = (format!("source={none}"), format!("source={empty}"));
    let folder = format!("source={}", site.folder.path().display());
    let nowhere = path(&site, "none/out.mp4");
    let unknown = "019adf00-0000-7000-8000-000000000001";
    let right = ["--param", "codec=h264", "--input", &source];
    let alone: &[(&[&str], &str)] = &[
        (&["--input", &source], "params.codec"),
        (&right[..2], "inputs: is missing"),
        (&[&right[..3], &[&missing]].concat(), "No such file"),
        (&[&right[..3], &[&hollow]].concat(), "is empty"),
        (&[&right[..3], &[&folder]].concat(), "no regular file"),
    ];
    let more: &[(&[&str], &str)] = &[
        (&["--param", "heigth=2"], "params.heigth"),
        (&["--input", "logo=upload:none"], "id of an upload"),
        (&["--input", &source], "given twice"),
        (&["--output", &nowhere], "no folder"),
        (&["--output", &film], "exists already"),
        (&["--output", &film, "--force"], "replace the input"),
        (&["--label", "A B"], "placement.labels[0]"),
        (&["--deadline", "25h"], "at most 24h"),
        (&["--webhook", unknown], "webhook.endpoint_id"),
    ];
    let more = more
        .iter()
        .map(|(words, why)| ([&right, *words].concat(), *why));
    for (words, why) in alone
        .iter()
        .map(|(words, why)| (words.to_vec(), *why))
        .chain(more)
    {
        let words = [&["submit", "--service", "transcode.v1"], &words[..]].concat();
        let output = terminal.run(&words).await;
        assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
        assert!(complaint(&output).contains(why), "{words:?}: {output:?}");
    }
    let input = format!("film={film}");
    let words = ["submit", "--service", "transcode.v9", "--input", &input];
    let output = terminal.run(&words).await;
    assert!(complaint(&output).contains("transcode.v1"), "{output:?}");
    assert_eq!(
        site.db.text("select count(*)::text from uploads").await,
        "0"
    );
}

#[tokio::test]
async fn too_little_credit_is_known_before_anything_is_sent_and_enough_is_said() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let terminal = terminal(&site, &gateway);
    let film = path(&site, "film.mp4");
    std::fs::write(&film, clip().await).unwrap();
    let source = format!("source={film}");
    let right = ["--param", "codec=h264", "--input", &source];
    let poor = "update org_accounts set available_micros = 5999";
    site.db.execute(poor).await;
    let order = [&["submit", "--service", "transcode.v1"], &right[..]].concat();
    let output = terminal.run(&order).await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let told = complaint(&output);
    assert!(
        told.contains("0.006") && told.contains("0.005999"),
        "{told}"
    );
    let error = terminal.run(&[&order[..], &["--json"]].concat()).await;
    assert!(error.stdout.is_empty(), "{error:?}");
    assert_eq!(
        lines(&error.stderr)[0]["error"]["code"],
        "insufficient_funds"
    );
    assert_eq!(
        site.db.text("select count(*)::text from uploads").await,
        "0"
    );
    let restore = format!("update org_accounts set available_micros = {CREDIT}");
    site.db.execute(&restore).await;
    let output = terminal.run(&order).await;
    assert!(output.status.success(), "{output:?}");
    let told = complaint(&output);
    let (quoted, sent) = (told.find("this holds 0.006"), told.find("sent film.mp4"));
    assert!(quoted.is_some() && quoted < sent, "{told}");
    assert!(
        told.contains("it would wait now: no connected device"),
        "{told}"
    );
}

#[tokio::test]
async fn every_wish_about_a_job_arrives() {
    let site = Site::new().await;
    let gateway = site.gateway_for_webhooks().await;
    let terminal = terminal(&site, &gateway);
    let (endpoint, _) = site.buyer(&gateway).endpoint("http://127.0.0.1:9/").await;
    let words = [
        "submit",
        "--service",
        "noop.v1",
        "--placement",
        "own",
        "--label",
        "studio",
        "--webhook",
        &endpoint,
        "--priority",
        "high",
        "--max-attempts",
        "7",
        "--deadline",
        "90m",
        "--max-output-seconds",
        "61",
        "--metadata",
        "order=42",
    ];
    let job = &terminal.json(&words, 0).await[0];
    assert_eq!(job["webhook"]["endpoint_id"], endpoint);
    assert_eq!(job["max_attempts"], 7);
    assert_eq!(job["money"]["held_micros"], 2_000);
    assert_eq!(job["metadata"], json!({ "order": "42" }));
    let lane = site.db.text("select lane from jobs").await;
    assert!(
        lane.contains("label:studio") && lane.contains(&site.org.to_string()),
        "{lane}"
    );
    let stored = "select extract(epoch from admission_deadline - created_at)::int::text from jobs";
    assert_eq!(site.db.text(stored).await, "5400");
    let ahead = "select extract(epoch from created_at - order_key)::int::text from jobs";
    assert_eq!(site.db.text(ahead).await, "1800");
}
