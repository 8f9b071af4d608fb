//! What each service takes and refuses, by the field that it names.

use std::collections::BTreeSet;

use fencepost_domain::service::{Capability, ServiceName, ServiceParams};
use serde_json::{Value, json};

fn parse(service: &str, params: &Value) -> Result<ServiceParams, String> {
    let service = ServiceName::parse(service).expect("a service");
    ServiceParams::parse(service, params).map_err(|error| error.field)
}

/// The field that an order of these parameters and inputs is refused for.
fn refused(service: &str, params: &Value, inputs: &[&str]) -> Option<String> {
    let parsed = match parse(service, params) {
        Ok(parsed) => parsed,
        Err(field) => return Some(format!("params.{field}")),
    };
    parsed.check_inputs(inputs).err().map(|error| error.field)
}

#[track_caller]
fn assert_taken(service: &str, params: &Value, inputs: &[&str]) {
    assert_eq!(refused(service, params, inputs), None, "{params}");
}

#[track_caller]
fn assert_refused(service: &str, params: &Value, inputs: &[&str], field: &str) {
    let found = refused(service, params, inputs);
    assert_eq!(found.as_deref(), Some(field), "{params} {inputs:?}");
}

#[test]
fn clips_are_one_to_sixty_four_and_each_names_an_input_that_is_there() {
    let stitch = |clips: Value| json!({"encode": {"codec": "h264"}, "clips": clips});
    let service = "stitch_export.v1";
    let bare = json!({"encode": {"codec": "h264"}});
    assert_taken(service, &bare, &["clip_1"]);
    assert_taken(service, &bare, &["clip_2", "clip_64"]);
    assert_refused(service, &bare, &[], "inputs.clip_1");
    assert_refused(service, &bare, &["clip_1", "clip_65"], "inputs.clip_65");
    let twice = stitch(json!([{"input": "clip_1"}, {"input": "clip_1", "start_seconds": 2}]));
    assert_taken(service, &twice, &["clip_1"]);
    assert_refused(service, &twice, &["clip_1", "clip_2"], "inputs.clip_2");
    let other = stitch(json!([{"input": "clip_1"}, {"input": "clip_2"}]));
    assert_refused(service, &other, &["clip_1"], "params.clips[1].input");
    assert_refused(service, &stitch(json!([])), &["clip_1"], "params.clips");
    let many = |number| stitch(json!(vec![json!({"input": "clip_1"}); number]));
    assert_taken(service, &many(64), &["clip_1"]);
    assert_refused(service, &many(65), &["clip_1"], "params.clips");
}

#[test]
fn a_clip_ends_after_it_begins() {
    let clip = |clip: Value| json!({"encode": {"codec": "h264"}, "clips": [clip]});
    let service = "stitch_export.v1";
    for (start, end) in [(0.0, 0.1), (0.2, 0.3), (1.0, 1.5), (86_399.0, 86_400.0)] {
        let good = clip(json!({"input": "clip_1", "start_seconds": start, "end_seconds": end}));
        assert_taken(service, &good, &["clip_1"]);
    }
    for (start, end, field) in [
        (1.0, 1.0, "end_seconds"),
        (1.0, 0.5, "end_seconds"),
        (-0.1, 0.5, "start_seconds"),
        (0.0, 86_401.0, "end_seconds"),
    ] {
        let bad = clip(json!({"input": "clip_1", "start_seconds": start, "end_seconds": end}));
        let field = format!("params.clips[0].{field}");
        assert_refused(service, &bad, &["clip_1"], &field);
    }
}

#[test]
fn how_a_film_is_written_is_judged_as_in_a_transcode() {
    let bad = json!({"encode": {"codec": "h264", "height": 301}});
    assert_refused(
        "stitch_export.v1",
        &bad,
        &["clip_1"],
        "params.encode.height",
    );
    let inputs = ["source", "captions"];
    assert_refused("caption_burn.v1", &bad, &inputs, "params.encode.height");
    let odd = json!({"encode": {"codec": "h264", "hieght": 300}});
    assert_refused("caption_burn.v1", &odd, &inputs, "params.encode.hieght");
    assert_refused("caption_burn.v1", &json!({}), &inputs, "params.encode");
    let params = json!({"encode": {"codec": "hevc", "hardware": "require"}});
    for service in ["stitch_export.v1", "caption_burn.v1"] {
        let words = [service, "videotoolbox.hevc"].map(Capability::new);
        let params = parse(service, &params).unwrap();
        assert_eq!(params.requirements(), BTreeSet::from(words));
        assert_eq!(params.output_extension(), "mp4");
    }
}

#[test]
fn captions_have_a_size_within_bounds_and_must_be_there() {
    let sized = |percent: f64| json!({"encode": {"codec": "h264"}, "size_percent": percent});
    let inputs = ["source", "captions"];
    for percent in [2.0, 20.0] {
        assert_taken("caption_burn.v1", &sized(percent), &inputs);
    }
    for percent in [1.9, 20.1] {
        let field = "params.size_percent";
        assert_refused("caption_burn.v1", &sized(percent), &inputs, field);
    }
    let bare = json!({"encode": {"codec": "h264"}});
    assert_refused("caption_burn.v1", &bare, &["source"], "inputs.captions");
}

#[test]
fn something_is_assembled_with_the_video() {
    let service = "assemble.v1";
    assert_refused(service, &json!({}), &["video"], "inputs.audio");
    assert_refused(service, &json!({}), &["audio"], "inputs.video");
    for inputs in [&["video", "audio"][..], &["video", "captions"]] {
        assert_taken(service, &json!({"length": "shortest"}), inputs);
    }
    let spoken = json!({"caption_language": "deu"});
    assert_taken(service, &spoken, &["video", "captions"]);
    let field = "params.caption_language";
    assert_refused(service, &spoken, &["video", "audio"], field);
    for bad in ["de", "DEU", "germ", "d1u", ""] {
        let params = json!({"caption_language": bad});
        assert_refused(service, &params, &["video", "captions"], field);
    }
}

#[test]
fn tracks_are_one_to_sixteen_with_a_gain_and_a_start_within_bounds() {
    let mix = |track: Value| json!({"tracks": [track]});
    let service = "audio_mix.v1";
    assert_taken(service, &json!({}), &["track_1", "track_16"]);
    assert_refused(service, &json!({}), &["track_17"], "inputs.track_17");
    for gain in [-60, 0, 12] {
        let good = mix(json!({"input": "track_1", "gain_db": gain}));
        assert_taken(service, &good, &["track_1"]);
    }
    for (track, field) in [
        (json!({"input": "track_1", "gain_db": -60.1}), "gain_db"),
        (json!({"input": "track_1", "gain_db": 12.1}), "gain_db"),
        (
            json!({"input": "track_1", "start_seconds": -1}),
            "start_seconds",
        ),
        (json!({"input": "track_2"}), "input"),
        (json!({"gain_db": 1}), "input"),
    ] {
        let field = format!("params.tracks[0].{field}");
        assert_refused(service, &mix(track), &["track_1"], &field);
    }
    let many = json!({"tracks": vec![json!({"input": "track_1"}); 17]});
    assert_refused(service, &many, &["track_1"], "params.tracks");
    let loud = |lufs: f64| json!({"loudness_lufs": lufs});
    for lufs in [-40.0, -8.0] {
        assert_taken(service, &loud(lufs), &["track_1"]);
    }
    for lufs in [-40.1, -7.9] {
        assert_refused(service, &loud(lufs), &["track_1"], "params.loudness_lufs");
    }
}

#[test]
fn a_thumbnail_may_be_odd_but_not_empty_or_huge() {
    let service = "thumbnail.v1";
    for good in [
        json!({}),
        json!({"width": 1, "height": 2160, "format": "png"}),
        json!({"width": 4096, "at_seconds": 0}),
    ] {
        assert_taken(service, &good, &["source"]);
    }
    for (bad, field) in [
        (json!({"width": 0}), "width"),
        (json!({"width": 4097}), "width"),
        (json!({"height": 2161}), "height"),
        (json!({"at_seconds": -1}), "at_seconds"),
        (json!({"at_seconds": 86_401}), "at_seconds"),
        (json!({"format": "gif"}), "format"),
    ] {
        assert_refused(service, &bad, &["source"], &format!("params.{field}"));
    }
}

#[test]
fn outputs_are_called_by_what_they_hold() {
    for (service, params, extension) in [
        ("thumbnail.v1", json!({}), "jpg"),
        ("thumbnail.v1", json!({"format": "png"}), "png"),
        ("audio_mix.v1", json!({}), "m4a"),
        ("audio_mix.v1", json!({"format": "flac"}), "flac"),
        ("audio_mix.v1", json!({"format": "wav"}), "wav"),
        ("assemble.v1", json!({}), "mp4"),
        (
            "stitch_export.v1",
            json!({"encode": {"codec": "vp9"}}),
            "webm",
        ),
    ] {
        let params = parse(service, &params).unwrap();
        assert_eq!(params.output_extension(), extension);
        assert!(params.requirements().contains(&Capability::new(service)));
    }
}

#[test]
fn a_render_names_a_composition_and_frames_that_follow_each_other() {
    let service = "remotion.render.v1";
    let render = |more: Value| {
        let mut params = json!({"composition": "film", "encode": {"codec": "h264"}});
        let all = params.as_object_mut().expect("an object");
        all.extend(more.as_object().expect("an object").clone());
        params
    };
    assert_taken(service, &render(json!({})), &["bundle"]);
    assert_refused(service, &render(json!({})), &[], "inputs.bundle");
    let one = json!({"first_frame": 3, "last_frame": 3, "props": {"title": "Hello"}});
    assert_taken(service, &render(one), &["bundle"]);
    for (more, field) in [
        (json!({"composition": ""}), "params.composition"),
        (
            json!({"composition": "ä".repeat(101)}),
            "params.composition",
        ),
        (
            json!({"first_frame": 3, "last_frame": 2}),
            "params.last_frame",
        ),
        (json!({"last_frame": 5_184_001}), "params.last_frame"),
        (json!({"first_frame": 5_184_001}), "params.first_frame"),
        (
            json!({"encode": {"codec": "h264", "height": 301}}),
            "params.encode.height",
        ),
        (json!({"props": []}), "params.props"),
    ] {
        assert_refused(service, &render(more), &["bundle"], field);
    }
}

#[test]
fn properties_of_a_composition_have_at_most_64_kib() {
    for (letters, is_taken) in [(65_536 - 8, true), (65_536 - 7, false)] {
        // `{"a":""}` are eight bytes.
        let params = json!({"props": {"a": "x".repeat(letters)}});
        let found = refused("remotion.inspect.v1", &params, &["bundle"]);
        assert_eq!(found.is_none(), is_taken, "{letters}: {found:?}");
    }
}
