//! Films of odd clips, films that fail, and files that are no film that was promised.

use std::path::Path;
use std::process::Command;

use fencepost_domain::service::{ServiceName, ServiceParams};
use fencepost_media::{
    CheckFailure, Expectation, FailureCode, MediaFailure, Rejection, Size, Sources, StopSignal,
    check_output, probe, run,
};
use serde_json::{Value, json};

use crate::kit::{Kit, code, job_of, stand_in};
use crate::stitches::{SERVICE, gray, luma_at, lumas, stitch};
use crate::sync::beeps;

#[tokio::test]
async fn a_film_longer_than_what_was_sold_is_refused_before_it_is_decoded() {
    let mut kit = Kit::new().await;
    let source = kit.base(2).await;
    kit.bench.tools.ffmpeg = stand_in(kit.sources.path(), "ffmpeg", "echo > decoded");
    let params = json!({"encode": {"codec": "h264"}});
    let inputs: [(&str, &Path); 2] = [("clip_1", &source), ("clip_2", &source)];
    let mut job = job_of(SERVICE, &inputs, &params);
    job.max_output_seconds = 3;
    let result = run(&kit.bench, &job, &|_| ()).await;
    assert_eq!(code(result), FailureCode::InputInvalid);
    assert_eq!(kit.work_files().len(), 0);
}

#[tokio::test]
async fn clips_that_are_cut_or_no_video_are_refused_by_name() {
    let kit = Kit::new().await;
    let base = kit.base(4).await;
    let text = base.to_str().unwrap();
    let matroska = kit.make("m.mkv", &["-i", text, "-c", "copy"]).await;
    let front = ["-i", text, "-c", "copy", "-movflags", "+faststart"];
    let front = kit.make("f.mp4", &front).await;
    let tone = kit
        .make("t.mp3", &["-f", "lavfi", "-i", "sine=duration=1"])
        .await;
    let page = kit.source("page.mp4");
    std::fs::write(&page, "<html>404 Not Found</html>").unwrap();
    for bad in [
        kit.cut(&matroska, 0.5, "1.mkv"),
        kit.cut(&front, 0.5, "2.mp4"),
        tone,
        page,
    ] {
        // After it, so that its failing end is not that of the film.
        let params = json!({"encode": {"codec": "h264", "height": 90}});
        let failure = stitch(&kit, &[&base, &bad, &base], params)
            .await
            .unwrap_err();
        assert_eq!(
            failure.code(),
            Some(FailureCode::InputInvalid),
            "{bad:?} {failure}"
        );
        let is_named = failure.to_string().contains("clip_2");
        // What FFmpeg itself complains about has no name.
        assert!(is_named || bad.ends_with("2.mp4"), "{bad:?} {failure}");
        assert_eq!(kit.work_files().len(), 0);
    }
}

#[tokio::test]
async fn a_stream_of_unknown_length_is_measured_and_one_whose_size_changes_is_fitted() {
    let kit = Kit::new().await;
    let base = kit.base(2).await;
    let text = base.to_str().unwrap();
    let live = kit
        .make("live.mkv", &["-i", text, "-c", "copy", "-live", "1"])
        .await;
    let wide = gray(&kit, "wide.ts", 100, "320x180").await;
    let small = gray(&kit, "small.ts", 200, "64x64").await;
    let changing = kit.source("changing.ts");
    let bytes = [std::fs::read(wide).unwrap(), std::fs::read(small).unwrap()].concat();
    std::fs::write(&changing, bytes).unwrap();
    for fit in ["pad", "crop"] {
        let params = json!({"encode": {"codec": "h264", "width": 160, "height": 160}, "fit": fit});
        let output = stitch(&kit, &[&live, &changing], params).await.unwrap();
        assert_eq!(output.checked.size, Some(Size::new(160, 160)));
        let length = output.checked.duration_seconds;
        assert!((length - 4.0).abs() < 0.15, "{length}");
        let lumas = lumas(&kit, &output.file, "160:16:0:72");
        let shown = [2.2, 2.8, 3.2, 3.8].map(|at| luma_at(&lumas, at));
        assert_eq!(shown, [100, 100, 200, 200], "{fit}");
    }
}

#[tokio::test]
async fn sound_that_begins_late_or_has_a_gap_is_heard_where_it_belongs() {
    let kit = Kit::new().await;
    let black = "color=black:size=64x36:rate=30:duration=4";
    let tone = "sine=frequency=1000:sample_rate=44100:duration=4";
    let parts = "aselect='between(t,0.8,1.2)+between(t,3,3.5)'";
    let inputs = ["-f", "lavfi", "-i", black, "-f", "lavfi", "-i", tone];
    let coding = ["-c:v", "libx264", "-af", parts, "-c:a", "pcm_s16le"];
    let gaps = kit.make("gaps.mkv", &[&inputs[..], &coding].concat()).await;
    let params = json!({"encode": {"codec": "h264"}});
    let output = stitch(&kit, &[&gaps, &gaps], params).await.unwrap();
    assert!((output.checked.duration_seconds - 8.0).abs() < 0.1);
    let beeps = beeps(&kit, &output.file, 4);
    assert_eq!(beeps.len(), 4, "{beeps:?}");
    for (beep, expected) in beeps.iter().zip([0.8, 3.0, 4.8, 7.0]) {
        assert!((beep - expected).abs() < 0.06, "{beeps:?}");
    }
}

#[tokio::test]
async fn a_stopped_or_failing_film_leaves_nothing() {
    let mut kit = Kit::new().await;
    let source = kit.base(20).await;
    let params = json!({"encode": {"codec": "h264", "height": 720}});
    let job = job_of(SERVICE, &[("clip_1", source.as_path())], &params);
    let stop_soon = |_| kit.bench.stop.cancel();
    let result = run(&kit.bench, &job, &stop_soon).await;
    assert_eq!(result, Err(MediaFailure::Stopped));
    assert_eq!(kit.work_files().len(), 0);
    kit.bench.stop = StopSignal::new();
    kit.bench.tools.ffmpeg = stand_in(kit.sources.path(), "ffmpeg", "echo x > output.mp4; exit 1");
    let result = run(&kit.bench, &job, &|_| ()).await;
    assert_eq!(code(result), FailureCode::RunnerFailed);
    assert_eq!(kit.work_files().len(), 0);
}

#[tokio::test]
async fn the_check_refuses_films_that_are_not_what_was_promised() {
    let kit = Kit::new().await;
    let source = kit.base(2).await;
    let params = json!({"encode": {"codec": "h264", "height": 90}});
    let output = stitch(&kit, &[&source, &source], params.clone())
        .await
        .unwrap();
    let made = output.file.to_str().unwrap();
    let found = probe(&kit.bench, &source).await.unwrap();
    let both = [
        ("clip_1".to_owned(), found.clone()),
        ("clip_2".to_owned(), found),
    ];
    let sources = Sources::from(both);
    let service = ServiceName::StitchExportV1;
    let params = ServiceParams::parse(service, &params).unwrap();
    let verdict = async |file: &Path, sources: &Sources| {
        let expectation = Expectation::of(&params, sources, 60).unwrap();
        check_output(&kit.bench, file, &expectation, &|_| ()).await
    };
    verdict(&output.file, &sources).await.unwrap();
    verdict(&output.file, &Sources::new()).await.unwrap();
    let rejection = async |file: &Path, sources: &Sources| match verdict(file, sources).await {
        Err(CheckFailure::Rejected(rejection)) => rejection,
        other => panic!("not a rejection: {other:?}"),
    };
    let short = kit
        .make("short.mp4", &["-i", made, "-t", "2", "-c", "copy"])
        .await;
    let is_length = |rejection: &Rejection| matches!(rejection, Rejection::Duration { .. });
    assert!(is_length(&rejection(&short, &sources).await));
    // A second of picture under all of the sound: the verifier, who knows no source, sees it too.
    let halves = [
        "-t", "1", "-i", made, "-i", made, "-map", "0:v", "-map", "1:a", "-c", "copy",
    ];
    let half = kit.make("half.mp4", &halves).await;
    assert!(is_length(&rejection(&half, &Sources::new()).await));
    let silent = kit
        .make("silent.mp4", &["-i", made, "-an", "-c", "copy"])
        .await;
    assert!(matches!(
        rejection(&silent, &sources).await,
        Rejection::Streams(_)
    ));
    let other = kit.make("other.mkv", &["-i", made, "-c", "copy"]).await;
    assert!(matches!(
        rejection(&other, &Sources::new()).await,
        Rejection::Container { .. }
    ));
    let cut = kit.cut(&output.file, 0.6, "cut.mp4");
    assert!(matches!(
        rejection(&cut, &Sources::new()).await,
        Rejection::Undecodable(_)
    ));
}

#[tokio::test]
async fn bright_and_ordinary_clips_become_one_ordinary_film_without_names_of_their_makers() {
    let kit = Kit::new().await;
    let picture = [
        "-f",
        "lavfi",
        "-i",
        "testsrc2=size=160x90:rate=10:duration=1",
    ];
    let tags = "colorprim=bt2020:transfer=smpte2084:colormatrix=bt2020nc:log-level=error";
    let coding = [
        "-vf",
        "format=yuv420p10le",
        "-c:v",
        "libx265",
        "-x265-params",
        tags,
    ];
    let named = ["-metadata", "title=MY-HOME"];
    let bright = kit
        .make("hdr.mp4", &[&picture[..], &coding, &named].concat())
        .await;
    let plain = kit.base(1).await;
    for codec in ["h264", "prores"] {
        let params = json!({"encode": {"codec": codec, "height": 90}});
        let output = stitch(&kit, &[&plain, &bright], params).await.unwrap();
        let bytes = std::fs::read(&output.file).unwrap();
        assert!(!bytes.windows(7).any(|part| part == b"MY-HOME"));
        let report = Command::new(&kit.bench.tools.ffprobe)
            .args([
                "-v",
                "error",
                "-select_streams",
                "v:0",
                "-show_streams",
                "-of",
                "json",
            ])
            .arg(&output.file)
            .output()
            .unwrap();
        let report: Value = serde_json::from_slice(&report.stdout).unwrap();
        let transfer = &report["streams"][0]["color_transfer"];
        if kit.bench.tools.tone_maps {
            assert_eq!(transfer, "bt709", "{codec}");
        }
    }
}
