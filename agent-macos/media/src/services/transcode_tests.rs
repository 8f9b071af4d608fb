//! The command line of one transcode.

use serde_json::{Value, json};

use super::*;
use crate::{AudioStream, FailureCode, Size, VideoStream};

fn source(transfer: &str) -> Probe {
    let video = VideoStream {
        index: 1,
        transfer: transfer.to_owned(),
        ..VideoStream::sample(Size::new(640, 360), 8.0)
    };
    let audio = AudioStream {
        index: 2,
        ..AudioStream::sample(8.0)
    };
    Probe::sample(video, Some(audio))
}

fn choose(params: &TranscodeParams, proven: bool) -> Result<Encoder, MediaFailure> {
    let facts = (params.crf.is_some(), proven);
    Encoder::choose(params.codec, params.hardware, facts)
}

fn line(params: &Value, proven: bool, source: &Probe) -> String {
    let params = TranscodeParams::parse(params).expect("parameters that are allowed");
    let encoder = choose(&params, proven).expect("an encoder");
    let plan = Plan::new(source, &params, encoder, true).expect("a plan");
    let args = plan.arguments(Path::new("/w/in.mp4"), Path::new("/w/output.mp4"), 62);
    let words: Vec<String> = args
        .0
        .iter()
        .map(|arg| arg.to_string_lossy().into())
        .collect();
    words.join(" ")
}

#[test]
fn the_whole_command_line_of_a_plain_transcode() {
    assert_eq!(
        line(&json!({"codec": "h264", "height": 180}), false, &source("")),
        "-hide_banner -nostdin -y -loglevel warning -nostats -progress pipe:1 -xerror \
         -protocol_whitelist file -f mov -i file:/w/in.mp4 -map 0:1 -map 0:2 \
         -map_metadata -1 -map_chapters -1 -dn \
         -vf scale=320:180:flags=bicubic:out_range=tv,setsar=1,format=yuv420p -fps_mode vfr \
         -c:v libx264 -preset medium -crf 23 -color_range tv \
         -c:a aac -b:a 160k -ar 48000 -ac 2 -t 62 \
         -movflags +faststart -write_tmcd 0 -f mp4 file:/w/output.mp4"
    );
}

#[test]
fn each_codec_has_its_encoder_quality_and_container() {
    for (codec, parts) in [
        (
            "hevc",
            [
                "-c:v libx265",
                "-crf 28",
                "-tag:v hvc1",
                "-c:a aac",
                "-f mp4",
            ],
        ),
        (
            "vp9",
            [
                "-c:v libvpx-vp9",
                "-crf 32",
                "-b:v 0",
                "-c:a libopus",
                "-f webm",
            ],
        ),
        (
            "prores",
            [
                "-c:v prores_ks",
                "standard",
                "yuv422p10le",
                "-c:a aac",
                "-f mov",
            ],
        ),
    ] {
        let line = line(&json!({"codec": codec}), false, &source(""));
        for part in parts {
            assert!(line.contains(part), "{part} is not in {line}");
        }
    }
}

#[test]
fn hardware_encodes_only_where_it_is_proven_and_wished_and_able() {
    let used = |params, proven| line(&params, proven, &source("")).contains("videotoolbox");
    assert!(used(json!({"codec": "h264"}), true));
    assert!(!used(json!({"codec": "h264"}), false));
    assert!(!used(json!({"codec": "h264", "hardware": "never"}), true));
    assert!(!used(json!({"codec": "h264", "crf": 20}), true));
    assert!(!used(json!({"codec": "vp9"}), true));
    assert!(used(
        json!({"codec": "hevc", "crf": 20, "hardware": "require"}),
        true
    ));
    let required = TranscodeParams::parse(&json!({"codec": "h264", "hardware": "require"}));
    let failure = choose(&required.unwrap(), false).unwrap_err();
    assert_eq!(failure.code(), Some(FailureCode::DeviceFault));
}

#[test]
fn hdr_is_decided_by_the_transfer_tag_and_prores_keeps_it() {
    let mapped = |codec, transfer| {
        line(&json!({"codec": codec}), false, &source(transfer)).contains("tonemap")
    };
    assert!(mapped("h264", "smpte2084") && mapped("vp9", "arib-std-b67"));
    assert!(!mapped("h264", "bt709") && !mapped("prores", "smpte2084"));
}

#[test]
fn a_source_without_video_is_the_inputs_fault() {
    let params = TranscodeParams::parse(&json!({"codec": "h264"})).unwrap();
    let sound = Probe {
        video: Vec::new(),
        ..source("")
    };
    let encoder = Encoder::Software(VideoCodec::H264);
    let plan = Plan::new(&sound, &params, encoder, true).map(drop);
    assert_eq!(plan.unwrap_err().code(), Some(FailureCode::InputInvalid));
}
