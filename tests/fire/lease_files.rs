//! Leases that travel from process to process in token files, by the real agent's commands.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use fencepost_tests::agent_process::AgentProcess;
use fencepost_tests::gateway::TTL;
use fencepost_tests::processes::program;
use fencepost_tests::{Site, TestGateway};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;

/// A paired Mac on which no agent runs.
struct Mac {
    agent: AgentProcess,
}

impl Mac {
    async fn new(site: &Site, gateway: &TestGateway) -> Self {
        let agent = site.agent(&gateway.url, "mac").await;
        Self { agent }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.agent.path(name)
    }

    /// The arguments of `lease …` as they are given.
    fn arguments(&self, words: &[&str]) -> Vec<String> {
        let (command, rest) = words.split_first().expect("a command");
        let folder = self.path("").to_str().expect("a plain path").to_owned();
        let mut arguments = vec!["lease".to_owned(), (*command).to_owned()];
        arguments.extend(["--json".to_owned(), "--state-dir".to_owned(), folder]);
        arguments.extend(rest.iter().map(|&word| word.to_owned()));
        arguments
    }

    /// Runs `lease …` in a process of its own; its exit code and what it answers.
    async fn lease(&self, words: &[&str]) -> (i32, Value) {
        self.lease_given(words, b"").await
    }

    /// The same with something on its standard input.
    async fn lease_given(&self, words: &[&str], input: &[u8]) -> (i32, Value) {
        let mut command = tokio::process::Command::new(program("fencepost-agent"));
        command.args(self.arguments(words)).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().expect("it starts");
        let mut stdin = child.stdin.take().expect("it is piped");
        // It may end without reading.
        let _ = stdin.write_all(input).await;
        drop(stdin);
        read(&child.wait_with_output().await.expect("it ends"))
    }

    async fn claim(&self, file: &Path) -> Value {
        let (code, work) = self.lease(&claim(file)).await;
        assert_eq!(code, 0, "{work}");
        work
    }
}

fn claim(file: &Path) -> [&str; 5] {
    let file = file.to_str().expect("a plain path");
    ["claim", "--capability", "noop.v1", "--out", file]
}

fn held<'a>(command: &'a str, file: &'a Path) -> Vec<&'a str> {
    let file = file.to_str().expect("a plain path");
    vec![command, "--token-file", file]
}

fn read(output: &Output) -> (i32, Value) {
    let text = String::from_utf8_lossy(&output.stdout);
    let answer = serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {output:?}"));
    (output.status.code().expect("it ends by itself"), answer)
}

/// The secret in a token file.
fn secret(file: &Path) -> String {
    let line = std::fs::read_to_string(file).expect("it was written");
    line.trim_end()
        .rsplit(' ')
        .next()
        .expect("words")
        .to_owned()
}

#[tokio::test]
async fn one_process_claims_others_work_and_another_commits() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let mac = Mac::new(&site, &gateway).await;
    let file = mac.path("lease.token");
    let (code, nothing) = mac.lease(&claim(&file)).await;
    assert_eq!(
        (code, &nothing["error"]["code"]),
        (5, &Value::from("no_work"))
    );
    assert!(!file.exists(), "a file without a lease is left");

    let job = buyer.submit_noop().await;
    let work = mac.claim(&file).await;
    assert_eq!(
        (&work["job_id"], &work["service"]),
        (&Value::from(job.as_str()), &Value::from("noop.v1"))
    );
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!work.to_string().contains(&secret(&file)));

    let mut running = held("progress", &file);
    running.extend(["--phase", "running", "--percent", "10"]);
    assert_eq!(mac.lease(&running).await.0, 0);
    let mut short = held("renew", &file);
    short.extend(["--for", "1s"]);
    assert_eq!(mac.lease(&short).await.0, 1, "it would not extend");
    site.clock.advance(TTL / 2).await;
    let (code, told) = mac.lease(&held("renew", &file)).await;
    assert_eq!(
        (code, &told["lease_remaining_ms"]),
        (0, &Value::from(8_000))
    );

    let output = mac.path("output.bin");
    std::fs::write(&output, vec![7; 700_000]).unwrap();
    let mut commit = held("commit", &file);
    commit.extend(["--file", output.to_str().unwrap()]);
    let (code, told) = mac.lease(&commit).await;
    assert_eq!(
        (code, &told["status"]),
        (0, &Value::from("succeeded")),
        "{told}"
    );
    assert_eq!(buyer.download(&job).await, vec![7; 700_000]);
    // The lease is used up, for every process.
    let (code, told) = mac.lease(&running).await;
    assert_eq!(
        (code, &told["error"]["code"]),
        (3, &Value::from("lease_conflict"))
    );
}

#[tokio::test]
async fn a_lease_is_also_taken_from_standard_input_and_given_back_or_failed() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let mac = Mac::new(&site, &gateway).await;
    for (command, statuses) in [("release", "queued: lost"), ("fail", "failed: failed")] {
        let job = buyer.submit_noop().await;
        let file = mac.path(command);
        mac.claim(&file).await;
        let line = std::fs::read(&file).unwrap();
        let mut words = held(command, Path::new("-"));
        if command == "fail" {
            words.extend(["--code", "runner_failed", "--message", "the tool is broken"]);
        }
        let (code, told) = mac.lease_given(&words, &line).await;
        assert_eq!(code, 0, "{told}");
        assert_eq!(site.statuses(&job).await, statuses);
        buyer.cancel(&job).await;
    }
}

#[tokio::test]
async fn a_file_in_the_way_is_left_as_it_is_and_nothing_is_claimed() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let job = site.buyer(&gateway).submit_noop().await;
    let mac = Mac::new(&site, &gateway).await;
    let file = mac.path("precious");
    std::fs::write(&file, "precious").unwrap();
    let link = mac.path("link");
    std::os::unix::fs::symlink(mac.path("elsewhere"), &link).unwrap();
    for way in [&file, &link, &mac.path("missing/token")] {
        let (code, told) = mac.lease(&claim(way)).await;
        assert_eq!(code, 1, "{told}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    assert!(!mac.path("elsewhere").exists());
    assert_eq!(site.statuses(&job).await, "queued: none");
    assert_eq!(
        site.db.text("select count(*) from device_requests").await,
        "0"
    );
}

#[tokio::test]
async fn a_lease_that_cannot_be_written_is_reported_without_its_secret_and_stands() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let job = site.buyer(&gateway).submit_noop().await;
    let mac = Mac::new(&site, &gateway).await;
    let disk = mac.path("disk");
    std::fs::create_dir(&disk).unwrap();
    let flags = if rustix::process::geteuid().is_root() {
        "-m"
    } else {
        "-Urm"
    };
    let script = "mount -t tmpfs -o size=16k tmpfs \"$DISK\" || exit 93
        dd if=/dev/zero of=\"$DISK/full\" bs=4096 count=4 2>/dev/null
        \"$@\"; code=$?
        if [ -e \"$DISK/token\" ]; then exit 94; fi
        exit $code";
    let output = tokio::process::Command::new("unshare")
        .args([flags, "/bin/sh", "-c", script, "sh"])
        .arg(program("fencepost-agent"))
        .args(mac.arguments(&claim(&disk.join("token"))))
        .env("DISK", &disk)
        .output()
        .await;
    let mounted = |output: &Output| {
        let said = String::from_utf8_lossy(&output.stderr);
        output.status.code() != Some(93) && !said.contains("unshare:")
    };
    let Some(output) = output.ok().filter(mounted) else {
        assert!(std::env::var_os("CI").is_none(), "no small disk in CI");
        println!("NOT RUN: this machine lets nobody mount a small disk");
        return;
    };
    let (code, told) = read(&output);
    assert_eq!(
        (code, &told["error"]["code"]),
        (7, &Value::from("token_file_failed")),
        "{told}"
    );
    let receipt = &told["receipt"];
    assert_eq!(receipt["job_id"], job.as_str());
    assert_eq!(receipt["lease_epoch"], 1);
    assert!(!told.to_string().contains("commit_token"));
    assert_eq!(site.statuses(&job).await, "active: leased");
    site.clock.advance(TTL).await;
    site.becomes(&job, "queued: lost").await;
}

#[tokio::test]
async fn what_is_no_token_file_is_refused_without_being_repeated() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let job = site.buyer(&gateway).submit_noop().await;
    let mac = Mac::new(&site, &gateway).await;
    let file = mac.path("lease.token");
    mac.claim(&file).await;
    let line = std::fs::read_to_string(&file).unwrap();
    let secret = secret(&file);
    for bad in [
        line.trim_end().to_owned(),
        format!("{line}x"),
        line.replace(' ', "  "),
        secret.clone(),
    ] {
        let (code, told) = mac
            .lease_given(&held("release", Path::new("-")), bad.as_bytes())
            .await;
        assert_eq!(code, 1, "{told}");
        assert!(!told.to_string().contains(&secret), "{told}");
    }
    assert_eq!(site.statuses(&job).await, "active: leased");
}

#[tokio::test]
async fn a_worker_is_told_to_stop_by_its_exit_code_and_a_lost_lease_publishes_nothing() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let mac = Mac::new(&site, &gateway).await;
    let output = mac.path("output.bin");
    std::fs::write(&output, b"late").unwrap();
    let commit = |file: &Path| {
        let mut words: Vec<String> = held("commit", file)
            .into_iter()
            .map(str::to_owned)
            .collect();
        words.extend(["--file".to_owned(), output.to_str().unwrap().to_owned()]);
        words
    };
    let job = buyer.submit_noop().await;
    let file = mac.path("cancelled");
    mac.claim(&file).await;
    buyer.cancel(&job).await;
    assert_eq!(mac.lease(&held("renew", &file)).await.0, 6);
    let words = commit(&file);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    assert_eq!(mac.lease(&words).await.0, 6);
    assert_eq!(mac.lease(&held("release", &file)).await.0, 0);
    assert_eq!(site.statuses(&job).await, "cancelled: cancelled");

    let job = buyer.submit_noop().await;
    let file = mac.path("late");
    mac.claim(&file).await;
    site.clock.advance(TTL).await;
    site.becomes(&job, "queued: lost").await;
    let before = site.rows().await;
    let words = commit(&file);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    assert_eq!(mac.lease(&words).await.0, 3);
    assert_eq!(site.rows().await, before);
}

#[tokio::test]
async fn no_secret_is_an_argument_or_in_the_gateways_log() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    site.buyer(&gateway).submit_noop().await;
    let mac = Mac::new(&site, &gateway).await;
    let file = mac.path("lease.token");
    let work = mac.claim(&file).await;
    let mut running = held("progress", &file);
    running.extend(["--phase", "running"]);
    let (_, told) = mac.lease(&running).await;
    let secrets = [secret(&file), mac.agent.device_token()];
    for text in [
        work.to_string(),
        told.to_string(),
        gateway.process.log(),
        site.db.dump().await,
    ] {
        for secret in &secrets {
            assert!(!text.contains(secret.as_str()));
        }
    }
    // There is no argument that would take one.
    let (code, _) = help(&["lease", "commit", "--help"]).await;
    assert_eq!(code, 0);
    let (_, text) = help(&["lease", "--help"]).await;
    for exit in ["0  done", "3  refused", "5  there is nothing", "7  claimed"] {
        assert!(text.contains(exit), "{text}");
    }
}

async fn help(words: &[&str]) -> (i32, String) {
    let output = fencepost_tests::processes::run("fencepost-agent", words, &[]).await;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code().unwrap_or(-1), text)
}
