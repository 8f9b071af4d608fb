//! Good sources become what was asked for.

use std::io::Write;
use std::process::{Command, Stdio};

use fencepost_media::fixture::Clip;
use fencepost_media::{Container, Size, capabilities};
use serde_json::json;

use crate::kit::Kit;

#[tokio::test]
async fn a_base_clip_becomes_h264_of_the_asked_height_in_full_length() {
    let kit = Kit::new().await;
    let source = kit.base(3).await;
    let (output, seen) = kit
        .run_noting(&source, json!({"codec": "h264", "height": 180, "crf": 30}))
        .await;
    let output = output.unwrap();
    assert_eq!(output.checked.size, Some(Size::new(320, 180)));
    assert_eq!(output.checked.container, Some(Container::Mp4));
    assert!((output.checked.duration_seconds - 3.0).abs() < 0.2);
    assert!(output.checked.has_audio && output.size_bytes > 0);
    assert_eq!(output.checked.frames, 90);
    assert_eq!(kit.work_files(), [output.file]);
    let percents: Vec<u8> = seen
        .iter()
        .filter_map(|progress| progress.percent)
        .collect();
    assert!(
        percents.is_sorted()
            && percents
                .last()
                .is_some_and(|last| (95..=100).contains(last)),
        "{percents:?}"
    );
}

/// The same work as above in a process whose stdin holds what makes FFmpeg quit.
#[test]
fn a_q_on_our_stdin_does_not_end_an_encode() {
    let test = "transcodes::a_base_clip_becomes_h264_of_the_asked_height_in_full_length";
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    process
        .stdin
        .take()
        .unwrap()
        .write_all(b"qqqqqqqq\nq\n")
        .unwrap();
    let output = process.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}

#[tokio::test]
async fn an_output_path_that_exists_is_written_anew() {
    let kit = Kit::new().await;
    let source = kit.base(1).await;
    std::fs::write(kit.bench.folder.join("output.mp4"), b"half of an older try").unwrap();
    let output = kit
        .run(&source, json!({"codec": "h264", "height": 90}))
        .await
        .unwrap();
    assert_eq!(output.checked.frames, 30);
}

#[tokio::test]
async fn hevc_and_vp9_and_prores_come_in_their_containers() {
    let kit = Kit::new().await;
    let source = kit
        .clip(
            "s.mp4",
            Clip {
                width: 160,
                height: 90,
                ..Clip::base(1)
            },
        )
        .await;
    for (codec, container) in [
        ("hevc", Container::Mp4),
        ("vp9", Container::Webm),
        ("prores", Container::Mov),
    ] {
        let output = kit.run(&source, json!({"codec": codec})).await.unwrap();
        assert_eq!(output.checked.container, Some(container), "{codec}");
        assert_eq!(output.checked.size, Some(Size::new(160, 90)), "{codec}");
        assert!(output.checked.has_audio, "{codec}");
    }
}

#[tokio::test]
async fn bit_rate_and_frame_rate_are_kept_to() {
    let kit = Kit::new().await;
    let source = kit.base(2).await;
    let params = json!({"codec": "h264", "fps": 10.0, "bitrate_kbps": 100, "audio": "drop"});
    let output = kit.run(&source, params).await.unwrap();
    assert_eq!(output.checked.frames, 20);
    assert!(!output.checked.has_audio);
    assert!(output.size_bytes < 60_000, "{} bytes", output.size_bytes);
}

#[tokio::test]
async fn nothing_that_the_source_says_about_its_maker_is_handed_on() {
    let kit = Kit::new().await;
    let base = kit.base(1).await;
    let base = base.to_str().unwrap();
    let secret = [
        "-metadata",
        "title=MY-HOME",
        "-metadata",
        "location=+52.5+013.4/",
    ];
    let args = [&["-i", base, "-c", "copy"], &secret[..]].concat();
    let source = kit.make("tagged.mp4", &args).await;
    let holds = |path: &std::path::Path| {
        let bytes = std::fs::read(path).unwrap();
        bytes.windows(7).any(|part| part == b"MY-HOME")
    };
    assert!(holds(&source));
    let output = kit
        .run(&source, json!({"codec": "h264", "height": 90}))
        .await
        .unwrap();
    assert!(!holds(&output.file));
}

#[tokio::test]
async fn what_this_machine_can_encode_is_proven_by_encoding() {
    let kit = Kit::new().await;
    let words: Vec<String> = capabilities(&kit.bench)
        .await
        .into_iter()
        .map(|capability| capability.0)
        .collect();
    for word in [
        "encode.h264",
        "encode.hevc",
        "encode.vp9",
        "encode.prores",
        "transcode.v1",
        "stitch_export.v1",
        "caption_burn.v1",
        "assemble.v1",
        "audio_mix.v1",
        "thumbnail.v1",
    ] {
        assert!(
            words.iter().any(|proven| proven == word),
            "{word} is not among {words:?}"
        );
    }
    let has_engine = words.iter().any(|word| word.starts_with("videotoolbox."));
    assert!(cfg!(target_os = "macos") || !has_engine);
    assert_eq!(kit.work_files().len(), 0);
}
