//! Clips become one film, in which picture and sound stay together.

use std::path::{Path, PathBuf};

use fencepost_media::fixture::{self, Clip};
use fencepost_media::{FailureCode, MediaFailure, Output, Size, run};
use serde_json::{Value, json};

use crate::kit::{Kit, job_of};
use crate::sync::{beeps, flashes, measured, number_after};

pub(crate) const SERVICE: &str = "stitch_export.v1";

pub(crate) async fn stitch(
    kit: &Kit,
    clips: &[&PathBuf],
    params: Value,
) -> Result<Output, MediaFailure> {
    let names: Vec<String> = (1..=clips.len()).map(|n| format!("clip_{n}")).collect();
    let inputs: Vec<(&str, &Path)> = names
        .iter()
        .zip(clips)
        .map(|(name, file)| (name.as_str(), file.as_path()))
        .collect();
    run(&kit.bench, &job_of(SERVICE, &inputs, &params), &|_| ()).await
}

/// A clip of one gray, as bright as `luma`.
pub(crate) async fn gray(kit: &Kit, name: &str, luma: u8, args: &str) -> PathBuf {
    let words: Vec<&str> = args.split_whitespace().collect();
    let (size, rest) = words.split_first().unwrap();
    let picture = format!(
        "color=black:size={size}:rate=10:duration=1,geq=lum={luma}:cb=128:cr=128,format=yuv420p"
    );
    let input = ["-f", "lavfi", "-i", &picture];
    let coding = ["-c:v", "libx264", "-preset", "ultrafast"];
    kit.make(name, &[&input[..], &coding, rest].concat()).await
}

/// Time and mean brightness of each picture, of a part of it.
pub(crate) fn lumas(kit: &Kit, file: &Path, part: &str) -> Vec<(f64, f64)> {
    let print = format!("crop={part},signalstats,metadata=print:key=lavfi.signalstats.YAVG:file=-");
    let text = measured(kit, file, &["-an", "-vf", &print]);
    let (mut found, mut time) = (Vec::new(), 0.0);
    for line in text.lines() {
        if let Some(at) = number_after(line, "pts_time:") {
            time = at;
        } else if let Some(average) = number_after(line, "YAVG=") {
            found.push((time, average));
        }
    }
    found
}

/// The brightness at a time, rounded to tens.
pub(crate) fn luma_at(lumas: &[(f64, f64)], at: f64) -> i64 {
    let shown = lumas.iter().take_while(|(time, _)| *time <= at + 1e-6);
    let (_, luma) = shown.last().expect("a picture");
    #[expect(clippy::cast_possible_truncation, reason = "a brightness")]
    let tens = (luma / 10.0).round() as i64 * 10;
    tens
}

#[tokio::test]
async fn clips_come_one_after_the_other_in_the_order_of_their_numbers() {
    let kit = Kit::new().await;
    let mut clips = Vec::new();
    for number in 1..=11 {
        let name = format!("{number}.mp4");
        clips.push(gray(&kit, &name, 20 * number, "64x36").await);
    }
    let all: Vec<&PathBuf> = clips.iter().collect();
    let output = stitch(&kit, &all, json!({"encode": {"codec": "h264"}}))
        .await
        .unwrap();
    assert_eq!(output.checked.size, Some(Size::new(64, 36)));
    assert_eq!(output.checked.frames, 110);
    assert!((output.checked.duration_seconds - 11.0).abs() < 0.05);
    assert!(!output.checked.has_audio);
    let lumas = lumas(&kit, &output.file, "64:36:0:0");
    for number in 1..=11_u8 {
        let middle = f64::from(number) - 0.5;
        assert_eq!(luma_at(&lumas, middle), i64::from(number) * 20);
    }
    assert_eq!(kit.work_files(), [output.file]);
}

/// A flash and a beep of a tenth of a second, a second after the beginning of four seconds.
async fn flash(kit: &Kit, name: &str, rate: &str, coding: &[&str]) -> PathBuf {
    let during = "between(t,1,1.1)";
    let black = format!("color=black:size=160x90:rate={rate}:duration=4");
    let beep = format!("aevalsrc='0.5*sin(2000*PI*t)*{during}':s=44100:d=4");
    let draw = format!("drawbox=w=160:h=90:color=white:t=fill:enable='{during}',format=yuv420p");
    let inputs = [
        "-f", "lavfi", "-i", &black, "-f", "lavfi", "-i", &beep, "-vf", &draw,
    ];
    kit.make(name, &[&inputs[..], coding].concat()).await
}

#[tokio::test]
async fn picture_and_sound_stay_together_across_joints_of_unlike_clips() {
    let kit = Kit::new().await;
    let h264 = ["-c:v", "libx264", "-c:a", "aac"];
    let short = ["-c:v", "libx264", "-c:a", "aac", "-af", "atrim=end=2"];
    let clips = [
        flash(&kit, "1.mp4", "30000/1001", &h264).await,
        flash(
            &kit,
            "2.mkv",
            "25",
            &["-c:v", "libx264", "-c:a", "libopus", "-ar", "48000"],
        )
        .await,
        flash(&kit, "3.mp4", "50", &short).await,
        flash(&kit, "4.ts", "24", &["-c:v", "mpeg2video", "-c:a", "mp2"]).await,
        flash(&kit, "5.mov", "60", &h264).await,
    ];
    let clip = |n: u32, start: f64| json!({"input": format!("clip_{n}"), "start_seconds": start, "end_seconds": start + 2.51});
    for (codec, fps) in [("h264", json!(null)), ("vp9", json!(25.0))] {
        let mut encode = json!({"codec": codec, "height": 90});
        if fps.is_number() {
            encode["fps"] = fps;
        }
        // Each twice, from different starts.
        let listed: Vec<Value> = (1..=5).flat_map(|n| [clip(n, 0.5), clip(n, 0.0)]).collect();
        let params = json!({"encode": encode, "clips": listed});
        let all: Vec<&PathBuf> = clips.iter().collect();
        let output = stitch(&kit, &all, params).await.unwrap();
        let found = (flashes(&kit, &output.file), beeps(&kit, &output.file, 10));
        assert_eq!(
            (found.0.len(), found.1.len()),
            (10, 10),
            "{codec} {found:?}"
        );
        for (number, (flash, beep)) in found.0.iter().zip(&found.1).enumerate() {
            assert!(
                (flash - beep).abs() < 0.05,
                "{codec} {number}: {flash} and {beep}"
            );
            let event = 2.51 * f64::from(u32::try_from(number).unwrap())
                + if number % 2 == 0 { 0.5 } else { 1.0 };
            // Each clip is rounded to whole frames.
            assert!(
                (flash - event).abs() < 0.2,
                "{codec} {number}: {flash}, not {event}"
            );
        }
    }
}

#[tokio::test]
async fn a_picture_that_stands_still_is_shown_from_the_middle_of_it() {
    let kit = Kit::new().await;
    let slides = "color=black:size=64x36:rate=30:duration=9,\
                  geq=lum='40*floor(T/3)+40':cb=128:cr=128,select='not(mod(n,90))'";
    let args = [
        "-f",
        "lavfi",
        "-i",
        slides,
        "-fps_mode",
        "vfr",
        "-pix_fmt",
        "yuv420p",
    ];
    let source = kit.make("slides.mp4", &args).await;
    let clips = json!([{"input": "clip_1", "start_seconds": 4.0, "end_seconds": 6.0},
                       {"input": "clip_1", "start_seconds": 1.0, "end_seconds": 2.0}]);
    let params = json!({"encode": {"codec": "h264"}, "clips": clips});
    let output = stitch(&kit, &[&source], params).await.unwrap();
    assert!((output.checked.duration_seconds - 3.0).abs() < 0.11);
    let lumas = lumas(&kit, &output.file, "64:36:0:0");
    let shown = [0.0, 1.0, 1.8, 2.2, 2.8].map(|at| luma_at(&lumas, at));
    assert_eq!(shown, [80, 80, 80, 40, 40]);
}

#[tokio::test]
async fn pictures_of_other_shapes_get_bars_or_are_cut_and_never_stretched() {
    let kit = Kit::new().await;
    let first = gray(&kit, "wide.mp4", 100, "320x180").await;
    let tall = gray(&kit, "tall.mp4", 200, "90x160").await;
    // Stored as 180x180, shown as 320x180.
    let stretched = gray(&kit, "stretched.mp4", 200, "180x180 -vf setsar=16/9").await;
    let turned = kit.source("turned.mp4");
    let wide = gray(&kit, "other.mp4", 200, "160x90").await;
    let new = [
        "-display_rotation",
        "90",
        "-i",
        wide.to_str().unwrap(),
        "-c",
        "copy",
    ];
    if fixture::ffmpeg(&kit.bench.tools, &new, &turned)
        .await
        .is_err()
    {
        let old = [
            "-i",
            wide.to_str().unwrap(),
            "-c",
            "copy",
            "-metadata:s:v:0",
            "rotate=90",
        ];
        fixture::ffmpeg(&kit.bench.tools, &old, &turned)
            .await
            .unwrap();
    }
    let clips = [&first, &tall, &stretched, &turned];
    for (fit, bars) in [("pad", 20), ("crop", 200)] {
        let params = json!({"encode": {"codec": "h264"}, "fit": fit});
        let output = stitch(&kit, &clips, params).await.unwrap();
        assert_eq!(output.checked.size, Some(Size::new(320, 180)), "{fit}");
        // Left edge and middle of each clip.
        let edge = lumas(&kit, &output.file, "16:180:0:0");
        let middle = lumas(&kit, &output.file, "16:180:152:0");
        let at = |lumas: &[(f64, f64)]| [0.5, 1.5, 2.5, 3.5].map(|at| luma_at(lumas, at));
        assert_eq!(at(&edge), [100, bars, 200, bars], "{fit}");
        assert_eq!(at(&middle), [100, 200, 200, 200], "{fit}");
    }
}

#[tokio::test]
async fn silence_stands_where_a_clip_has_no_sound_and_none_is_written_if_none_has_or_is_wished() {
    let kit = Kit::new().await;
    let loud = kit.base(1).await;
    let silent = Clip {
        sound: false,
        ..Clip::base(1)
    };
    let silent = kit.clip("silent.mp4", silent).await;
    let encode = json!({"codec": "h264", "height": 90});
    let params = json!({"encode": encode});
    let output = stitch(&kit, &[&silent, &loud, &silent], params.clone())
        .await
        .unwrap();
    assert!(output.checked.has_audio);
    let text = measured(
        &kit,
        &output.file,
        &["-vn", "-af", "silencedetect=noise=-40dB:d=0.3"],
    );
    let at = |word: &str| -> Vec<f64> {
        text.lines()
            .filter_map(|line| number_after(line, word))
            .collect()
    };
    let (ends, starts) = (at("silence_end: "), at("silence_start: "));
    assert!(
        (ends[0] - 1.0).abs() < 0.05 && (starts[1] - 2.0).abs() < 0.05,
        "{text}"
    );
    let output = stitch(&kit, &[&silent, &silent], params).await.unwrap();
    assert!(!output.checked.has_audio);
    let params = json!({"encode": {"codec": "h264", "height": 90, "audio": "drop"}});
    let output = stitch(&kit, &[&loud, &loud], params).await.unwrap();
    assert!(!output.checked.has_audio);
}

#[tokio::test]
async fn sixty_four_parts_of_one_clip_become_one_film() {
    let kit = Kit::new().await;
    let source = kit.base(4).await;
    let clips: Vec<Value> = (0..64)
        .map(|n| {
            let start = f64::from(n) * 0.05;
            json!({"input": "clip_1", "start_seconds": start, "end_seconds": start + 0.2})
        })
        .collect();
    let params = json!({"encode": {"codec": "h264", "height": 90}, "clips": clips});
    let output = stitch(&kit, &[&source], params).await.unwrap();
    assert_eq!(output.checked.frames, 64 * 6);
}

#[tokio::test]
async fn a_start_after_the_end_is_refused_by_name_and_an_end_after_it_is_cut() {
    let kit = Kit::new().await;
    let source = kit.base(2).await;
    let with = |start: f64, end: f64| {
        json!({"encode": {"codec": "h264", "height": 90}, "clips": [
            {"input": "clip_1"},
            {"input": "clip_1", "start_seconds": start, "end_seconds": end}
        ]})
    };
    let failure = stitch(&kit, &[&source], with(2.5, 3.0)).await.unwrap_err();
    let text = failure.to_string();
    assert_eq!(failure.code(), Some(FailureCode::InputInvalid));
    assert!(
        text.contains("clip_1") && text.contains("clips[1]") && text.contains("2.00"),
        "{text}"
    );
    let output = stitch(&kit, &[&source], with(1.0, 9.0)).await.unwrap();
    assert!((output.checked.duration_seconds - 3.0).abs() < 0.1);
}
