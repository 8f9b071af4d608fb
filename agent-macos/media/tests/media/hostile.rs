//! Sources that are not what they claim to be.

use std::time::Duration;

use fencepost_media::{FailureCode, MediaFailure, probe};
use serde_json::json;

use crate::kit::{Kit, code};

#[tokio::test]
async fn a_playlist_named_as_video_is_refused_and_reads_no_file_and_calls_no_host() {
    let kit = Kit::new().await;
    kit.make(
        "canary.ts",
        &[
            "-f",
            "lavfi",
            "-i",
            "testsrc=duration=1",
            "-c:v",
            "mpeg2video",
        ],
    )
    .await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap();
    let hls = |what: &str| format!("#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{what}\n");
    let outside = kit.source("canary.ts").display().to_string();
    let texts = [
        "ffconcat version 1.0\nfile canary.ts\n".to_owned(),
        hls("canary.ts"),
        hls(&format!("file://{outside}")),
        hls(&format!("http://{host}/canary.ts")),
        format!("v=0\no=- 0 0 IN IP4 {host}\nc=IN IP4 127.0.0.1\nm=video 5004 RTP/AVP 96\n"),
        format!("<?xml version=\"1.0\"?><MPD><BaseURL>http://{host}/</BaseURL></MPD>"),
    ];
    for text in texts {
        let input = kit.source("input.mp4");
        std::fs::write(&input, &text).unwrap();
        let result = kit.run(&input, json!({"codec": "h264"})).await;
        assert_eq!(code(result), FailureCode::InputInvalid, "{text}");
        assert_eq!(kit.work_files().len(), 0);
    }
    let call = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
    assert!(call.is_err(), "the canary host was called");
}

#[tokio::test]
async fn a_playlist_behind_the_first_bytes_of_a_container_meets_the_forced_demuxer() {
    let kit = Kit::new().await;
    kit.base(1).await;
    for head in [
        &b"\0\0\0\x20ftypisom\n"[..],
        b"\x1a\x45\xdf\xa3\n",
        b"OggS\n",
        b"FLV\x01\n",
    ] {
        let input = kit.source("input.mp4");
        let text = [head, b"#EXTM3U\nffconcat version 1.0\nfile base.mp4\n"].concat();
        std::fs::write(&input, text).unwrap();
        assert_eq!(
            code(probe(&kit.bench, &input).await),
            FailureCode::InputInvalid
        );
    }
}

#[tokio::test]
async fn files_that_are_no_video_are_the_inputs_fault() {
    let kit = Kit::new().await;
    let noise: Vec<u8> = (0..50_000_u32)
        .map(|n| ((n * n) >> 7).to_le_bytes()[0])
        .collect();
    for bytes in [&b""[..], b"x", b"<html>404 Not Found</html>", &noise] {
        let input = kit.source("input.mp4");
        std::fs::write(&input, bytes).unwrap();
        let result = kit.run(&input, json!({"codec": "h264"})).await;
        assert_eq!(code(result), FailureCode::InputInvalid);
    }
}

#[tokio::test]
async fn cut_files_are_the_inputs_fault_even_where_ffmpeg_exits_with_success() {
    let kit = Kit::new().await;
    let base = kit.base(4).await;
    let text = base.to_str().unwrap();
    let front = kit
        .make(
            "f.mp4",
            &["-i", text, "-c", "copy", "-movflags", "+faststart"],
        )
        .await;
    let matroska = kit.make("m.mkv", &["-i", text, "-c", "copy"]).await;
    for (name, cut) in [
        (
            "the index at the end is missing",
            kit.cut(&base, 0.6, "1.mp4"),
        ),
        (
            "the index at the front is there",
            kit.cut(&front, 0.5, "2.mp4"),
        ),
        ("matroska needs no index", kit.cut(&matroska, 0.5, "3.mkv")),
    ] {
        let result = kit.run(&cut, json!({"codec": "h264", "height": 90})).await;
        assert_eq!(code(result), FailureCode::InputInvalid, "{name}");
        assert_eq!(kit.work_files().len(), 0, "{name}");
    }
}

#[tokio::test]
async fn a_damaged_file_fails_with_a_bounded_message_without_paths() {
    let kit = Kit::new().await;
    let base = kit.base(8).await;
    let mut bytes = std::fs::read(&base).unwrap();
    let middle = bytes.len() / 2;
    for (n, byte) in bytes[middle..middle + 3_000].iter_mut().enumerate() {
        *byte = (n * 37 % 251).to_le_bytes()[0];
    }
    std::fs::write(&base, bytes).unwrap();
    let failure = kit
        .run(&base, json!({"codec": "h264", "height": 90}))
        .await
        .unwrap_err();
    let MediaFailure::Failed { code, message } = failure else {
        panic!("it was not stopped")
    };
    assert_eq!(code, FailureCode::InputInvalid, "{message}");
    assert!(message.len() < 1_000 && !message.contains('\0'));
    assert!(
        !message.contains(kit.sources.path().to_str().unwrap()),
        "{message}"
    );
}

#[tokio::test]
async fn a_fifo_and_a_folder_are_refused_at_once() {
    let kit = Kit::new().await;
    let fifo = kit.source("fifo.mp4");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    let look = tokio::time::timeout(Duration::from_secs(2), probe(&kit.bench, &fifo));
    assert_eq!(
        code(look.await.expect("it must not wait for a writer")),
        FailureCode::InputInvalid
    );
    assert_eq!(
        code(probe(&kit.bench, kit.sources.path()).await),
        FailureCode::InputInvalid
    );
}

#[tokio::test]
async fn a_name_that_looks_like_an_option_or_a_protocol_is_only_a_name() {
    let kit = Kit::new().await;
    let base = kit.base(1).await;
    for name in ["-y.mp4", "http:x.mp4", "concat:a|b.mp4", "a b'%d\".mp4"] {
        let odd = kit.source(name);
        std::fs::copy(&base, &odd).unwrap();
        let output = kit.run(&odd, json!({"codec": "h264", "height": 90})).await;
        assert_eq!(output.unwrap().checked.frames, 30, "{name}");
    }
}
