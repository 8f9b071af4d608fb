//! The filters that make unlike clips alike.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::*;
use crate::{AudioStream, Encoder, Probe, Size, VideoStream};

fn source(width: u32, height: u32, sound: bool) -> Probe {
    let video = VideoStream {
        fps: Some(29.98),
        ..VideoStream::sample(Size::new(width, height), 8.0)
    };
    Probe::sample(video, sound.then(|| AudioStream::sample(8.0)))
}

fn sources() -> Sources {
    let wide = source(640, 360, true);
    let tall = source(360, 640, false);
    Sources::from([
        ("clip_1".to_owned(), wide.clone()),
        ("clip_2".to_owned(), tall),
        ("clip_10".to_owned(), wide),
    ])
}

fn params(value: &serde_json::Value) -> StitchExportParams {
    serde_json::from_value(value.clone()).expect("parameters")
}

fn line(params: &StitchExportParams, sources: &Sources) -> String {
    let lengths = sources.keys().map(|name| (name.clone(), 8.0)).collect();
    let film = Film::of(params, sources).expect("a film");
    let graph = Graph {
        params,
        film: &film,
        cuts: &film.cuts(params, sources, &lengths).expect("cuts"),
        sources,
        encoder: Encoder::Software(params.encode.codec),
        tone_maps: true,
    };
    let files = sources
        .keys()
        .map(|name| (name.clone(), PathBuf::from(format!("/w/{name}"))))
        .collect();
    let args = graph.arguments(&files, (Path::new("/w/output.mp4"), 62));
    let words = args.expect("arguments").0.into_iter();
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into()).collect();
    words.join(" ")
}

#[test]
fn the_whole_command_line_of_two_unlike_clips() {
    let clips = json!([
        {"input": "clip_1", "start_seconds": 1.5, "end_seconds": 2.5},
        {"input": "clip_2"}
    ]);
    let params = params(&json!({"encode": {"codec": "h264", "fps": 25.0}, "clips": clips}));
    let mut sources = sources();
    sources.remove("clip_10");
    let alike = "aformat=sample_fmts=fltp:channel_layouts=stereo";
    let last = "setsar=1,format=yuv420p,tpad=stop_mode=clone:stop_duration=1.067,";
    let colours = "flags=bicubic+accurate_rnd+full_chroma_int:in_color_matrix=smpte170m:\
                   out_color_matrix=bt709:out_range=tv";
    assert_eq!(
        line(&params, &sources),
        format!(
            "-hide_banner -nostdin -y -loglevel warning -nostats -progress pipe:1 -xerror \
             -reinit_filter:v 0 -noaccurate_seek -ss 1.5 \
             -protocol_whitelist file -f mov -i file:/w/clip_1 \
             -reinit_filter:v 0 -protocol_whitelist file -f mov -i file:/w/clip_2 \
             -filter_complex \
             [0:0]fps=25:start_time=0:eof_action=pass,\
             scale=640:360:{colours},{last}\
             trim=end_frame=25,setpts=PTS-STARTPTS[v0];\
             [0:1]atrim=start=0,aresample=48000:async=1:first_pts=0,{alike},\
             apad,atrim=end=1.000000,asetpts=PTS-STARTPTS[a0];\
             [1:0]fps=25:start_time=0:eof_action=pass,\
             scale=202:360:{colours},pad=640:360:218:0,{last}\
             trim=end_frame=200,setpts=PTS-STARTPTS[v1];\
             anullsrc=r=48000:cl=stereo,{alike},atrim=end=8.000000,asetpts=PTS-STARTPTS[a1];\
             [v0][a0][v1][a1]concat=n=2:v=1:a=1[film][sound];[film]setpts=N/25/TB,\
             setparams=range=tv:color_primaries=bt709:color_trc=bt709:colorspace=bt709[picture] \
             -map [picture] -map [sound] -map_metadata -1 -map_chapters -1 -dn -fps_mode cfr \
             -c:v libx264 -preset medium -crf 23 \
             -color_primaries bt709 -color_trc bt709 -colorspace bt709 -color_range tv \
             -c:a aac -b:a 160k -ar 48000 -ac 2 -t 62 \
             -movflags +faststart -write_tmcd 0 -f mp4 file:/w/output.mp4"
        )
    );
}

#[test]
fn all_clips_are_taken_in_the_order_of_their_numbers_and_the_first_decides() {
    let sources = sources();
    let all = params(&json!({"encode": {"codec": "h264"}}));
    let names = in_order(sources.keys());
    assert_eq!(names, ["clip_1", "clip_2", "clip_10"]);
    let film = Film::of(&all, &sources).unwrap();
    assert_eq!((film.size, film.sound), (Size::new(640, 360), true));
    // What is meant by 29.98.
    assert!((film.fps - 30_000.0 / 1001.0).abs() < 0.001);
    let listed = json!([{"input": "clip_2"}]);
    let listed = params(&json!({"encode": {"codec": "h264", "fps": 50.0}, "clips": listed}));
    let film = Film::of(&listed, &sources).unwrap();
    assert_eq!((film.size, film.sound), (Size::new(360, 640), false));
    assert!(line(&listed, &sources).contains("[sound]anullsink"));
}

#[test]
fn a_line_of_pixels_is_never_made_a_picture_without_end() {
    let mut sources = sources();
    sources.insert("clip_2".to_owned(), source(2, 4000, false));
    for (fit, filters) in [
        ("crop", "scale=2:4000,crop=2:1:0:1999:exact=1,scale=640:360"),
        ("pad", "out_range=tv,pad=640:360:318:0"),
    ] {
        let params = params(&json!({"encode": {"codec": "h264"}, "fit": fit}));
        let line = line(&params, &sources);
        assert!(line.contains(filters), "{line}");
    }
}

#[test]
fn hdr_stays_in_prores_alone_and_only_where_all_clips_are_alike() {
    let mut all = sources();
    let maps = |codec: &str, sources: &Sources| {
        let params = params(&json!({"encode": {"codec": codec}}));
        line(&params, sources).contains("tonemap")
    };
    assert!(!maps("prores", &all) && !maps("h264", &all));
    for source in all.values_mut() {
        source.video[0].transfer = "smpte2084".to_owned();
        source.video[0].pixel_format = "yuv420p10le".to_owned();
    }
    assert!(!maps("prores", &all) && maps("h264", &all));
    all.insert("clip_2".to_owned(), source(360, 640, false));
    assert!(maps("prores", &all));
}

#[test]
fn a_clip_too_large_to_decode_is_refused_by_name_also_if_it_is_not_the_first() {
    let mut sources = sources();
    sources.insert("clip_10".to_owned(), source(60_000, 60_000, false));
    let all = params(&json!({"encode": {"codec": "h264"}}));
    let failure = Film::of(&all, &sources).map(drop).unwrap_err().to_string();
    assert!(
        failure.contains("clip_10") && failure.contains("60000x60000"),
        "{failure}"
    );
}

#[test]
fn many_decoders_share_the_processor() {
    let part = json!({"input": "clip_1", "start_seconds": 1.0, "end_seconds": 2.0});
    let with = |count| {
        let clips = vec![part.clone(); count];
        line(
            &params(&json!({"encode": {"codec": "h264"}, "clips": clips})),
            &sources(),
        )
    };
    assert_eq!(with(64).matches("-threads 1 ").count(), 64);
    assert_eq!(with(8).matches("-threads 2 ").count(), 8);
    assert!(!with(2).contains("-threads"));
}
