//! Failing at every step of the work, again and again, leaves no process: neither one that runs nor
//! one that nobody has reaped.

use std::time::Duration;

use fencepost_media::{FailureCode, MediaFailure, Roster, StopSignal};
use serde_json::{Value, json};

use crate::kit::{Kit, stand_in};

/// Describes the source as a video that is short enough.
const REPORT: &str = "echo '{\"streams\":[{\"index\":0,\"codec_type\":\"video\",\
                      \"codec_name\":\"h264\",\"width\":64,\"height\":64,\"duration\":\"1\",\
                      \"avg_frame_rate\":\"10/1\"}],\"format\":{\"duration\":\"1\"}}'";

/// How the work ends in one round.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    Code(FailureCode),
    Stopped,
    Dropped,
}

/// ffprobe, ffmpeg, and how that ends: one line for each step that can fail.
pub(crate) const STEPS: [(&str, &str, End); 8] = [
    (
        "echo no json",
        "exit 0",
        End::Code(FailureCode::InternalError),
    ),
    ("exit 1", "exit 0", End::Code(FailureCode::InputInvalid)),
    (REPORT, "exit 1", End::Code(FailureCode::RunnerFailed)),
    (REPORT, "exit 0", End::Code(FailureCode::RunnerFailed)),
    (
        REPORT,
        "kill -SEGV $$",
        End::Code(FailureCode::RunnerFailed),
    ),
    // The output is written, and is not what it should be.
    (
        REPORT,
        "echo x > output.mp4",
        End::Code(FailureCode::RunnerFailed),
    ),
    (REPORT, "sleep 1000 & wait", End::Stopped),
    (REPORT, "sleep 1000 & wait", End::Dropped),
];

/// Runs so many rounds, each a step of its own.
pub(crate) async fn rounds(count: usize) {
    let mut kit = Kit::new().await;
    let source = kit.source("source.mp4");
    std::fs::write(&source, b"\0\0\0\x20ftypisom and no more").unwrap();
    let roster = Roster::open(kit.source("children")).unwrap();
    kit.bench.tools.roster = Some(roster.clone());
    let params = json!({"codec": "h264"});
    for round in 0..count {
        let (ffprobe, ffmpeg, end) = STEPS[round % STEPS.len()];
        let name = format!("{}", round % STEPS.len());
        kit.bench.tools.ffprobe = stand_in_once(&kit, &format!("ffprobe{name}"), ffprobe);
        kit.bench.tools.ffmpeg = stand_in_once(&kit, &format!("ffmpeg{name}"), ffmpeg);
        kit.bench.stop = StopSignal::new();
        one(&kit, &source, &params, end).await;
        assert_eq!(kit.work_files().len(), 0, "round {round}");
    }
    // Dropped ones are ended in the background.
    for _ in 0..200 {
        if roster.end_leftovers().unwrap() == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(
        std::fs::read_dir(kit.source("children")).unwrap().count(),
        0
    );
}

async fn one(kit: &Kit, source: &std::path::Path, params: &Value, end: End) {
    let work = kit.run(source, params.clone());
    match end {
        End::Code(code) => {
            let failure = work.await.unwrap_err();
            assert_eq!(failure.code(), Some(code), "{failure}");
        }
        End::Stopped => {
            let stopping = async {
                tokio::time::sleep(Duration::from_millis(60)).await;
                kit.bench.stop.cancel();
            };
            let (ended, ()) = tokio::join!(work, stopping);
            assert_eq!(ended, Err(MediaFailure::Stopped));
        }
        End::Dropped => {
            let dropped = tokio::time::timeout(Duration::from_millis(60), work).await;
            assert!(dropped.is_err(), "{dropped:?}");
        }
    }
}

fn stand_in_once(kit: &Kit, name: &str, script: &str) -> std::path::PathBuf {
    let file = kit.source(name);
    if file.exists() {
        file
    } else {
        stand_in(kit.sources.path(), name, script)
    }
}

/// States of our own children, zombies included.
pub(crate) fn children() -> Vec<String> {
    let own = std::process::id().to_string();
    let output = std::process::Command::new("ps")
        .args(["-ax", "-o", "ppid=,stat=,comm="])
        .output()
        .expect("ps");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let ours = text.lines().filter_map(|line| {
        let (parent, rest) = line.trim().split_once(' ')?;
        let is_ps = rest.trim().ends_with("ps");
        (parent == own && !is_ps).then(|| rest.trim().to_owned())
    });
    ours.collect()
}
