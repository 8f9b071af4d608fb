//! The command line of one mix.

use std::path::Path;

use serde_json::{Value, json};

use super::*;

fn sound(container: Container, channels: u32, seconds: f64) -> Probe {
    Probe {
        container,
        duration_seconds: Some(seconds),
        video: Vec::new(),
        audio: vec![AudioStream {
            index: 1,
            codec: "aac".to_owned(),
            channels,
            duration_seconds: Some(seconds),
            late_seconds: 0.0,
            end_seconds: Some(seconds),
        }],
        captions: Vec::new(),
        streams: 1,
    }
}

fn params(params: Value) -> AudioMixParams {
    serde_json::from_value(params).expect("parameters")
}

fn two() -> Sources {
    Sources::from([
        ("track_1".to_owned(), sound(Container::Mp4, 1, 4.0)),
        ("track_2".to_owned(), sound(Container::Wav, 6, 9.0)),
    ])
}

fn seconds(asked: Value, sources: &Sources) -> Option<f64> {
    match promise(&params(asked), sources) {
        Promise::Sound(promise) => promise.length.map(|length| length.seconds),
        other => panic!("no sound: {other:?}"),
    }
}

#[test]
fn the_whole_command_line_of_a_mix() {
    let params = params(json!({"tracks": [
        {"input": "track_2", "gain_db": -6.5},
        {"input": "track_1", "start_seconds": 1.5},
    ]}));
    let (tracks, sources) = (params.tracks_of(std::iter::empty()), two());
    let mix = Mix::new(&params, &tracks, &sources).unwrap();
    let files = [Path::new("/w/2"), Path::new("/w/1")];
    let output = Output::File(Path::new("/w/output.m4a"));
    let args = mix.line(&files, &Finish::Limit.filters(), (output, 62));
    let words = args.0.iter().map(|arg| arg.to_string_lossy().into_owned());
    assert_eq!(
        words.collect::<Vec<_>>().join(" "),
        "-hide_banner -nostdin -y -loglevel warning -nostats -progress pipe:1 -xerror \
         -reinit_filter 0 -protocol_whitelist file -f wav -i file:/w/2 \
         -reinit_filter 0 -protocol_whitelist file -f mov -i file:/w/1 \
         -filter_complex \
         [0:1]asetpts=PTS-STARTPTS,aresample=48000:async=1,aformat=sample_fmts=fltp:channel_layouts=stereo,\
         volume=-6.5dB,adelay=delays=0S:all=1[t0];\
         [1:1]asetpts=PTS-STARTPTS,aresample=48000:async=1,aformat=sample_fmts=fltp,\
         pan=stereo|c0=c0|c1=c0,volume=0dB,adelay=delays=72000S:all=1[t1];\
         [t0][t1]amix=inputs=2:duration=longest:dropout_transition=0:normalize=0,\
         alimiter=limit=0.98:level=0:latency=1,aformat=sample_rates=48000:channel_layouts=stereo[mix] \
         -map [mix] -map_metadata -1 -map_chapters -1 -dn -t 62 \
         -c:a aac -b:a 192k -movflags +faststart -f ipod file:/w/output.m4a"
    );
}

#[test]
fn the_length_is_that_of_the_longest_or_of_the_first_listed() {
    assert_eq!(seconds(json!({}), &two()), Some(9.0));
    assert_eq!(seconds(json!({"length": "first"}), &two()), Some(4.0));
    let late = json!({"length": "first", "tracks": [
        {"input": "track_2", "start_seconds": 2}, {"input": "track_1"},
    ]});
    assert_eq!(seconds(late, &two()), Some(11.0));
    assert_eq!(seconds(json!({}), &Sources::new()), None);
}

#[test]
fn inputs_that_are_not_listed_one_by_one_come_in_the_order_of_their_numbers() {
    let mut sources = two();
    sources.insert("track_10".to_owned(), sound(Container::Mp4, 2, 1.0));
    let first = sources.remove("track_1");
    assert!(first.is_some());
    assert_eq!(seconds(json!({"length": "first"}), &sources), Some(9.0));
}

#[test]
fn a_length_that_is_only_guessed_is_not_promised() {
    let mut sources = two();
    sources.insert("track_1".to_owned(), sound(Container::Mp3, 2, 4.0));
    assert_eq!(seconds(json!({}), &sources), None);
    assert_eq!(seconds(json!({"length": "first"}), &sources), None);
}

#[test]
fn a_track_without_sound_is_the_inputs_fault_by_its_name() {
    let params = params(json!({}));
    let mut sources = two();
    sources.get_mut("track_2").unwrap().audio.clear();
    let tracks = params.tracks_of(["track_1", "track_2"].into_iter());
    let failure = Mix::new(&params, &tracks, &sources).map(drop).unwrap_err();
    assert_eq!(failure.code(), Some(crate::FailureCode::InputInvalid));
    assert!(failure.to_string().contains("track_2"), "{failure}");
}
