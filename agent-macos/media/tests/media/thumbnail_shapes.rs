//! Pictures out of videos of every shape, and out of what is no video.

use fencepost_media::{FailureCode, Size, fixture};
use serde_json::json;

use crate::kit::{Kit, code};
use crate::thumbnails::{brightness, pixels, step, steps, thumbnail};

#[tokio::test]
async fn a_turned_video_gives_an_upright_picture() {
    let kit = Kit::new().await;
    let base = kit.base(1).await;
    let base = base.to_str().unwrap();
    let source = kit.source("turned.mp4");
    let new = ["-display_rotation", "90", "-i", base, "-c", "copy"];
    if fixture::ffmpeg(&kit.bench.tools, &new, &source)
        .await
        .is_err()
    {
        let old = ["-i", base, "-c", "copy", "-metadata:s:v:0", "rotate=90"];
        fixture::ffmpeg(&kit.bench.tools, &old, &source)
            .await
            .unwrap();
    }
    for params in [
        json!({"width": 91}),
        json!({"width": 91, "at_seconds": 0.5, "format": "png"}),
    ] {
        let output = thumbnail(&kit, &source, params).await.unwrap();
        assert_eq!(output.checked.size, Some(Size::new(91, 162)));
    }
}

#[tokio::test]
async fn stretched_pixels_become_square_and_odd_sizes_stay() {
    let kit = Kit::new().await;
    for (filters, format, width, height) in [
        ("setsar=2", "yuv420p", 640, 240),
        ("scale=321:241,setsar=1", "yuv444p", 321, 241),
    ] {
        let picture = "testsrc=size=320x240:rate=10:duration=1";
        let args = [
            "-f", "lavfi", "-i", picture, "-vf", filters, "-pix_fmt", format,
        ];
        let source = kit.make("odd.mkv", &args).await;
        let output = thumbnail(&kit, &source, json!({})).await.unwrap();
        assert_eq!(output.checked.size, Some(Size::new(width, height)));
    }
}

#[tokio::test]
async fn colours_are_those_of_the_video_whatever_it_was_stored_in() {
    let kit = Kit::new().await;
    let red = "color=0xd01020:size=64x64:rate=10:duration=1";
    for (matrix, format) in [
        ("bt709", "yuv420p"),
        ("bt709", "yuv422p10le"),
        ("smpte170m", "yuv420p"),
        ("smpte170m", "yuvj420p"),
    ] {
        let range = if format == "yuvj420p" { "pc" } else { "tv" };
        let filters = format!("scale=out_color_matrix={matrix}:out_range={range},format={format}");
        let coding = ["-c:v", "libx264", "-colorspace", matrix, "-qp", "10"];
        let args = [&["-f", "lavfi", "-i", red, "-vf", &filters], &coding[..]].concat();
        let source = kit.make("red.mkv", &args).await;
        for (kind, at) in [
            ("jpeg", json!(0.5)),
            ("png", json!(0.5)),
            ("png", json!(null)),
        ] {
            let mut params = json!({"format": kind});
            if !at.is_null() {
                params["at_seconds"] = at;
            }
            let output = thumbnail(&kit, &source, params).await.unwrap();
            let pixels = pixels(&kit, &output.file);
            let middle = &pixels[pixels.len() / 2..][..3];
            for (found, wanted) in middle.iter().zip([0xd0_u8, 0x10, 0x20]) {
                assert!(
                    found.abs_diff(wanted) <= 6,
                    "{matrix} {format} {kind}: {middle:x?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_video_of_high_brightness_gives_a_picture_that_can_be_seen() {
    let kit = Kit::new().await;
    let picture = "testsrc2=size=160x90:rate=10:duration=1";
    let tags = "colorprim=bt2020:transfer=smpte2084:colormatrix=bt2020nc:log-level=error";
    let coding = [
        "-vf",
        "format=yuv420p10le",
        "-c:v",
        "libx265",
        "-x265-params",
        tags,
    ];
    let args = [&["-f", "lavfi", "-i", picture][..], &coding[..]].concat();
    let source = kit.make("hdr.mp4", &args).await;
    for params in [
        json!({}),
        json!({"at_seconds": 0.5}),
        json!({"at_seconds": 0.5, "format": "png", "width": 81}),
    ] {
        let output = thumbnail(&kit, &source, params).await.unwrap();
        let bright = brightness(&kit, &output.file);
        assert!((40.0..220.0).contains(&bright), "{bright}");
    }
}

#[tokio::test]
async fn a_video_that_begins_late_or_has_one_frame_has_a_picture_at_every_time() {
    let kit = Kit::new().await;
    let steps_file = steps(&kit, "s.mp4").await;
    let tone = "sine=duration=8";
    let late = [
        "-f",
        "lavfi",
        "-i",
        tone,
        "-itsoffset",
        "1.5",
        "-i",
        steps_file.to_str().unwrap(),
        "-c:v",
        "copy",
    ];
    for name in ["late.mp4", "late.mkv"] {
        let source = kit.make(name, &late).await;
        for (at, expected) in [(0.5, 0), (2.55, 10), (7.25, 57)] {
            let params = json!({"at_seconds": at, "format": "png"});
            let output = thumbnail(&kit, &source, params).await.unwrap();
            assert_eq!(step(&kit, &output.file), expected, "{name} at {at}");
        }
    }
    let frame = "color=white:size=64x64:rate=1/72000";
    let one = ["-f", "lavfi", "-i", frame, "-frames:v", "1"];
    let source = kit.make("long.mp4", &one).await;
    for params in [json!({}), json!({"at_seconds": 50_000})] {
        let output = thumbnail(&kit, &source, params).await.unwrap();
        assert!(brightness(&kit, &output.file) > 240.0);
    }
}

#[tokio::test]
async fn a_live_recording_of_unknown_length_has_a_picture_at_a_time_but_none_past_its_end() {
    let kit = Kit::new().await;
    let steps_file = steps(&kit, "s.mp4").await;
    let live = [
        "-i",
        steps_file.to_str().unwrap(),
        "-c",
        "copy",
        "-live",
        "1",
    ];
    let source = kit.make("live.mkv", &live).await;
    let params = json!({"at_seconds": 5.55, "format": "png"});
    let output = thumbnail(&kit, &source, params).await.unwrap();
    assert_eq!(step(&kit, &output.file), 55);
    let past = thumbnail(&kit, &source, json!({"at_seconds": 9})).await;
    let failure = past.unwrap_err();
    assert_eq!(failure.code(), Some(FailureCode::InputInvalid));
    assert!(failure.to_string().contains("at_seconds"), "{failure}");
    assert!(thumbnail(&kit, &source, json!({})).await.is_ok());
}

#[tokio::test]
async fn what_is_no_video_is_the_inputs_fault_and_is_called_by_its_kind() {
    let kit = Kit::new().await;
    let tone = ["-f", "lavfi", "-i", "sine=duration=1"];
    let still = ["-f", "lavfi", "-i", "testsrc=size=64x64", "-frames:v", "1"];
    let mut sources = Vec::new();
    for name in ["s.wav", "s.flac", "s.mp3", "s.aac", "s.m4a"] {
        sources.push((kit.make(name, &tone).await, "no video"));
    }
    for name in ["s.jpg", "s.png"] {
        sources.push((kit.make(name, &still).await, "still picture"));
    }
    let text = kit.source("text.mp4");
    std::fs::write(&text, "#EXTM3U\n").unwrap();
    sources.push((text, "text"));
    let empty = kit.source("empty.mp4");
    std::fs::write(&empty, "").unwrap();
    sources.push((empty, "empty"));
    let cover = sources[5].0.to_str().unwrap();
    let song = [&tone[..], &["-i", cover, "-map", "0", "-map", "1"]].concat();
    let song = [
        &song[..],
        &["-c:v", "copy", "-disposition:v:0", "attached_pic"],
    ]
    .concat();
    sources.push((kit.make("song.mp3", &song).await, "no video"));
    for (source, says) in sources {
        for params in [json!({}), json!({"at_seconds": 0})] {
            let failure = thumbnail(&kit, &source, params).await.unwrap_err();
            assert_eq!(failure.code(), Some(FailureCode::InputInvalid), "{failure}");
            assert!(failure.to_string().contains(says), "{source:?}: {failure}");
            assert_eq!(kit.work_files().len(), 0);
        }
    }
}

#[tokio::test]
async fn of_a_cut_file_what_is_missing_is_not_made_up() {
    let kit = Kit::new().await;
    let base = kit.base(8).await;
    let text = base.to_str().unwrap();
    let front = ["-i", text, "-c", "copy", "-movflags", "+faststart"];
    let front = kit.make("f.mp4", &front).await;
    let end_missing = kit.cut(&front, 0.5, "2.mp4");
    let index_missing = kit.cut(&base, 0.6, "1.mp4");
    let late = json!({"at_seconds": 7.5});
    for source in [&end_missing, &index_missing] {
        let result = thumbnail(&kit, source, late.clone()).await;
        assert_eq!(code(result), FailureCode::InputInvalid, "{source:?}");
        assert_eq!(kit.work_files().len(), 0);
    }
    let early = thumbnail(&kit, &end_missing, json!({"at_seconds": 0.5})).await;
    assert_eq!(early.unwrap().checked.size, Some(Size::new(640, 360)));
}

#[tokio::test]
async fn a_cut_file_has_no_picture_after_its_last_one_but_one_that_stands_still_has() {
    let kit = Kit::new().await;
    let picture = "testsrc=size=320x180:rate=25:duration=15";
    let coding = ["-c:v", "libx264", "-g", "50", "-movflags", "+faststart"];
    let front = [&["-f", "lavfi", "-i", picture][..], &coding].concat();
    let front = kit.make("front.mp4", &front).await;
    // Between two frames, so that nothing which is read is damaged.
    let places = std::process::Command::new(&kit.bench.tools.ffprobe)
        .args([
            "-v",
            "error",
            "-show_entries",
            "packet=pos",
            "-of",
            "csv=p=0",
        ])
        .arg(&front)
        .output()
        .unwrap();
    let places = String::from_utf8(places.stdout).unwrap();
    let place = places.lines().nth(172).unwrap().trim_end_matches(',');
    let mut bytes = std::fs::read(&front).unwrap();
    bytes.truncate(place.parse().unwrap());
    let cut = kit.source("cut.mp4");
    std::fs::write(&cut, bytes).unwrap();
    for at in [8.0, 12.0, 14.9] {
        let failure = thumbnail(&kit, &cut, json!({"at_seconds": at})).await;
        let failure = failure.unwrap_err();
        assert_eq!(
            failure.code(),
            Some(FailureCode::InputInvalid),
            "{at} {failure}"
        );
        let text = failure.to_string();
        assert!(text.contains("picture ends at 7.00 s"), "{at} {text}");
        assert_eq!(kit.work_files().len(), 0);
    }
    let early = thumbnail(&kit, &cut, json!({"at_seconds": 2.5})).await;
    assert!(early.is_ok(), "{early:?}");
    let slides = "testsrc=size=64x36:rate=25:duration=15,select='not(mod(n,125))'";
    let slides = ["-f", "lavfi", "-i", slides, "-fps_mode", "vfr"];
    let slides = kit.make("slides.mp4", &slides).await;
    for at in [4.9, 8.0, 9.9] {
        let shown = thumbnail(&kit, &slides, json!({"at_seconds": at})).await;
        assert!(shown.is_ok(), "{at} {shown:?}");
    }
}

#[tokio::test]
async fn nothing_that_a_camera_wrote_into_its_frames_is_handed_on() {
    let kit = Kit::new().await;
    let still = ["-f", "lavfi", "-i", "testsrc=size=64x64", "-frames:v", "1"];
    let jpeg = kit.make("one.jpg", &still).await;
    let jpeg = std::fs::read(jpeg).unwrap();
    // Exif of one entry, the name of the camera's maker: its type 2 is text, kept behind it.
    let text = b"MY-HOME\0";
    let tiff = [
        &b"II*\0\x08\0\0\0\x01\0\x0f\x01\x02\0\x08\0\0\0\x1a\0\0\0\0\0\0\0"[..],
        text,
    ]
    .concat();
    let mut exif = [&b"\xff\xe1\0\0Exif\0\0"[..], &tiff].concat();
    let length = u16::try_from(exif.len() - 2).unwrap();
    exif[2..4].copy_from_slice(&length.to_be_bytes());
    let comment = b"\xff\xfe\0\x0aMY-HOME\0";
    let tagged = [&jpeg[..2], &exif, comment, &jpeg[2..]].concat();
    let frame = kit.source("frame.jpg");
    std::fs::write(&frame, &tagged).unwrap();
    let film = [
        "-loop",
        "1",
        "-framerate",
        "10",
        "-f",
        "image2",
        "-i",
        frame.to_str().unwrap(),
        "-c",
        "copy",
        "-t",
        "1",
        "-metadata",
        "title=MY-HOME",
    ];
    let source = kit.make("film.avi", &film).await;
    let holds = |path: &std::path::Path| {
        let bytes = std::fs::read(path).unwrap();
        bytes.windows(7).any(|part| part == b"MY-HOME")
    };
    assert!(holds(&source));
    for params in [
        json!({"at_seconds": 0.5}),
        json!({}),
        json!({"format": "png", "at_seconds": 0.5}),
    ] {
        let output = thumbnail(&kit, &source, params).await.unwrap();
        assert!(!holds(&output.file));
    }
}
