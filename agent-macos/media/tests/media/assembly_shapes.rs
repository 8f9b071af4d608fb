//! Assemblies of odd inputs, assemblies that fail, and files that are none that was promised.

use std::path::Path;

use fencepost_domain::service::{ServiceName, ServiceParams};
use fencepost_media::fixture::{self, Clip};
use fencepost_media::{
    CheckFailure, Expectation, FailureCode, MediaFailure, Rejection, Size, Sources, StopSignal,
    check_output, probe, run,
};
use serde_json::json;

use crate::assembles::{SERVICE, SRT, assemble, flashing, srt, tone};
use crate::kit::{Kit, code, job_of, stand_in};
use crate::sync::flashes;

#[tokio::test]
async fn a_picture_that_a_file_only_describes_as_cut_is_encoded_so_that_nothing_is_lost() {
    let kit = Kit::new().await;
    // One key frame at the beginning, and a cut at half a second that is only described.
    let whole = flashing(&kit, "whole.mp4", &["-c:v", "libx264", "-g", "300"]).await;
    let args = ["-ss", "0.5", "-i", whole.to_str().unwrap(), "-c", "copy"];
    let video = kit.make("cut.mp4", &args).await;
    let audio = tone(&kit, "tone.mp3", 4).await;
    let inputs: [(&str, &Path); 2] = [("video", &video), ("audio", &audio)];
    let output = assemble(&kit, &inputs, json!({})).await.unwrap();
    assert!(output.encoder.is_some());
    let flashes = flashes(&kit, &output.file);
    assert!(
        flashes.len() == 3 && (flashes[0] - 0.5).abs() < 0.05,
        "{flashes:?}"
    );
}

#[tokio::test]
async fn pictures_that_players_show_differently_are_encoded_upright_square_and_plain() {
    let kit = Kit::new().await;
    let audio = tone(&kit, "tone.mp3", 1).await;
    let base = kit.base(1).await;
    let base = base.to_str().unwrap();
    let turned = kit.source("turned.mp4");
    let new = ["-display_rotation", "90", "-i", base, "-c", "copy"];
    if fixture::ffmpeg(&kit.bench.tools, &new, &turned)
        .await
        .is_err()
    {
        let old = ["-i", base, "-c", "copy", "-metadata:s:v:0", "rotate=90"];
        fixture::ffmpeg(&kit.bench.tools, &old, &turned)
            .await
            .unwrap();
    }
    let coding = ["-an", "-c:v", "libx264", "-preset", "ultrafast"];
    let wide = ["-i", base, "-vf", "setsar=2"];
    let wide = kit.make("wide.mkv", &[&wide[..], &coding].concat()).await;
    let fine = ["-i", base, "-pix_fmt", "yuv420p10le"];
    let fine = kit.make("fine.mp4", &[&fine[..], &coding].concat()).await;
    let odd = Clip {
        width: 321,
        height: 241,
        ..Clip::base(1)
    };
    let odd = kit.clip("odd.mp4", odd).await;
    for (video, size) in [
        (turned, Size::new(360, 640)),
        (wide, Size::new(1280, 360)),
        (fine, Size::new(640, 360)),
        (odd, Size::new(322, 242)),
    ] {
        let inputs: [(&str, &Path); 2] = [("video", &video), ("audio", &audio)];
        let output = assemble(&kit, &inputs, json!({})).await.unwrap();
        assert!(output.encoder.is_some(), "{video:?}");
        assert_eq!(output.checked.size, Some(size), "{video:?}");
    }
}

#[tokio::test]
async fn inputs_that_hold_not_what_they_should_are_refused_by_name() {
    let kit = Kit::new().await;
    let video = kit.base(2).await;
    let audio = tone(&kit, "tone.mp3", 2).await;
    let silent = kit
        .clip(
            "silent.mp4",
            Clip {
                sound: false,
                ..Clip::base(2)
            },
        )
        .await;
    let ass = kit.source("captions.ass");
    std::fs::write(
        &ass,
        "[Script Info]\n[Events]\nDialogue: 0,0:00:00.00,0:00:01.00,x,,0,0,0,,Hi\n",
    )
    .unwrap();
    let late = srt(&kit, "1\n00:01:00,000 --> 00:01:01,000\nlate\n");
    for (inputs, words) in [
        (
            [("video", &audio), ("audio", &audio)],
            ["video", "no video"],
        ),
        (
            [("video", &video), ("audio", &silent)],
            ["audio", "no sound"],
        ),
        (
            [("video", &video), ("captions", &ass)],
            ["captions", "srt or vtt"],
        ),
        (
            [("video", &video), ("captions", &late)],
            ["captions", "2.00 s"],
        ),
        (
            [("video", &video), ("captions", &audio)],
            ["captions", "UTF-8"],
        ),
    ] {
        let inputs = inputs.map(|(name, file)| (name, file.as_path()));
        let failure = assemble(&kit, &inputs, json!({})).await.unwrap_err();
        assert_eq!(failure.code(), Some(FailureCode::InputInvalid), "{failure}");
        let text = failure.to_string();
        assert!(
            words.iter().all(|word| text.contains(word)),
            "{words:?}: {text}"
        );
        assert_eq!(kit.work_files().len(), 0);
    }
}

#[tokio::test]
async fn cut_files_are_the_inputs_fault_whether_their_picture_is_copied_or_not() {
    let kit = Kit::new().await;
    let base = kit.base(4).await;
    let base = base.to_str().unwrap();
    let audio = tone(&kit, "tone.mp3", 4).await;
    let front = ["-i", base, "-c", "copy", "-movflags", "+faststart"];
    let front = kit.make("f.mp4", &front).await;
    let matroska = kit.make("m.mkv", &["-i", base, "-c", "copy"]).await;
    let other = kit
        .make("o.mkv", &["-i", base, "-c:v", "mpeg4", "-c:a", "copy"])
        .await;
    for cut in [
        kit.cut(&front, 0.5, "1.mp4"),
        kit.cut(&matroska, 0.5, "2.mkv"),
        kit.cut(&other, 0.5, "3.mkv"),
    ] {
        let inputs: [(&str, &Path); 2] = [("video", &cut), ("audio", &audio)];
        let failure = assemble(&kit, &inputs, json!({})).await.unwrap_err();
        assert_eq!(
            failure.code(),
            Some(FailureCode::InputInvalid),
            "{cut:?} {failure}"
        );
        assert_eq!(kit.work_files().len(), 0);
    }
}

#[tokio::test]
async fn more_than_what_was_sold_is_refused_before_it_is_decoded() {
    let mut kit = Kit::new().await;
    let video = kit.base(4).await;
    let captions = srt(&kit, SRT);
    kit.bench.tools.ffmpeg = stand_in(kit.sources.path(), "ffmpeg", "echo > decoded");
    let inputs: [(&str, &Path); 2] = [("video", &video), ("captions", &captions)];
    let mut job = job_of(SERVICE, &inputs, &json!({}));
    job.max_output_seconds = 2;
    assert_eq!(
        code(run(&kit.bench, &job, &|_| ()).await),
        FailureCode::InputInvalid
    );
    assert_eq!(kit.work_files().len(), 0);
}

#[tokio::test]
async fn a_stopped_or_failing_assembly_leaves_nothing() {
    let mut kit = Kit::new().await;
    let video = kit.make(
        "v.mkv",
        &[
            "-f",
            "lavfi",
            "-i",
            "testsrc=size=1280x720:rate=30:duration=20",
            "-c:v",
            "mpeg4",
        ],
    );
    let video = video.await;
    let captions = srt(&kit, SRT);
    let inputs: [(&str, &Path); 2] = [("video", &video), ("captions", &captions)];
    let job = job_of(SERVICE, &inputs, &json!({}));
    let stop_soon = |_| kit.bench.stop.cancel();
    assert_eq!(
        run(&kit.bench, &job, &stop_soon).await,
        Err(MediaFailure::Stopped)
    );
    assert_eq!(kit.work_files().len(), 0);
    kit.bench.stop = StopSignal::new();
    kit.bench.tools.ffmpeg = stand_in(kit.sources.path(), "ffmpeg", "echo x > output.mp4; exit 1");
    assert_eq!(
        code(run(&kit.bench, &job, &|_| ()).await),
        FailureCode::RunnerFailed
    );
    assert_eq!(kit.work_files().len(), 0);
}

#[tokio::test]
async fn the_check_refuses_files_that_are_not_what_was_promised() {
    let kit = Kit::new().await;
    let video = kit.base(3).await;
    let captions = srt(&kit, SRT);
    let inputs: [(&str, &Path); 2] = [("video", &video), ("captions", &captions)];
    let wish = json!({"caption_language": "eng"});
    let output = assemble(&kit, &inputs, wish.clone()).await.unwrap();
    let made = output.file.to_str().unwrap();
    let params = ServiceParams::parse(ServiceName::AssembleV1, &wish).unwrap();
    let found = probe(&kit.bench, &video).await.unwrap();
    let known = Sources::from([("video".to_owned(), found)]);
    let verdict = async |file: &Path, sources: &Sources| {
        let expectation = Expectation::of(&params, sources, 60).unwrap();
        check_output(&kit.bench, file, &expectation, &|_| ()).await
    };
    verdict(&output.file, &known).await.unwrap();
    verdict(&output.file, &Sources::new()).await.unwrap();
    let rejection = async |file: &Path, sources: &Sources| match verdict(file, sources).await {
        Err(CheckFailure::Rejected(rejection)) => rejection,
        other => panic!("not a rejection: {other:?}"),
    };
    let copy = ["-i", made, "-map", "0", "-c", "copy"];
    let with = async |name: &str, more: &[&str]| kit.make(name, &[&copy, more].concat()).await;
    let bare = with("bare.mp4", &["-sn"]).await;
    assert!(matches!(
        rejection(&bare, &Sources::new()).await,
        Rejection::Streams(_)
    ));
    let short = with("short.mp4", &["-t", "1"]).await;
    assert!(matches!(
        rejection(&short, &known).await,
        Rejection::Duration { .. }
    ));
    let doubled = with("doubled.mp4", &["-map", "0:a"]).await;
    assert!(matches!(
        rejection(&doubled, &Sources::new()).await,
        Rejection::Streams(_)
    ));
    let other = with("other.mp4", &["-c:v", "mpeg4"]).await;
    assert!(matches!(
        rejection(&other, &Sources::new()).await,
        Rejection::Codec { .. }
    ));
    let small = with("small.mp4", &["-c:v", "libx264", "-vf", "scale=64:36"]).await;
    assert!(matches!(
        rejection(&small, &known).await,
        Rejection::PictureSize { .. }
    ));
    let cut = kit.cut(&output.file, 0.6, "cut.mp4");
    assert!(matches!(
        rejection(&cut, &Sources::new()).await,
        Rejection::Undecodable(_)
    ));
}

#[tokio::test]
async fn a_picture_that_begins_late_is_shown_from_the_beginning_and_to_its_end() {
    let kit = Kit::new().await;
    let flashes_late = flashing(&kit, "early.mp4", &["-c:v", "libx264", "-bf", "2"]).await;
    let tone = tone(&kit, "tone.mp3", 5).await;
    for name in ["late.mp4", "late.mkv"] {
        let args = [
            "-itsoffset",
            "0.8",
            "-i",
            flashes_late.to_str().unwrap(),
            "-f",
            "lavfi",
            "-i",
            "sine=duration=4",
            "-c:v",
            "copy",
            "-c:a",
            "aac",
        ];
        let video = kit.make(name, &args).await;
        let inputs: [(&str, &Path); 2] = [("video", &video), ("audio", &tone)];
        let output = assemble(&kit, &inputs, json!({})).await.unwrap();
        let length = output.checked.duration_seconds;
        assert!((length - 4.8).abs() < 0.1, "{name}: {length}");
        let found = probe(&kit.bench, &output.file).await.unwrap();
        let picture = found.main_video().unwrap().duration_seconds.unwrap();
        assert!((picture - 4.8).abs() < 0.1, "{name}: {picture}");
        let flashes = flashes(&kit, &output.file);
        assert!(
            flashes.len() == 3 && (flashes[0] - 1.8).abs() < 0.05,
            "{name}: {flashes:?}"
        );
    }
}
