//! Lists of jobs: filters, pages, columns, colours, and readers that go away.

use std::process::Stdio;

use fencepost_domain::attempt::Phase;
use fencepost_tests::Site;
use fencepost_tests::agent_frames::fail;
use fencepost_tests::terminal::complaint;
use serde_json::{Value, json};

use super::{succeeded, terminal};

fn ids(jobs: &[Value]) -> Vec<String> {
    let ids = jobs.iter().map(|job| job["id"].as_str().expect("an id"));
    ids.map(str::to_owned).collect()
}

#[tokio::test]
async fn a_list_is_filtered_and_its_limit_is_a_number_that_makes_sense() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let (terminal, buyer) = (terminal(&site, &gateway), site.buyer(&gateway));
    let mut jobs = Vec::new();
    for order in ["41", "42", "43"] {
        let job = json!({ "service": "noop.v1", "metadata": { "order": order, "of": "us" } });
        jobs.push(buyer.submit(&job).await);
    }
    buyer.cancel(&jobs[2]).await;
    let (first, second, third) = (&jobs[0], &jobs[1], &jobs[2]);
    for (words, expected) in [
        (&["--status", "queued"][..], vec![second, first]),
        (&["--metadata", "order=42"], vec![second]),
        (
            &["--metadata", "of=us", "--metadata", "order=43"],
            vec![third],
        ),
        (&["--metadata", "order=44"], vec![]),
        (
            &["--service", "noop.v1", "--limit", "2"],
            vec![third, second],
        ),
        (&["--service", "transcode.v1"], vec![]),
        (&["--created-after", "2100-01-01T00:00:00Z"], vec![]),
        (&["--all"], vec![third, second, first]),
    ] {
        let words = [&["list"], words].concat();
        let listed = ids(&terminal.json(&words, 0).await);
        assert_eq!(listed.iter().collect::<Vec<_>>(), expected, "{words:?}");
    }
    for (words, why) in [
        (["--limit", "0"], "between 1 and 1000"),
        (["--limit", "1001"], "--all"),
        (["--limit", "many"], "between 1 and 1000"),
        (["--status", "done"], "must be one of queued"),
        (["--service", "noop"], "service: must be"),
        (["--metadata", "order"], "NAME=VALUE"),
        (["--created-after", "today"], "2026-11-30T12:00:00Z"),
    ] {
        let output = terminal.run(&[&["list"], &words[..]].concat()).await;
        assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
        assert!(complaint(&output).contains(why), "{words:?}: {output:?}");
        let output = terminal
            .run(&[&["list", "--json"], &words[..]].concat())
            .await;
        let error: Value = serde_json::from_slice(&output.stderr).expect("JSON");
        assert_eq!(error["error"]["exit_code"], 2, "{error}");
    }
}

#[tokio::test]
async fn all_jobs_are_fetched_page_by_page_as_far_as_they_are_read() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let (terminal, buyer) = (terminal(&site, &gateway), site.buyer(&gateway));
    for _ in 0..205 {
        buyer.submit_noop().await;
    }
    let all = ids(&terminal.json(&["list", "--all"], 0).await);
    assert_eq!(all.len(), 205);
    assert!(all.is_sorted_by(|a, b| a > b), "{all:?}");
    assert_eq!(
        terminal.json(&["list", "--limit", "150"], 0).await.len(),
        150
    );
    assert_eq!(terminal.json(&["list"], 0).await.len(), 20);
    let shown = terminal.says(&["job", "list", "--all"]).await;
    assert_eq!(shown.lines().count(), 206);
    assert_eq!(shown.matches("JOB").count(), 1, "{shown}");
    // A reader that goes away ends it, without a word.
    let mut command = terminal.command(&["job", "list", "--all"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    command.stdout(writer).stderr(Stdio::piped());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = output.await.unwrap();
    assert_eq!(output.status.code(), Some(141), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[tokio::test]
async fn a_list_says_what_a_job_costs_now_and_fits_its_terminal() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let (terminal, buyer) = (terminal(&site, &gateway), site.buyer(&gateway));
    let done = succeeded(&site, &gateway, b"done").await;
    let failed = buyer.submit_noop().await;
    let mut mac = site.device(&gateway, "other").await.connect(&gateway).await;
    let offer = mac.lease_in(Phase::Running).await;
    mac.ask(fail(&offer, "runner_failed")).await;
    let cancelled = buyer.submit_and_cancel().await;
    mac.cut().await;
    let waiting = buyer.submit_noop().await;
    let charged = buyer.job(&done).await["money"]["captured_micros"].clone();
    let shown = terminal.says(&["job", "list"]).await;
    let head = shown.lines().next().unwrap();
    assert_eq!(
        head.split_whitespace().collect::<Vec<_>>(),
        ["JOB", "SERVICE", "IS", "COST", "CREATED"]
    );
    let column = head.find("COST").unwrap();
    let cost = |id: &str| {
        let line = shown.lines().find(|line| line.starts_with(id)).unwrap();
        let end = column + "0.006 held  ".len();
        line.get(column..end)
            .unwrap_or(&line[column..])
            .trim()
            .to_owned()
    };
    assert_eq!(cost(&waiting), "0.006 held", "{shown}");
    assert_eq!((cost(&done).as_str(), charged), ("0.001", json!(1_000)));
    for free in [&failed, &cancelled] {
        assert!(!cost(free).contains('.'), "{shown}");
    }
    assert!(shown.contains("failed: runner_failed"), "{shown}");
    assert!(!shown.contains('\u{1b}'), "{shown}");
    // On a terminal there are colours, and no line is longer than it is wide.
    let plain = |text: &str| console::strip_ansi_codes(text).into_owned();
    let (wide, status) = terminal.screen(&["job", "list"], 200, &[]).await;
    assert!(status.success(), "{wide}");
    assert!(wide.contains("\u{1b}[31m"), "{wide:?}");
    assert_eq!(plain(&wide), shown);
    let (narrow, _) = terminal.screen(&["job", "list"], 76, &[]).await;
    let widest = plain(&narrow);
    let widest = widest.lines().map(|line| line.chars().count()).max();
    assert!(widest.unwrap() <= 76 && narrow.contains('…'), "{narrow}");
    assert!(narrow.contains(&failed), "{narrow}");
    let (grey, _) = terminal
        .screen(&["job", "list"], 200, &[("NO_COLOR", "1")])
        .await;
    assert_eq!(grey, shown);
}
