//! One picture out of a video: the right one, of the right size, and nothing else.

use std::path::{Path, PathBuf};
use std::process::Command;

use fencepost_media::{
    CheckFailure, Container, Expectation, FailureCode, MediaFailure, Output, Rejection, Size,
    Sources, check_output, probe, run,
};
use serde_json::{Value, json};

use crate::kit::{Kit, code, job_of, stand_in};

pub(crate) async fn thumbnail(
    kit: &Kit,
    source: &Path,
    params: Value,
) -> Result<Output, MediaFailure> {
    let job = job_of("thumbnail.v1", &[("source", source)], &params);
    run(&kit.bench, &job, &|_| ()).await
}

/// The pixels of a picture: red, green, blue.
pub(crate) fn pixels(kit: &Kit, picture: &Path) -> Vec<u8> {
    let output = Command::new(&kit.bench.tools.ffmpeg)
        .args(["-v", "error", "-nostdin", "-i"])
        .arg(picture)
        .args(["-f", "rawvideo", "-pix_fmt", "rgb24", "pipe:1"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

/// The mean of all pixels, 0 to 255.
pub(crate) fn brightness(kit: &Kit, picture: &Path) -> f64 {
    let pixels = pixels(kit, picture);
    let sum: u32 = pixels.iter().map(|&value| u32::from(value)).sum();
    f64::from(sum) / f64::from(u32::try_from(pixels.len()).unwrap())
}

/// Six seconds of ten frames each, every one a little brighter than the one before. Most are made
/// of others, and those before a key frame are stored after it.
pub(crate) async fn steps(kit: &Kit, name: &str) -> PathBuf {
    let picture = "color=black:size=64x48:rate=10:duration=6,format=yuv420p,\
                   geq=lum='16+3*N':cb=128:cr=128";
    let gop = "open-gop=1:keyint=20:min-keyint=20:scenecut=0";
    let coding = if Path::new(name).extension().is_some_and(|end| end == "avi") {
        // AVI has no times for frames that are stored out of order.
        ["-c:v", "mpeg4", "-q:v", "2", "-g", "20"]
    } else {
        ["-c:v", "libx264", "-bf", "3", "-x264-params", gop]
    };
    let args = [&["-f", "lavfi", "-i", picture][..], &coding[..]].concat();
    kit.make(name, &args).await
}

/// Which of the steps a picture shows.
#[expect(clippy::cast_possible_truncation, reason = "between 0 and 60")]
pub(crate) fn step(kit: &Kit, picture: &Path) -> i32 {
    (brightness(kit, picture) * 219.0 / 255.0 / 3.0).round() as i32
}

#[tokio::test]
async fn the_picture_is_the_frame_that_is_shown_at_the_time() {
    let kit = Kit::new().await;
    let everywhere = [(0.05, 0), (5.25, 52), (5.99, 59)];
    let exactly = [(0.0, 0), (0.1, 1), (1.95, 19), (2.0, 20), (5.9, 59)];
    for (name, times) in [
        ("s.mp4", &exactly[..]),
        ("s.mkv", &everywhere),
        ("s.mp4", &everywhere),
        ("s.ts", &everywhere),
        ("s.avi", &everywhere),
    ] {
        let source = steps(&kit, name).await;
        for &(at, expected) in times {
            let params = json!({"at_seconds": at, "format": "png"});
            let output = thumbnail(&kit, &source, params).await.unwrap();
            assert_eq!(step(&kit, &output.file), expected, "{name} at {at}");
        }
    }
}

#[tokio::test]
async fn a_frame_that_stands_still_for_long_is_still_the_one_that_is_shown() {
    let kit = Kit::new().await;
    let steps = steps(&kit, "s.mp4").await;
    let drop = "select='not(between(t,0.55,5.75))'";
    let held = [
        "-i",
        steps.to_str().unwrap(),
        "-vf",
        drop,
        "-fps_mode",
        "vfr",
        "-video_track_timescale",
        "90000",
    ];
    for name in ["held.mp4", "held.mkv"] {
        let source = kit.make(name, &held[..6]).await;
        for (at, expected) in [(0.45, 4), (5.7, 5), (5.85, 58), (5.95, 59)] {
            let params = json!({"at_seconds": at, "format": "png"});
            let output = thumbnail(&kit, &source, params).await.unwrap();
            assert_eq!(step(&kit, &output.file), expected, "{name} at {at}");
        }
    }
}

#[tokio::test]
async fn a_time_past_the_end_is_refused_with_its_name_and_the_length() {
    let kit = Kit::new().await;
    for name in ["s.mp4", "s.mkv", "s.ts"] {
        let source = steps(&kit, name).await;
        let past = thumbnail(&kit, &source, json!({"at_seconds": 8.5})).await;
        let failure = past.unwrap_err();
        assert_eq!(failure.code(), Some(FailureCode::InputInvalid), "{name}");
        let text = failure.to_string();
        let says = text.contains("at_seconds is 8.5") && text.contains("6.00 s");
        assert!(
            says || name == "s.ts" && text.contains("at_seconds"),
            "{text}"
        );
        assert_eq!(kit.work_files().len(), 0);
    }
}

#[tokio::test]
async fn without_a_time_it_is_no_frame_of_the_black_beginning() {
    let kit = Kit::new().await;
    let picture = "testsrc=size=160x90:rate=25:duration=10,\
                   drawbox=color=black:t=fill:enable='lt(t,0.96)'";
    for name in ["a.mp4", "a.ts"] {
        // One key frame: what is black has to be decoded all the same.
        let args = [
            "-f", "lavfi", "-i", picture, "-pix_fmt", "yuv420p", "-g", "250",
        ];
        let source = kit.make(name, &args).await;
        let output = thumbnail(&kit, &source, json!({})).await.unwrap();
        assert_eq!(output.file.extension().unwrap(), "jpg");
        assert!(brightness(&kit, &output.file) > 60.0, "{name}");
    }
}

#[tokio::test]
async fn a_picture_has_no_length_and_may_come_from_a_film_longer_than_was_sold() {
    let kit = Kit::new().await;
    let source = steps(&kit, "s.mp4").await;
    let mut job = job_of("thumbnail.v1", &[("source", &source)], &json!({}));
    job.max_output_seconds = 1;
    let output = run(&kit.bench, &job, &|_| ()).await.unwrap();
    assert!(output.checked.duration_seconds.abs() < f64::EPSILON);
    assert_eq!((output.checked.frames, output.encoder), (1, None));
    assert_eq!(output.checked.container, Some(Container::Jpeg));
    assert_eq!(kit.work_files(), [output.file]);
}

#[tokio::test]
async fn sizes_are_as_asked_and_may_be_odd() {
    let kit = Kit::new().await;
    let source = kit.base(1).await;
    for (params, width, height) in [
        (json!({}), 640, 360),
        (json!({"width": 161}), 161, 91),
        (json!({"height": 1}), 2, 1),
        (json!({"width": 33, "height": 77, "format": "png"}), 33, 77),
        (json!({"width": 4096, "format": "png"}), 0, 0),
    ] {
        let made = thumbnail(&kit, &source, params.clone()).await;
        if width == 0 {
            assert_eq!(code(made), FailureCode::InputInvalid, "{params}");
        } else {
            let size = made.unwrap().checked.size;
            assert_eq!(size, Some(Size::new(width, height)), "{params}");
        }
    }
}

#[tokio::test]
async fn the_check_refuses_whatever_is_not_the_picture_that_was_asked_for() {
    let kit = Kit::new().await;
    let source = kit.base(1).await;
    let asked = json!({"width": 160, "at_seconds": 0});
    let good = thumbnail(&kit, &source, asked.clone()).await.unwrap().file;
    let known = Sources::from([(
        "source".to_owned(),
        probe(&kit.bench, &source).await.unwrap(),
    )]);
    let verdict = async |file: &Path, params: &Value, sources: &Sources| {
        let job = job_of("thumbnail.v1", &[("source", &source)], params);
        let expectation = Expectation::of(&job.params, sources, 60).expect("a promise");
        match check_output(&kit.bench, file, &expectation, &|_| ()).await {
            Ok(checked) => Ok(checked),
            Err(CheckFailure::Rejected(rejection)) => Err(rejection),
            Err(other) => panic!("not a rejection: {other}"),
        }
    };
    for sources in [&known, &Sources::new()] {
        let checked = verdict(&good, &asked, sources).await.unwrap();
        assert_eq!(checked.size, Some(Size::new(160, 90)));
        assert!(checked.duration_seconds.abs() < f64::EPSILON);
        let wider = verdict(&good, &json!({"width": 161}), sources).await;
        assert!(matches!(wider, Err(Rejection::PictureSize { .. })));
        let png = verdict(&good, &json!({"width": 160, "format": "png"}), sources).await;
        assert!(matches!(png, Err(Rejection::Container { .. })));
    }
    // Only who knows the source knows how high it had to be.
    let taller = json!({"width": 160, "height": 91, "at_seconds": 0});
    let taller = thumbnail(&kit, &source, taller).await.unwrap().file;
    assert!(verdict(&taller, &asked, &known).await.is_err());
    assert!(verdict(&taller, &asked, &Sources::new()).await.is_ok());

    let bytes = std::fs::read(&good).unwrap();
    let middle = bytes.len() / 2;
    let wrong = kit.source("wrong.jpg");
    let mut damaged = bytes.clone();
    damaged.truncate(middle);
    damaged.extend([0xff, 0xd9]);
    for (what, wrong_bytes) in [
        ("cut", bytes[..middle].to_vec()),
        ("empty", Vec::new()),
        ("twice", bytes.repeat(2)),
        ("junk behind", [&bytes[..], b"MZ and a program"].concat()),
        ("half of it missing", damaged),
        ("a text", b"<html>not a picture</html>".to_vec()),
        ("a film", std::fs::read(&source).unwrap()),
    ] {
        std::fs::write(&wrong, wrong_bytes).unwrap();
        let result = verdict(&wrong, &asked, &Sources::new()).await;
        assert!(result.is_err(), "{what}: {result:?}");
    }
}

#[tokio::test]
async fn nothing_is_left_of_a_picture_that_fails_or_is_stopped() {
    let mut kit = Kit::new().await;
    let source = kit.base(1).await;
    let asked = json!({"at_seconds": 0.5});
    for (script, expected) in [
        ("exit 0", FailureCode::InputInvalid),
        ("echo x > output.jpg", FailureCode::RunnerFailed),
        ("echo x > output.jpg; exit 1", FailureCode::RunnerFailed),
    ] {
        kit.bench.tools.ffmpeg = stand_in(kit.sources.path(), "ffmpeg", script);
        let result = thumbnail(&kit, &source, asked.clone()).await;
        assert_eq!(code(result), expected, "{script}");
        assert_eq!(kit.work_files().len(), 0, "{script}");
    }
    let script = "echo x > output.jpg; echo frame=1; echo progress=continue; sleep 1000 & wait";
    kit.bench.tools.ffmpeg = stand_in(kit.sources.path(), "ffmpeg", script);
    let job = job_of("thumbnail.v1", &[("source", &source)], &asked);
    let stop = |_| kit.bench.stop.cancel();
    let stopped = run(&kit.bench, &job, &stop).await;
    assert_eq!(stopped, Err(MediaFailure::Stopped));
    assert_eq!(kit.work_files().len(), 0);
}
