//! What comes out is what every player shows, and is tagged as what it is.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::kit::Kit;

/// What ffprobe says about the video of a file.
pub(crate) fn tags(kit: &Kit, file: &Path) -> Value {
    let output = Command::new(&kit.bench.tools.ffprobe)
        .args([
            "-v",
            "error",
            "-select_streams",
            "v:0",
            "-show_streams",
            "-of",
            "json",
        ])
        .arg(file)
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["streams"][0].clone()
}

async fn hdr(kit: &Kit, transfer: &str) -> std::path::PathBuf {
    let picture = [
        "-f",
        "lavfi",
        "-i",
        "testsrc2=size=160x90:rate=10:duration=1",
    ];
    let tags = format!("colorprim=bt2020:transfer={transfer}:colormatrix=bt2020nc:log-level=error");
    let coding = [
        "-vf",
        "format=yuv420p10le",
        "-c:v",
        "libx265",
        "-x265-params",
        &tags,
    ];
    kit.make("hdr.mp4", &[&picture[..], &coding[..]].concat())
        .await
}

#[tokio::test]
async fn both_kinds_of_hdr_become_ordinary_or_keep_true_tags() {
    let kit = Kit::new().await;
    for transfer in ["smpte2084", "arib-std-b67"] {
        let source = hdr(&kit, transfer).await;
        let output = kit.run(&source, json!({"codec": "h264"})).await.unwrap();
        let found = tags(&kit, &output.file);
        assert_eq!(
            (&found["pix_fmt"], &found["profile"]),
            (&"yuv420p".into(), &"High".into())
        );
        // Where this FFmpeg cannot map tones, the tags must still be those of the picture.
        let expected = if kit.bench.tools.tone_maps {
            ["bt709"; 3]
        } else {
            [transfer, "bt2020", "bt2020nc"]
        };
        let said = ["color_transfer", "color_primaries", "color_space"].map(|tag| &found[tag]);
        assert_eq!(said, expected, "{found}");
        let output = kit.run(&source, json!({"codec": "prores"})).await.unwrap();
        let found = tags(&kit, &output.file);
        assert_eq!(found["pix_fmt"], "yuv422p10le");
        assert_eq!(found["color_transfer"], transfer);
    }
}

#[tokio::test]
async fn fine_but_ordinary_pictures_are_not_taken_for_hdr_and_play_everywhere() {
    let kit = Kit::new().await;
    let picture = [
        "-f",
        "lavfi",
        "-i",
        "testsrc2=size=160x90:rate=10:duration=1",
    ];
    for format in ["yuv420p10le", "yuv422p", "yuv444p", "yuvj420p"] {
        let coding = ["-c:v", "libx264", "-pix_fmt", format];
        let source = kit
            .make("fine.mkv", &[&picture[..], &coding[..]].concat())
            .await;
        for (codec, profile) in [("h264", "High"), ("hevc", "Main")] {
            let output = kit.run(&source, json!({"codec": codec})).await.unwrap();
            let found = tags(&kit, &output.file);
            let said = (&found["pix_fmt"], &found["profile"]);
            assert_eq!(said, (&"yuv420p".into(), &profile.into()), "{format}");
            // Not tagged at all means tv, by the standards of both codecs.
            assert_ne!(found["color_range"], "pc", "{format}");
            assert!(found["color_transfer"] != "smpte2084", "{format}");
        }
    }
}

#[tokio::test]
async fn the_white_of_a_full_range_picture_is_the_white_of_the_range_that_is_tagged() {
    let kit = Kit::new().await;
    let white = [
        "-f",
        "lavfi",
        "-i",
        "color=white:size=160x90:rate=10:duration=1",
    ];
    let coding = ["-c:v", "libx264", "-pix_fmt", "yuvj420p"];
    let source = kit
        .make("white.mp4", &[&white[..], &coding[..]].concat())
        .await;
    let output = kit.run(&source, json!({"codec": "h264"})).await.unwrap();
    assert_ne!(tags(&kit, &output.file)["color_range"], "pc");
    let print = "signalstats,metadata=print:key=lavfi.signalstats.YAVG:file=-";
    let measured = Command::new(&kit.bench.tools.ffmpeg)
        .args(["-v", "error", "-nostdin", "-i"])
        .arg(&output.file)
        .args(["-vf", print, "-f", "null", "-"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&measured.stdout).into_owned();
    let (_, value) = text.split_once("YAVG=").unwrap();
    let luma: f64 = value.split_whitespace().next().unwrap().parse().unwrap();
    assert!((luma - 235.0).abs() < 3.0, "{luma}");
}
