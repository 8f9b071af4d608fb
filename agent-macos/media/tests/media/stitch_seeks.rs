//! A clip begins with the picture that is shown at its start, whatever its file knows about where
//! that is, and a clip without the pictures that it should have is called by its name.

use std::path::PathBuf;

use fencepost_media::FailureCode;
use serde_json::json;

use crate::kit::Kit;
use crate::stitches::{lumas, stitch};

/// Four seconds in which each of 100 pictures is brighter than the one before.
async fn brightening(kit: &Kit, name: &str, coding: &str) -> PathBuf {
    let picture = "color=black:size=64x64:rate=25:duration=4,geq=lum='40+2*N':cb=128:cr=128,\
                   format=yuv420p";
    let tone = "sine=duration=4";
    let words: Vec<&str> = coding.split_whitespace().collect();
    let inputs = ["-f", "lavfi", "-i", picture, "-f", "lavfi", "-i", tone];
    kit.make(name, &[&inputs[..], &words].concat()).await
}

#[tokio::test]
async fn files_without_an_index_are_cut_at_the_frame_that_was_asked_for() {
    let kit = Kit::new().await;
    let x264 = "-c:v libx264 -qp 4";
    for (name, coding) in [
        ("a.ts", format!("{x264} -g 25 -c:a mp2")),
        (
            "b.ts",
            format!("{x264} -g 12 -x264-params open-gop=1 -c:a mp2"),
        ),
        ("long.ts", format!("{x264} -g 500 -c:a mp2")),
        (
            "c.mpg",
            "-c:v mpeg2video -q:v 2 -g 25 -bf 2 -c:a mp2".to_owned(),
        ),
        ("d.flv", format!("{x264} -g 25 -c:a aac")),
        ("e.asf", "-c:v msmpeg4 -q:v 2 -g 25 -c:a wmav2".to_owned()),
        ("f.avi", "-c:v mpeg4 -q:v 2 -g 25 -c:a mp2".to_owned()),
        ("g.mkv", format!("{x264} -g 25 -c:a aac")),
    ] {
        let source = brightening(&kit, name, &coding).await;
        let clips = json!([{"input": "clip_1", "start_seconds": 1.5, "end_seconds": 3.0},
                           {"input": "clip_1", "start_seconds": 0.5, "end_seconds": 1.0}]);
        let params = json!({"encode": {"codec": "h264", "crf": 1, "fps": 25.0}, "clips": clips});
        let output = stitch(&kit, &[&source], params).await.unwrap();
        let found = lumas(&kit, &output.file, "64:64:0:0");
        let wanted = (0..38)
            .map(|n| 37.5 + f64::from(n))
            .chain((0..12).map(|n| 12.5 + f64::from(n)));
        let wanted: Vec<f64> = wanted.collect();
        assert!(
            found.len().abs_diff(wanted.len()) <= 1,
            "{name}: {}",
            found.len()
        );
        for (number, ((_, luma), wanted)) in found.iter().zip(&wanted).enumerate() {
            // 1.5 s is half a frame after a picture's beginning; which is shown may be rounded.
            let frame = (luma - 40.0) / 2.0;
            assert!(
                (frame - wanted).abs() < 1.6,
                "{name} {number}: {frame}, not {wanted}"
            );
        }
    }
}

#[tokio::test]
async fn a_clip_that_has_too_few_pictures_is_called_by_its_name_and_its_place() {
    let kit = Kit::new().await;
    let whole = kit.base(2).await;
    let coding = "-c:v libx264 -g 25 -c:a aac -movflags +faststart";
    let cut = brightening(&kit, "front.mp4", coding).await;
    let cut = kit.cut(&cut, 0.5, "cut.mp4");
    for (start, end) in [(0.5, 3.9), (3.5, 3.9)] {
        let clips = json!([{"input": "clip_1"},
                           {"input": "clip_2", "start_seconds": start, "end_seconds": end},
                           {"input": "clip_1"}]);
        let params = json!({"encode": {"codec": "h264", "height": 90}, "clips": clips});
        let failure = stitch(&kit, &[&whole, &cut], params).await.unwrap_err();
        assert_eq!(failure.code(), Some(FailureCode::InputInvalid), "{failure}");
        let text = failure.to_string();
        eprintln!("{text}");
        assert!(text.contains("input clip_2"), "{text}");
        assert!(!text.contains("file:"), "{text}");
        assert_eq!(kit.work_files().len(), 0);
    }
}

#[tokio::test]
async fn a_picture_too_small_for_hevc_is_the_inputs_fault_and_is_said_so() {
    let kit = Kit::new().await;
    let picture = "testsrc=size=8x8:rate=10:duration=1";
    let tiny = ["-f", "lavfi", "-i", picture, "-pix_fmt", "yuv420p"];
    let tiny = kit.make("tiny.mp4", &tiny).await;
    let hevc = json!({"codec": "hevc"});
    let stitched = stitch(&kit, &[&tiny], json!({"encode": hevc})).await;
    let encoded = kit.run(&tiny, hevc).await;
    for (result, name) in [(stitched, "input clip_1"), (encoded, "input source")] {
        let failure = result.unwrap_err();
        assert_eq!(failure.code(), Some(FailureCode::InputInvalid), "{failure}");
        let text = failure.to_string();
        assert!(
            text.contains(name) && text.contains("hevc needs at least 16x16"),
            "{text}"
        );
    }
    assert!(kit.run(&tiny, json!({"codec": "h264"})).await.is_ok());
}
