//! Sources of every shape: sound or none, odd, turned, stretched, bright, of unknown length.

use fencepost_media::fixture::{self, Clip};
use fencepost_media::{FailureCode, Size, probe};
use serde_json::json;

use crate::kit::{Kit, code};

#[tokio::test]
async fn a_source_without_sound_becomes_an_output_without_sound() {
    let kit = Kit::new().await;
    let silent = kit
        .clip(
            "s.mp4",
            Clip {
                sound: false,
                ..Clip::base(1)
            },
        )
        .await;
    let output = kit
        .run(&silent, json!({"codec": "h264", "height": 90}))
        .await
        .unwrap();
    assert!(!output.checked.has_audio);
}

#[tokio::test]
async fn of_several_sound_tracks_the_first_is_kept() {
    let kit = Kit::new().await;
    let base = kit.base(1).await;
    let base = base.to_str().unwrap();
    let two = [
        "-i", base, "-map", "0:v", "-map", "0:a", "-map", "0:a", "-c", "copy",
    ];
    let source = kit.make("two.mkv", &two).await;
    let output = kit
        .run(&source, json!({"codec": "h264", "height": 90}))
        .await
        .unwrap();
    assert!(output.checked.has_audio);
}

#[tokio::test]
async fn sound_with_a_cover_picture_is_no_video() {
    let kit = Kit::new().await;
    let cover = kit.make(
        "c.jpg",
        &["-f", "lavfi", "-i", "testsrc=size=64x64", "-vframes", "1"],
    );
    let cover = cover.await;
    let tone = [
        "-f",
        "lavfi",
        "-i",
        "sine=duration=1",
        "-i",
        cover.to_str().unwrap(),
    ];
    let rest = [
        "-map",
        "0",
        "-map",
        "1",
        "-c:v",
        "copy",
        "-disposition:v:0",
        "attached_pic",
    ];
    let mp3 = kit.make("song.mp3", &[&tone[..], &rest[..]].concat()).await;
    assert_eq!(
        code(kit.run(&mp3, json!({"codec": "h264"})).await),
        FailureCode::InputInvalid
    );

    let base = kit.base(1).await;
    let inputs = ["-i", base.to_str().unwrap(), "-i", cover.to_str().unwrap()];
    let rest = [
        "-map",
        "1",
        "-map",
        "0",
        "-c",
        "copy",
        "-disposition:v:0",
        "attached_pic",
    ];
    let film = kit
        .make("film.mp4", &[&inputs[..], &rest[..]].concat())
        .await;
    let output = kit
        .run(&film, json!({"codec": "h264", "height": 90}))
        .await
        .unwrap();
    assert_eq!(
        (output.checked.size, output.checked.frames),
        (Some(Size::new(160, 90)), 30)
    );
}

#[tokio::test]
async fn odd_sources_become_even_and_are_what_the_check_expects() {
    let kit = Kit::new().await;
    let odd = kit
        .clip(
            "odd.mp4",
            Clip {
                width: 321,
                height: 241,
                ..Clip::base(1)
            },
        )
        .await;
    let output = kit.run(&odd, json!({"codec": "h264"})).await.unwrap();
    assert_eq!(output.checked.size, Some(Size::new(322, 242)));
    let dot = kit
        .clip(
            "dot.mp4",
            Clip {
                width: 1,
                height: 1,
                ..Clip::base(1)
            },
        )
        .await;
    let output = kit.run(&dot, json!({"codec": "h264"})).await.unwrap();
    assert_eq!(output.checked.size, Some(Size::new(2, 2)));
    let base = kit.base(1).await;
    let output = kit
        .run(&base, json!({"codec": "h264", "height": 300}))
        .await
        .unwrap();
    assert_eq!(output.checked.size, Some(Size::new(534, 300)));
}

#[tokio::test]
async fn a_turned_source_comes_out_upright() {
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
    let found = probe(&kit.bench, &source).await.unwrap();
    assert_eq!(found.main_video().unwrap().displayed, Size::new(360, 640));
    let output = kit
        .run(&source, json!({"codec": "h264", "width": 90}))
        .await
        .unwrap();
    assert_eq!(output.checked.size, Some(Size::new(90, 160)));
}

#[tokio::test]
async fn stretched_pixels_become_square() {
    let kit = Kit::new().await;
    let picture = [
        "-f",
        "lavfi",
        "-i",
        "testsrc=size=320x240:rate=10:duration=1",
    ];
    let args = [&picture[..], &["-vf", "setsar=2", "-pix_fmt", "yuv420p"]].concat();
    let source = kit.make("wide.mkv", &args).await;
    let output = kit.run(&source, json!({"codec": "h264"})).await.unwrap();
    assert_eq!(output.checked.size, Some(Size::new(640, 240)));
}

#[tokio::test]
async fn a_source_of_unknown_length_has_progress_without_percent() {
    let kit = Kit::new().await;
    let base = kit.base(1).await;
    let live = ["-i", base.to_str().unwrap(), "-c", "copy", "-live", "1"];
    let source = kit.make("live.mkv", &live).await;
    assert_eq!(
        probe(&kit.bench, &source)
            .await
            .unwrap()
            .expected_seconds(true),
        None
    );
    let (output, seen) = kit
        .run_noting(&source, json!({"codec": "h264", "height": 90}))
        .await;
    assert_eq!(output.unwrap().checked.frames, 30);
    assert_eq!(seen.first().unwrap().percent, None);
}

#[tokio::test]
async fn a_stream_joined_three_times_never_passes_a_hundred_percent() {
    let kit = Kit::new().await;
    let base = kit.base(2).await;
    let once = kit
        .make("once.ts", &["-i", base.to_str().unwrap(), "-c", "copy"])
        .await;
    let thrice = kit.source("thrice.ts");
    std::fs::write(&thrice, std::fs::read(once).unwrap().repeat(3)).unwrap();
    let (output, seen) = kit
        .run_noting(&thrice, json!({"codec": "h264", "height": 90}))
        .await;
    assert!(output.unwrap().checked.duration_seconds > 5.0);
    let percents: Vec<u8> = seen
        .iter()
        .filter_map(|progress| progress.percent)
        .collect();
    assert!(percents.is_sorted() && percents.iter().all(|&percent| percent <= 100));
}

#[tokio::test]
async fn a_variable_frame_rate_keeps_its_length() {
    let kit = Kit::new().await;
    let base = kit.base(4).await;
    let drop = "select='not(between(t,1,3))'";
    let args = [
        "-i",
        base.to_str().unwrap(),
        "-vf",
        drop,
        "-fps_mode",
        "vfr",
        "-c:a",
        "copy",
    ];
    let source = kit.make("vfr.mp4", &args).await;
    let output = kit
        .run(&source, json!({"codec": "h264", "height": 90}))
        .await
        .unwrap();
    assert!((output.checked.duration_seconds - 4.0).abs() < 0.2);
    assert!(
        output.checked.frames < 65,
        "{} frames",
        output.checked.frames
    );
}

#[tokio::test]
async fn a_picture_that_begins_later_than_its_sound_keeps_its_end() {
    let kit = Kit::new().await;
    let base = kit.base(3).await;
    let base = base.to_str().unwrap();
    let maps = ["-map", "0:v", "-map", "1:a", "-c", "copy"];
    let late = ["-itsoffset", "0.8", "-i", base, "-i", base];
    for name in ["late.mp4", "late.mkv"] {
        let source = kit.make(name, &[&late[..], &maps].concat()).await;
        let output = kit
            .run(&source, json!({"codec": "h264", "height": 90}))
            .await
            .unwrap();
        assert!((output.checked.duration_seconds - 3.8).abs() < 0.1);
        assert_eq!(output.checked.frames, 90);
    }
}

#[tokio::test]
async fn a_film_whose_last_picture_comes_long_after_the_others_is_as_long_as_its_file() {
    let kit = Kit::new().await;
    // FFmpeg states 0.2 s for the picture of this file, and 5.7 s for the file.
    let picture = "testsrc=size=96x64:rate=30:duration=6,select='lt(n,5)+eq(n,170)'";
    let args = [
        "-f",
        "lavfi",
        "-i",
        picture,
        "-fps_mode",
        "vfr",
        "-c:v",
        "libx264",
    ];
    let source = kit.make("late.mp4", &args).await;
    let output = kit.run(&source, json!({"codec": "h264"})).await.unwrap();
    let seconds = output.checked.duration_seconds;
    assert!((5.6..5.8).contains(&seconds), "{seconds}");
}
