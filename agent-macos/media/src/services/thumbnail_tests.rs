//! The command lines of one thumbnail.

use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::args::Args;
use crate::{Container, VideoStream};

fn source(container: Container, transfer: &str) -> Probe {
    let video = VideoStream {
        index: 1,
        transfer: transfer.to_owned(),
        ..VideoStream::sample(Size::new(641, 360), 20.0)
    };
    Probe {
        container,
        ..Probe::sample(video, None)
    }
}

fn params(params: Value) -> ThumbnailParams {
    serde_json::from_value(params).expect("parameters")
}

fn words(args: &Args) -> String {
    let words = args.0.iter().map(|arg| arg.to_string_lossy().into_owned());
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn the_whole_command_lines_of_a_moment() {
    let source = source(Container::Mp4, "bt709");
    let params = params(json!({"at_seconds": 7.5, "width": 101}));
    let still = Still::new(&source, &params, true).unwrap();
    let reading = Reading::up_to(7.5, &source).unwrap();
    let input = Path::new("/w/in.mp4");
    assert_eq!(
        words(&still.counting(input, reading)),
        "-hide_banner -nostdin -y -loglevel warning -nostats -progress pipe:1 -xerror \
         -noaccurate_seek -ss 2.500000 -protocol_whitelist file -f mov -i file:/w/in.mp4 \
         -map 0:1 -vf trim=end=5.000500 -fps_mode passthrough -f null -"
    );
    let args = still.taking(
        input,
        Path::new("/w/output.jpg"),
        reading.from,
        Choice::Number(150),
    );
    assert_eq!(
        words(&args),
        "-hide_banner -nostdin -y -loglevel warning -nostats -progress pipe:1 -xerror \
         -noaccurate_seek -ss 2.500000 -protocol_whitelist file -f mov -i file:/w/in.mp4 \
         -map 0:1 -fps_mode passthrough -frames:v 151 -f null - \
         -map 0:1 -map_metadata -1 -map_chapters -1 -dn \
         -vf select='eq(n,150)',scale=101:57:flags=bicubic,\
         metadata=mode=delete,sidedata=mode=delete,\
         scale=out_color_matrix=bt601:out_range=pc,setsar=1,format=yuvj420p \
         -c:v mjpeg -q:v 2 -fps_mode passthrough -frames:v 1 -f image2pipe file:/w/output.jpg"
    );
}

#[test]
fn a_time_past_the_end_is_refused_by_name_and_with_the_length() {
    let film = source(Container::Mp4, "");
    for within in [0.0, 5.0, 19.99, 20.0] {
        assert!(Reading::up_to(within, &film).is_ok(), "{within}");
    }
    let failure = Reading::up_to(20.5, &film).unwrap_err();
    assert_eq!(failure.code(), Some(FailureCode::InputInvalid));
    let text = failure.to_string();
    assert!(
        text.contains("at_seconds is 20.5") && text.contains("20.00 s"),
        "{text}"
    );
}

#[test]
fn what_has_no_index_is_read_from_the_start() {
    let from = |container, at| Reading::up_to(at, &source(container, "")).unwrap().from;
    assert_eq!(from(Container::Mp4, 12.0), Some(7.0));
    assert_eq!(from(Container::Mp4, 4.0), None);
    assert_eq!(from(Container::MpegTs, 12.0), None);
    let endless = Probe {
        duration_seconds: None,
        video: vec![VideoStream {
            duration_seconds: None,
            end_seconds: None,
            ..source(Container::Matroska, "").video.remove(0)
        }],
        ..source(Container::Matroska, "")
    };
    assert_eq!(Reading::up_to(12.0, &endless).unwrap().from, None);
}

#[test]
fn hdr_is_decided_by_the_transfer_tag() {
    let filters = |transfer: &str, maps| {
        let source = source(Container::Mp4, transfer);
        let params = params(json!({"format": "png"}));
        let still = Still::new(&source, &params, maps).unwrap();
        still.filters(Choice::Typical).join(",")
    };
    assert!(filters("smpte2084", true).contains("tonemap"));
    assert!(!filters("smpte2084", false).contains("tonemap"));
    assert!(!filters("bt709", true).contains("tonemap"));
    assert!(filters("bt709", true).ends_with("format=rgb24"));
}

#[test]
fn the_promise_is_the_displayed_size_or_what_was_asked() {
    let sources = Sources::from([("source".to_owned(), source(Container::Mp4, ""))]);
    let sides = |asked: Value, sources: &Sources| match promise(&params(asked), sources) {
        Promise::Picture(promise) => (promise.width, promise.height),
        other => panic!("no picture: {other:?}"),
    };
    assert_eq!(sides(json!({}), &sources), (Some(641), Some(360)));
    assert_eq!(sides(json!({"width": 64}), &sources), (Some(64), Some(36)));
    assert_eq!(
        sides(json!({"width": 64}), &Sources::new()),
        (Some(64), None)
    );
}
