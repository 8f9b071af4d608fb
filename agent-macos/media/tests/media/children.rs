//! Processes: none outlives its work, and none hangs.

use std::path::Path;
use std::time::{Duration, Instant};

use fencepost_media::StopSignal;
use fencepost_media::child::{self, ChildLimits, ChildSpec, Ended, Finished, LimitKind, Stdout};
use tempfile::TempDir;

use crate::kit::{is_reaped, is_running, pid_in, soon, tools};

const LIMITS: ChildLimits = ChildLimits {
    run_time: Duration::from_secs(20),
    start: None,
    no_progress: None,
    file_bytes: None,
    memory_bytes: None,
};

async fn shell(script: &str, folder: &Path, stop: &StopSignal, limits: ChildLimits) -> Finished {
    let tools = tools().await;
    let spec = ChildSpec {
        program: Path::new("/bin/sh"),
        args: vec!["-c".into(), script.into()],
        folder,
        limits,
        isolation: &tools.isolation,
        roster: None,
    };
    child::run(spec, Stdout::Keep(4096), stop)
        .await
        .expect("a shell that starts")
}

async fn plain(script: &str) -> Finished {
    let folder = TempDir::new().unwrap();
    shell(script, folder.path(), &StopSignal::new(), LIMITS).await
}

#[tokio::test]
async fn a_child_has_no_stdin_and_an_empty_environment() {
    let finished = plain("cat; env").await;
    assert_eq!(finished.ended, Ended::Success);
    let environment = String::from_utf8(finished.stdout).unwrap();
    // What a shell sets by itself.
    let foreign = environment.lines().find(|line| {
        !["PWD=", "_=", "SHLVL=", "OLDPWD="]
            .iter()
            .any(|own| line.starts_with(own))
    });
    assert_eq!(foreign, None);
}

#[tokio::test]
async fn fifty_megabytes_of_stderr_do_not_hang_and_only_the_end_is_kept() {
    let finished =
        plain("head -c 50000000 /dev/zero | tr '\\0' 'x' >&2; echo >&2; echo the end >&2").await;
    assert_eq!(finished.ended, Ended::Success);
    assert_eq!(finished.stderr, "the end\n");
}

#[tokio::test]
async fn a_grandchild_that_ignores_the_stop_is_gone_within_two_seconds() {
    let folder = TempDir::new().unwrap();
    let stop = StopSignal::new();
    let script = "(trap '' TERM; exec sleep 1000) & echo $! > pid; wait";
    let run = shell(script, folder.path(), &stop, LIMITS);
    let stopping = async {
        let pid = pid_in(&folder.path().join("pid")).await;
        stop.cancel();
        (pid, Instant::now())
    };
    let (finished, (pid, asked)) = tokio::join!(run, stopping);
    assert_eq!(finished.ended, Ended::Stopped);
    assert!(soon(|| !is_running(pid)).await);
    assert!(asked.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn a_child_that_ignores_the_stop_is_killed_within_two_seconds_and_reaped() {
    let folder = TempDir::new().unwrap();
    let stop = StopSignal::new();
    let script = "trap '' TERM; echo $$ > pid; while :; do sleep 1; done";
    let run = shell(script, folder.path(), &stop, LIMITS);
    let stopping = async {
        let pid = pid_in(&folder.path().join("pid")).await;
        stop.cancel();
        (pid, Instant::now())
    };
    let (finished, (pid, asked)) = tokio::join!(run, stopping);
    assert!(asked.elapsed() < Duration::from_secs(2));
    assert_eq!(finished.ended, Ended::Stopped);
    assert!(is_reaped(pid));
}

#[tokio::test]
async fn a_child_whose_work_is_dropped_is_killed_with_its_children_and_reaped() {
    let folder = TempDir::new().unwrap();
    let stop = StopSignal::new();
    let script = "trap '' TERM; sleep 1000 & echo $! > grandchild; echo $$ > child; wait";
    let run = shell(script, folder.path(), &stop, LIMITS);
    let dropped = tokio::time::timeout(Duration::from_secs(1), run).await;
    assert!(dropped.is_err(), "the shell was to run on");
    let child = pid_in(&folder.path().join("child")).await;
    let grandchild = pid_in(&folder.path().join("grandchild")).await;
    assert!(soon(|| is_reaped(child) && !is_running(grandchild)).await);
}

#[tokio::test]
async fn what_a_child_leaves_behind_is_killed_when_it_ends_well() {
    let folder = TempDir::new().unwrap();
    let script = "sleep 1000 & echo $! > pid";
    let started = Instant::now();
    let finished = shell(script, folder.path(), &StopSignal::new(), LIMITS).await;
    assert_eq!(finished.ended, Ended::Success);
    assert!(
        started.elapsed() < Duration::from_secs(2),
        "an open pipe must not hold us up"
    );
    let pid = pid_in(&folder.path().join("pid")).await;
    assert!(soon(|| !is_running(pid)).await);
}

#[tokio::test]
async fn each_way_to_end_is_told_apart() {
    assert_eq!(plain("exit 255").await.ended, Ended::Failed(255));
    assert_eq!(plain("kill -SEGV $$").await.ended, Ended::Signal(11));
    let short = ChildLimits {
        run_time: Duration::from_millis(300),
        ..LIMITS
    };
    let folder = TempDir::new().unwrap();
    let late = shell("sleep 1000", folder.path(), &StopSignal::new(), short).await;
    assert_eq!(late.ended, Ended::LimitHit(LimitKind::RunTime));
}

#[tokio::test]
async fn work_that_is_already_stopped_starts_nothing() {
    let folder = TempDir::new().unwrap();
    let stop = StopSignal::new();
    stop.cancel();
    let finished = shell("echo > started", folder.path(), &stop, LIMITS).await;
    assert_eq!(finished.ended, Ended::Stopped);
    assert!(!folder.path().join("started").exists());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_file_larger_than_allowed_ends_the_child() {
    let small = ChildLimits {
        file_bytes: Some(100_000),
        ..LIMITS
    };
    let folder = TempDir::new().unwrap();
    // The pause lets the limit be set before the writing begins.
    let script = "sleep 0.2; exec head -c 10000000 /dev/zero > file";
    let finished = shell(script, folder.path(), &StopSignal::new(), small).await;
    assert_eq!(finished.ended, Ended::LimitHit(LimitKind::FileSize));
}

#[tokio::test]
async fn a_child_reaches_no_network_where_this_machine_can_forbid_it() {
    let isolation = tools().await.isolation;
    if !isolation.is_closed() {
        assert!(
            isolation.describe().contains("not cut off"),
            "it must say so"
        );
        return;
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("tcp://{}", listener.local_addr().unwrap());
    let folder = TempDir::new().unwrap();
    let tools = tools().await;
    let spec = ChildSpec {
        program: &tools.ffmpeg,
        args: ["-nostdin", "-f", "mpegts", "-i", &url]
            .iter()
            .map(Into::into)
            .collect(),
        folder: folder.path(),
        limits: ChildLimits {
            run_time: Duration::from_secs(3),
            ..LIMITS
        },
        isolation: &tools.isolation,
        roster: None,
    };
    let stop = StopSignal::new();
    let called = tokio::select! {
        _ = listener.accept() => true,
        finished = child::run(spec, Stdout::Keep(0), &stop) => {
            assert!(matches!(finished.unwrap().ended, Ended::Failed(_)));
            false
        }
    };
    assert!(!called);
}
