//! The media check refuses whatever is not what was promised, and never blames the file for our
//! own trouble.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fencepost_domain::service::{ServiceName, ServiceParams};
use fencepost_media::{
    CheckFailure, Checked, Expectation, Probe, Rejection, Size, check_output, probe,
};
use serde_json::{Value, json};

use crate::kit::{Kit, stand_in};

async fn check(
    kit: &Kit,
    file: &Path,
    params: Value,
    source: Option<&Probe>,
) -> Result<Checked, CheckFailure> {
    check_output(&kit.bench, file, &expected(&params, source, 60), &|_| ()).await
}

/// What a transcode has to be, with what is known of its source.
fn expected(params: &Value, source: Option<&Probe>, most: u32) -> Expectation {
    let params = ServiceParams::parse(ServiceName::TranscodeV1, params);
    let sources = source.map(|source| ("source".to_owned(), source.clone()));
    let sources = sources.into_iter().collect();
    Expectation::of(
        &params.expect("parameters that are allowed"),
        &sources,
        most,
    )
    .expect("media")
}

fn rejection(result: Result<Checked, CheckFailure>) -> Rejection {
    match result.expect_err("this must not pass") {
        CheckFailure::Rejected(rejection) => rejection,
        other => panic!("not a rejection: {other}"),
    }
}

/// A good output of two seconds, h264 at 160x90, and its source.
async fn good(kit: &Kit) -> (PathBuf, Probe) {
    let source = kit.base(2).await;
    let output = kit
        .run(&source, json!({"codec": "h264", "height": 90}))
        .await
        .unwrap();
    (output.file, probe(&kit.bench, &source).await.unwrap())
}

#[tokio::test]
async fn a_good_output_passes_with_and_without_its_source() {
    let kit = Kit::new().await;
    let (file, source) = good(&kit).await;
    let params = json!({"codec": "h264", "height": 90});
    let checked = check(&kit, &file, params.clone(), Some(&source))
        .await
        .unwrap();
    assert_eq!(
        (checked.size, checked.frames),
        (Some(Size::new(160, 90)), 60)
    );
    check(&kit, &file, params, None).await.unwrap();
}

#[tokio::test]
async fn another_size_or_codec_or_rate_or_sound_than_asked_is_rejected() {
    let kit = Kit::new().await;
    let (file, source) = good(&kit).await;
    let verdict = async |params| rejection(check(&kit, &file, params, Some(&source)).await);
    assert!(matches!(
        verdict(json!({"codec": "h264", "height": 180})).await,
        Rejection::PictureSize { .. }
    ));
    assert!(matches!(
        verdict(json!({"codec": "h264"})).await,
        Rejection::PictureSize { .. }
    ));
    assert!(matches!(
        verdict(json!({"codec": "hevc", "height": 90})).await,
        Rejection::Codec {
            what: "video codec",
            ..
        }
    ));
    assert!(matches!(
        verdict(json!({"codec": "vp9", "height": 90})).await,
        Rejection::Container { .. }
    ));
    assert!(matches!(
        verdict(json!({"codec": "h264", "height": 90, "fps": 25.0})).await,
        Rejection::FrameRate { .. }
    ));
    assert!(matches!(
        verdict(json!({"codec": "h264", "height": 90, "audio": "drop"})).await,
        Rejection::Streams(_)
    ));
}

#[tokio::test]
async fn missing_and_extra_streams_are_rejected() {
    let kit = Kit::new().await;
    let (file, source) = good(&kit).await;
    let file = file.to_str().unwrap();
    let params = json!({"codec": "h264", "height": 90});
    let silent = kit
        .make("silent.mp4", &["-i", file, "-an", "-c", "copy"])
        .await;
    let doubled = kit
        .make(
            "doubled.mp4",
            &["-i", file, "-map", "0", "-map", "0:v", "-c", "copy"],
        )
        .await;
    let sound = kit
        .make("sound.mp4", &["-i", file, "-vn", "-c", "copy"])
        .await;
    for wrong in [silent, doubled, sound] {
        let verdict = rejection(check(&kit, &wrong, params.clone(), Some(&source)).await);
        assert!(matches!(verdict, Rejection::Streams(_)), "{verdict}");
    }
}

#[tokio::test]
async fn an_output_that_ends_too_early_is_rejected() {
    let kit = Kit::new().await;
    let (file, source) = good(&kit).await;
    let params = json!({"codec": "h264", "height": 90});
    let short = kit
        .make(
            "s.mp4",
            &["-i", file.to_str().unwrap(), "-t", "1", "-c", "copy"],
        )
        .await;
    let verdict = rejection(check(&kit, &short, params.clone(), Some(&source)).await);
    assert!(matches!(verdict, Rejection::Duration { .. }), "{verdict}");
    // Its index is at the front, so that the file still opens and states its full length.
    let cut = kit.cut(&file, 0.6, "cut.mp4");
    let verdict = rejection(check(&kit, &cut, params, None).await);
    assert!(matches!(verdict, Rejection::Undecodable(_)), "{verdict}");
}

#[tokio::test]
async fn an_output_that_states_more_than_is_in_it_is_rejected() {
    let kit = Kit::new().await;
    let picture = ["-f", "lavfi", "-i", "testsrc=size=64x64:rate=10:duration=1"];
    let coding = [
        "-pix_fmt",
        "yuv420p",
        "-c:v",
        "libvpx-vp9",
        "-cpu-used",
        "8",
    ];
    let honest = kit
        .make("honest.webm", &[&picture[..], &coding[..]].concat())
        .await;
    let params = json!({"codec": "vp9"});
    let checked = check(&kit, &honest, params.clone(), None).await.unwrap();
    assert!((checked.duration_seconds - 1.0).abs() < 0.2);
    let mut bytes = std::fs::read(&honest).unwrap();
    // The header's length element: its id, its size (8), then milliseconds as a float.
    let element = bytes
        .windows(3)
        .position(|part| part == [0x44, 0x89, 0x88])
        .unwrap();
    bytes[element + 3..element + 11].copy_from_slice(&50_000_f64.to_be_bytes());
    let liar = kit.source("liar.webm");
    std::fs::write(&liar, bytes).unwrap();
    let verdict = rejection(check(&kit, &liar, params, None).await);
    assert!(matches!(verdict, Rejection::Duration { .. }), "{verdict}");
}

#[tokio::test]
async fn files_that_are_nothing_are_rejected() {
    let kit = Kit::new().await;
    let file = kit.source("nothing.mp4");
    std::fs::write(&file, b"").unwrap();
    let params = json!({"codec": "h264"});
    assert_eq!(
        rejection(check(&kit, &file, params.clone(), None).await),
        Rejection::Empty
    );
    std::fs::write(&file, b"not a video at all").unwrap();
    let verdict = rejection(check(&kit, &file, params, None).await);
    assert!(matches!(verdict, Rejection::NotMedia(_)), "{verdict}");
}

#[tokio::test]
async fn an_output_longer_than_what_was_sold_is_rejected() {
    let kit = Kit::new().await;
    let source = kit.base(4).await;
    let expectation = expected(&json!({"codec": "h264"}), None, 2);
    let verdict = rejection(check_output(&kit.bench, &source, &expectation, &|_| ()).await);
    assert!(
        matches!(verdict, Rejection::TooLong { most: 2, .. }),
        "{verdict}"
    );
}

#[tokio::test]
async fn our_own_trouble_is_never_the_files_fault() {
    let mut kit = Kit::new().await;
    let (file, source) = good(&kit).await;
    let params = json!({"codec": "h264", "height": 90});
    let tools = kit.bench.tools.clone();
    let scripts = [
        "sleep 1000",
        "kill -KILL $$",
        "exit 127",
        "echo Cannot allocate memory >&2; exit 1",
    ];
    kit.bench.limits.probe_time = Duration::from_millis(300);
    kit.bench.limits.run_time = Duration::from_millis(300);
    for script in scripts {
        let broken = stand_in(kit.sources.path(), "broken", script);
        for (ffmpeg, ffprobe) in [(&broken, &tools.ffprobe), (&tools.ffmpeg, &broken)] {
            (kit.bench.tools.ffmpeg, kit.bench.tools.ffprobe) = (ffmpeg.clone(), ffprobe.clone());
            let result = check(&kit, &file, params.clone(), Some(&source)).await;
            assert!(
                matches!(result, Err(CheckFailure::Trouble(_))),
                "{script}: {result:?}"
            );
        }
    }
    let missing = check(
        &kit,
        Path::new("/nonexistent/file.mp4"),
        params.clone(),
        None,
    )
    .await;
    assert!(
        matches!(missing, Err(CheckFailure::Trouble(_))),
        "{missing:?}"
    );
    kit.bench.stop.cancel();
    let stopped = check(&kit, &file, params, Some(&source)).await;
    assert_eq!(stopped, Err(CheckFailure::Stopped));
}
