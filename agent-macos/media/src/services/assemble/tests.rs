//! What is taken over and what is encoded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::parts::is_plain;
use super::*;
use crate::{AudioStream, Probe, Size, VideoStream};

fn source(codec: &str) -> Probe {
    let video = VideoStream {
        codec: codec.to_owned(),
        ..VideoStream::sample(Size::new(640, 360), 8.0)
    };
    Probe::sample(video, Some(AudioStream::sample(5.0)))
}

fn line(sources: &Sources, encoder: Option<Encoder>, captions: Option<&Path>) -> String {
    let (picture, sound) = streams(sources).expect("streams");
    let parts = Parts {
        picture,
        sound,
        captions,
        language: captions.map(|_| "eng"),
        length: 8.0,
    };
    let files = ["video", "audio"].map(|name| (name.to_owned(), PathBuf::from(format!("/{name}"))));
    let output = Path::new("/output.mp4");
    let args = parts.arguments(&BTreeMap::from(files), output, (encoder, true));
    let words = args.expect("arguments").0.into_iter();
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into()).collect();
    words.join(" ")
}

#[test]
fn the_whole_command_line_of_a_picture_with_other_sound_and_captions() {
    let sources = Sources::from(["video", "audio"].map(|name| (name.to_owned(), source("h264"))));
    assert_eq!(
        line(&sources, None, Some(Path::new("/captions.srt"))),
        "-hide_banner -nostdin -y -loglevel warning -nostats -progress pipe:1 -xerror \
         -protocol_whitelist file -f mov -i file:/video \
         -protocol_whitelist file -f mov -i file:/audio \
         -protocol_whitelist file -f srt -i file:/captions.srt \
         -map 0:0 -map 1:1 -map 2:0 -map_metadata -1 -map_chapters -1 -dn \
         -c:v copy -bsf:v filter_units=remove_types=6 \
         -af aresample=48000:async=1:first_pts=0,apad,atrim=end=8.000000 \
         -c:a aac -b:a 160k -ar 48000 -ac 2 -c:s mov_text -metadata:s:s:0 language=eng \
         -t 8.000000 -movflags +faststart -write_tmcd 0 -f mp4 file:/output.mp4"
    );
}

#[test]
fn the_sound_of_the_video_itself_is_read_from_the_same_file() {
    let sources = Sources::from([("video".to_owned(), source("hevc"))]);
    let copied = line(&sources, None, None);
    assert_eq!(copied.matches(" -i ").count(), 1);
    assert!(copied.contains("-map 0:0 -map 0:1 ") && copied.contains("-tag:v hvc1"));
    let encoder = Encoder::Software(VideoCodec::H264);
    let encoded = line(&sources, Some(encoder), None);
    assert!(encoded.contains("-c:v libx264") && !encoded.contains("copy"));
}

#[test]
fn only_a_picture_that_every_player_shows_alike_is_taken_over() {
    let takes = |change: fn(&mut Probe)| {
        let mut source = source("h264");
        change(&mut source);
        is_plain(source.container, &source.video[0])
    };
    assert!(takes(|_| ()));
    assert!(takes(|source| source.video[0].codec = "hevc".to_owned()));
    assert!(takes(|source| source.container = Container::Matroska));
    let changes: [fn(&mut Probe); 8] = [
        |source| source.video[0].codec = "mpeg4".to_owned(),
        |source| source.video[0].pixel_format = "yuv420p10le".to_owned(),
        |source| source.video[0].pixel_format = "yuvj420p".to_owned(),
        |source| source.video[0].rotation = 90,
        |source| source.video[0].square_pixels = false,
        |source| source.video[0].displayed = Size::new(1280, 360),
        |source| source.container = Container::MpegTs,
        |source| source.container = Container::Avi,
    ];
    for change in changes {
        assert!(!takes(change));
    }
}

#[test]
fn what_is_promised_follows_from_what_is_known() {
    let params = |value| serde_json::from_value::<AssembleParams>(value).expect("parameters");
    let of = |value, sources: &Sources| match promise(&params(value), sources) {
        Promise::Video(promise) => promise,
        other => panic!("another kind of output: {other:?}"),
    };
    let video = Sources::from([("video".to_owned(), source("h264"))]);
    let both = Sources::from(["video", "audio"].map(|name| (name.to_owned(), source("h264"))));
    let nothing = Sources::new();
    let length = |value, sources| of(value, sources).length.map(|length| length.seconds);
    assert_eq!(length(serde_json::json!({}), &both), Some(8.0));
    assert_eq!(
        length(serde_json::json!({"length": "shortest"}), &both),
        Some(5.0)
    );
    assert_eq!(length(serde_json::json!({}), &nothing), None);
    // Without other sound there must be captions.
    assert_eq!(of(serde_json::json!({}), &video).captions, 1..=1);
    assert_eq!(of(serde_json::json!({}), &both).captions, 0..=1);
    assert_eq!(
        of(serde_json::json!({"caption_language": "eng"}), &nothing).captions,
        1..=1
    );
    let unknown = of(serde_json::json!({}), &nothing);
    assert_eq!((unknown.sounds, unknown.captions), (0..=1, 0..=1));
}
