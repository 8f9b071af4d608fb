//! Stopping, limits, and machines that are at fault.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fencepost_domain::service::Capability;
use fencepost_media::{Encoder, FailureCode, MediaFailure, Overrides, Tools, probe, run};
use serde_json::json;

use crate::kit::{Kit, code, is_reaped, job, pid_in, soon, stand_in};
use crate::leaks;

/// Long enough that it has not ended when it is stopped.
async fn long_source(kit: &Kit) -> PathBuf {
    kit.base(30).await
}

#[tokio::test]
async fn a_stopped_encode_is_stopped_and_not_failed_and_leaves_no_file() {
    let kit = Kit::new().await;
    let source = long_source(&kit).await;
    let asked = std::sync::Mutex::new(None);
    let stop_soon = |_| {
        asked.lock().unwrap().get_or_insert_with(Instant::now);
        kit.bench.stop.cancel();
    };
    let params = json!({"codec": "h264", "height": 720});
    let result = run(&kit.bench, &job(&source, &params), &stop_soon).await;
    let asked = asked.into_inner().unwrap().expect("progress was seen");
    assert!(asked.elapsed() < Duration::from_secs(2));
    assert_eq!(result, Err(MediaFailure::Stopped));
    assert_eq!(kit.work_files().len(), 0);
}

#[tokio::test]
async fn an_encode_whose_future_is_dropped_leaves_neither_process_nor_file() {
    let mut kit = Kit::new().await;
    let source = kit.base(1).await;
    let pid_file = kit.source("pid");
    let script = format!(
        "echo $$ > {}; echo x > output.mp4; sleep 1000",
        pid_file.display()
    );
    kit.bench.tools.ffmpeg = stand_in(kit.sources.path(), "ffmpeg", &script);
    let work = kit.run(&source, json!({"codec": "h264"}));
    assert!(
        tokio::time::timeout(Duration::from_secs(1), work)
            .await
            .is_err()
    );
    let pid = pid_in(&pid_file).await;
    assert!(soon(|| is_reaped(pid)).await);
    assert_eq!(kit.work_files().len(), 0);
}

#[tokio::test]
async fn an_encode_that_takes_too_long_has_exceeded_its_run_time() {
    let mut kit = Kit::new().await;
    let source = long_source(&kit).await;
    kit.bench.limits.run_time = Duration::from_millis(400);
    let result = kit
        .run(&source, json!({"codec": "h264", "height": 720}))
        .await;
    assert_eq!(code(result), FailureCode::RuntimeExceeded);
    assert_eq!(kit.work_files().len(), 0);
}

#[tokio::test]
async fn an_encoder_that_repeats_itself_has_stalled() {
    let mut kit = Kit::new().await;
    let source = kit.base(1).await;
    let script = "while :; do echo frame=7; echo progress=continue; sleep 0.1; done";
    kit.bench.tools.ffmpeg = stand_in(kit.sources.path(), "ffmpeg", script);
    kit.bench.limits.no_progress = Duration::from_millis(700);
    assert_eq!(
        code(kit.run(&source, json!({"codec": "h264"})).await),
        FailureCode::Stalled
    );
}

#[tokio::test]
async fn a_probe_that_never_ends_is_ended_at_its_deadline() {
    let mut kit = Kit::new().await;
    let source = kit.base(1).await;
    let pid_file = kit.source("pid");
    let script = format!("trap '' TERM; echo $$ > {}; sleep 1000", pid_file.display());
    kit.bench.tools.ffprobe = stand_in(kit.sources.path(), "ffprobe", &script);
    kit.bench.limits.probe_time = Duration::from_millis(300);
    let started = Instant::now();
    assert_eq!(code(probe(&kit.bench, &source).await), FailureCode::Stalled);
    assert!(started.elapsed() < Duration::from_secs(3));
    assert!(is_reaped(pid_in(&pid_file).await));
}

#[tokio::test]
async fn a_source_longer_than_what_was_sold_is_refused_before_it_is_decoded() {
    let mut kit = Kit::new().await;
    let source = kit.base(4).await;
    kit.bench.tools.ffmpeg = stand_in(kit.sources.path(), "ffmpeg", "echo > decoded");
    let mut job = job(&source, &json!({"codec": "h264"}));
    job.max_output_seconds = 2;
    let result = run(&kit.bench, &job, &|_| ()).await;
    assert_eq!(code(result), FailureCode::InputInvalid);
    assert_eq!(kit.work_files().len(), 0);
}

#[tokio::test]
async fn a_source_that_is_longer_than_it_says_is_not_encoded_to_its_end() {
    let kit = Kit::new().await;
    let base = kit.base(8).await;
    let live = ["-i", base.to_str().unwrap(), "-c", "copy", "-live", "1"];
    let source = kit.make("live.mkv", &live).await;
    let mut job = job(&source, &json!({"codec": "h264", "height": 90}));
    job.max_output_seconds = 2;
    let result = run(&kit.bench, &job, &|_| ()).await;
    assert_eq!(code(result), FailureCode::InputInvalid);
    assert_eq!(kit.work_files().len(), 0);
}

#[tokio::test]
async fn an_encoder_that_exits_well_without_a_file_has_not_succeeded() {
    let mut kit = Kit::new().await;
    let source = kit.base(1).await;
    kit.bench.tools.ffmpeg = stand_in(kit.sources.path(), "ffmpeg", "exit 0");
    let failure = kit
        .run(&source, json!({"codec": "h264"}))
        .await
        .unwrap_err();
    assert_eq!(failure.code(), Some(FailureCode::RunnerFailed), "{failure}");
    kit.bench.tools.ffmpeg = stand_in(kit.sources.path(), "ffmpeg", "> output.mp4");
    let failure = kit
        .run(&source, json!({"codec": "h264"}))
        .await
        .unwrap_err();
    assert_eq!(failure.code(), Some(FailureCode::RunnerFailed), "{failure}");
    assert_eq!(kit.work_files().len(), 0);
}

#[tokio::test]
async fn a_missing_or_broken_ffmpeg_and_a_missing_folder_are_the_devices_fault() {
    let mut kit = Kit::new().await;
    let source = kit.base(1).await;
    let params = json!({"codec": "h264"});
    let good = kit.bench.clone();
    kit.bench.tools.ffmpeg = PathBuf::from("/nonexistent/ffmpeg");
    assert_eq!(
        code(kit.run(&source, params.clone()).await),
        FailureCode::DeviceFault
    );
    kit.bench = good.clone();
    kit.bench.folder = PathBuf::from("/nonexistent/folder");
    assert_eq!(
        code(kit.run(&source, params.clone()).await),
        FailureCode::DeviceFault
    );
    kit.bench = good;
    let killed = stand_in(kit.sources.path(), "ffmpeg", "kill -KILL $$");
    kit.bench.tools.ffmpeg = killed;
    assert_eq!(
        code(kit.run(&source, params).await),
        FailureCode::DeviceFault
    );
}

#[tokio::test]
async fn hardware_that_fails_is_replaced_by_software_unless_it_was_required() {
    let mut kit = Kit::new().await;
    let source = kit.base(1).await;
    let real = kit.bench.tools.ffmpeg.display();
    let script = format!(
        "case \"$*\" in *videotoolbox*) echo 'no compression session' >&2; exit 1;; esac\n\
         exec {real} \"$@\""
    );
    kit.bench.tools.ffmpeg = stand_in(kit.sources.path(), "ffmpeg", &script);
    let with = async |hardware| {
        let mut job = job(
            &source,
            &json!({"codec": "h264", "height": 90, "hardware": hardware}),
        );
        job.proven.insert(Capability::new("videotoolbox.h264"));
        run(&kit.bench, &job, &|_| ()).await
    };
    let output = with("prefer").await.unwrap();
    assert!(matches!(output.encoder, Some(Encoder::Software(_))));
    assert_eq!(code(with("require").await), FailureCode::DeviceFault);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_full_disk_is_the_devices_fault_and_nothing_is_left_on_it() {
    let kit = Kit::new().await;
    let source = kit.base(1).await;
    let output = kit.bench.folder.join("output.mp4");
    std::os::unix::fs::symlink("/dev/full", &output).unwrap();
    let result = kit
        .run(&source, json!({"codec": "h264", "height": 90}))
        .await;
    assert_eq!(code(result), FailureCode::DeviceFault);
    assert_eq!(kit.work_files().len(), 0);
}

#[tokio::test]
async fn tools_that_are_missing_or_no_ffmpeg_are_told_apart_from_good_ones() {
    let kit = Kit::new().await;
    let with = |ffmpeg: &Path| Overrides {
        ffmpeg: Some(ffmpeg.to_owned()),
        ffprobe: None,
        remotion: None,
    };
    let missing = Tools::find(&with(Path::new("/nonexistent/ffmpeg"))).await;
    assert_eq!(code(missing), FailureCode::DeviceFault);
    let other = stand_in(kit.sources.path(), "other", "echo hello");
    assert_eq!(
        code(Tools::find(&with(&other)).await),
        FailureCode::DeviceFault
    );
    let good = Tools::find(&with(&kit.bench.tools.ffmpeg)).await.unwrap();
    assert_eq!(good.version, kit.bench.tools.version);
}

/// One frame that lasts for twenty hours.
async fn twenty_hours(kit: &Kit) -> PathBuf {
    let frame = [
        "-f",
        "lavfi",
        "-i",
        "color=size=64x64:rate=1/72000",
        "-frames:v",
        "1",
    ];
    let coding = ["-c:v", "libx264", "-pix_fmt", "yuv420p"];
    kit.make("long.mp4", &[&frame[..], &coding[..]].concat())
        .await
}

#[tokio::test]
async fn one_frame_of_twenty_hours_is_refused_and_where_it_was_sold_limited() {
    let mut kit = Kit::new().await;
    let source = twenty_hours(&kit).await;
    let length = probe(&kit.bench, &source).await.unwrap().duration_seconds;
    assert!(length.is_some_and(|length| length > 71_000.0), "{length:?}");
    let params = json!({"codec": "h264", "fps": 60.0});
    assert_eq!(
        code(kit.run(&source, params.clone()).await),
        FailureCode::InputInvalid
    );
    let mut sold = job(&source, &params);
    sold.max_output_seconds = 80_000;
    kit.bench.limits.run_time = Duration::from_secs(1);
    let started = Instant::now();
    let result = run(&kit.bench, &sold, &|_| ()).await;
    assert_eq!(code(result), FailureCode::RuntimeExceeded);
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_eq!(kit.work_files().len(), 0);
}

#[tokio::test]
async fn no_zombie_is_left_after_failing_at_every_step() {
    leaks::rounds(leaks::STEPS.len() * 5).await;
    // Other tests have children too, but a zombie of theirs goes away.
    let none = || !leaks::children().iter().any(|child| child.starts_with('Z'));
    assert!(soon(none).await, "{:?}", leaks::children());
}
