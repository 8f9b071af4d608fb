//! A picture, other sound and captions become one mp4.

use std::path::{Path, PathBuf};
use std::process::Command;

use fencepost_domain::service::{ServiceName, ServiceParams};
use fencepost_media::fixture::{self, Clip};
use fencepost_media::{
    CheckFailure, Expectation, FailureCode, MediaFailure, Output, Rejection, Size, Sources,
    StopSignal, check_output, probe, run,
};
use serde_json::{Value, json};

use crate::kit::{Kit, code, job_of, stand_in};
use crate::sync::{beeps, flashes, measured, number_after};

const SERVICE: &str = "assemble.v1";
const SRT: &str = "1\n00:00:00,500 --> 00:00:01,500\nOne <i>two</i>\n\n\
                   2\n00:00:01,700 --> 00:00:09,000\n{y:i}<3 \\N\n\n\
                   3\n00:00:08,000 --> 00:00:09,000\nAfter the end\n";

async fn assemble(
    kit: &Kit,
    inputs: &[(&str, &Path)],
    params: Value,
) -> Result<Output, MediaFailure> {
    run(&kit.bench, &job_of(SERVICE, inputs, &params), &|_| ()).await
}

fn srt(kit: &Kit, text: &str) -> PathBuf {
    let file = kit.source("captions.srt");
    std::fs::write(&file, text).unwrap();
    file
}

/// A tone of so many seconds.
async fn tone(kit: &Kit, name: &str, seconds: u32) -> PathBuf {
    let tone = format!("sine=frequency=1000:sample_rate=44100:duration={seconds}");
    kit.make(name, &["-f", "lavfi", "-i", &tone]).await
}

/// What ffprobe says about the streams of a file.
fn report(kit: &Kit, file: &Path) -> Vec<Value> {
    let output = Command::new(&kit.bench.tools.ffprobe)
        .args(["-v", "error", "-show_streams", "-of", "json"])
        .arg(file)
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["streams"].as_array().unwrap().clone()
}

/// A checksum of every decoded picture.
fn pictures(kit: &Kit, file: &Path) -> String {
    measured(kit, file, &["-map", "0:v:0", "-f", "framemd5", "-"])
        .lines()
        .filter(|line| line.starts_with("0,"))
        .filter_map(|line| line.rsplit(',').next())
        .collect::<Vec<_>>()
        .join("\n")
}

#[tokio::test]
async fn picture_sound_and_captions_come_together_and_the_picture_is_untouched() {
    let kit = Kit::new().await;
    let video = kit.base(3).await;
    let audio = tone(&kit, "tone.mp3", 5).await;
    let captions = srt(&kit, SRT);
    let inputs: [(&str, &Path); 3] = [
        ("video", &video),
        ("audio", &audio),
        ("captions", &captions),
    ];
    let params = json!({"caption_language": "deu"});
    let output = assemble(&kit, &inputs, params).await.unwrap();
    assert_eq!(output.encoder, None);
    assert!((output.checked.duration_seconds - 3.0).abs() < 0.1);
    assert_eq!(pictures(&kit, &output.file), pictures(&kit, &video));
    let streams = report(&kit, &output.file);
    let said: Vec<_> = streams
        .iter()
        .map(|stream| {
            (
                stream["codec_name"].as_str().unwrap(),
                &stream["tags"]["language"],
            )
        })
        .collect();
    assert_eq!(said.len(), 3);
    assert_eq!(said[2], ("mov_text", &"deu".into()));
    assert_eq!((said[0].0, said[1].0), ("h264", "aac"));
    assert_eq!(streams[0]["start_time"], "0.000000");
    let text = Command::new(&kit.bench.tools.ffmpeg)
        .args(["-v", "error", "-i"])
        .arg(&output.file)
        .args(["-map", "0:s:0", "-f", "srt", "-"])
        .output()
        .unwrap();
    let text = String::from_utf8(text.stdout)
        .unwrap()
        .replace('\u{2060}', "");
    assert!(text.contains("00:00:00,500 --> 00:00:01,500\n"), "{text}");
    assert!(
        text.contains("One <i>two</i>") && text.contains("{y:i}<3 \\N"),
        "{text}"
    );
    assert!(text.contains("00:00:01,700 --> 00:00:03,000"), "{text}");
    assert!(!text.contains("After"), "{text}");
    assert_eq!(kit.work_files(), [output.file]);
}

#[tokio::test]
async fn sound_is_cut_or_followed_by_silence_or_decides_the_length() {
    let kit = Kit::new().await;
    let video = kit
        .clip(
            "v.mp4",
            Clip {
                sound: false,
                ..Clip::base(3)
            },
        )
        .await;
    for (seconds, length, expected) in [
        (1, "video", 3.0),
        (5, "video", 3.0),
        (1, "shortest", 1.0),
        (5, "shortest", 3.0),
    ] {
        let audio = tone(&kit, "tone.mp3", seconds).await;
        let inputs: [(&str, &Path); 2] = [("video", &video), ("audio", &audio)];
        let output = assemble(&kit, &inputs, json!({"length": length}))
            .await
            .unwrap();
        let found = output.checked.duration_seconds;
        // A copied picture ends with a packet.
        assert!(
            (found - expected).abs() < 0.15,
            "{seconds} {length}: {found}"
        );
        let found = probe(&kit.bench, &output.file).await.unwrap();
        let sound = found.main_audio().unwrap().duration_seconds.unwrap();
        assert!(
            (sound - expected).abs() < 0.05,
            "{seconds} {length}: {sound}"
        );
    }
    let audio = tone(&kit, "tone.mp3", 1).await;
    let inputs: [(&str, &Path); 2] = [("video", &video), ("audio", &audio)];
    let output = assemble(&kit, &inputs, json!({})).await.unwrap();
    let text = measured(
        &kit,
        &output.file,
        &["-vn", "-af", "silencedetect=noise=-40dB:d=0.3"],
    );
    let silence = text
        .lines()
        .find_map(|line| number_after(line, "silence_start: "));
    assert!(silence.is_some_and(|at| (at - 1.0).abs() < 0.1), "{text}");
}

#[tokio::test]
async fn without_other_sound_that_of_the_video_is_kept_or_there_is_none() {
    let kit = Kit::new().await;
    let captions = srt(&kit, SRT);
    let video = kit.base(3).await;
    let inputs: [(&str, &Path); 2] = [("video", &video), ("captions", &captions)];
    let output = assemble(&kit, &inputs, json!({})).await.unwrap();
    assert!(output.checked.has_audio);
    let silent = kit
        .clip(
            "v.mp4",
            Clip {
                sound: false,
                ..Clip::base(3)
            },
        )
        .await;
    let inputs: [(&str, &Path); 2] = [("video", &silent), ("captions", &captions)];
    let output = assemble(&kit, &inputs, json!({"length": "shortest"}))
        .await
        .unwrap();
    assert!(!output.checked.has_audio);
}

/// A flash and a beep at one, two and three seconds.
const DURING: &str = "lt(mod(t,1),0.1)*gte(t,1)*lt(t,3.5)";

async fn flashing(kit: &Kit, name: &str, coding: &[&str]) -> PathBuf {
    let black = "color=black:size=160x90:rate=30:duration=4";
    let draw = format!("drawbox=w=160:h=90:color=white:t=fill:enable='{DURING}',format=yuv420p");
    let input = ["-f", "lavfi", "-i", black, "-vf", &draw];
    kit.make(name, &[&input[..], coding].concat()).await
}

#[tokio::test]
async fn a_flash_and_its_beep_stay_together_however_the_picture_is_stored() {
    let kit = Kit::new().await;
    let beep = format!("aevalsrc='0.5*sin(2000*PI*t)*{DURING}':s=44100:d=4");
    let beep = ["-f", "lavfi", "-i", &beep];
    let beep = kit
        .make("beep.m4a", &[&beep[..], &["-c:a", "aac"]].concat())
        .await;
    let frames = ["-c:v", "libx264", "-bf", "3", "-g", "30"];
    for (name, coding, is_copied) in [
        ("1.mp4", &frames[..], true),
        ("2.mkv", &frames[..], true),
        ("3.mov", &frames[..], true),
        (
            "4.mp4",
            &["-c:v", "libx265", "-x265-params", "log-level=error"],
            true,
        ),
        ("5.ts", &frames[..], false),
        ("6.mp4", &["-c:v", "mpeg4"], false),
        ("7.webm", &["-c:v", "libvpx-vp9", "-cpu-used", "8"], false),
    ] {
        let video = flashing(&kit, name, coding).await;
        let inputs: [(&str, &Path); 2] = [("video", &video), ("audio", &beep)];
        let output = assemble(&kit, &inputs, json!({})).await.unwrap();
        assert_eq!(output.encoder.is_none(), is_copied, "{name}");
        let found = (flashes(&kit, &output.file), beeps(&kit, &output.file, 3));
        assert_eq!((found.0.len(), found.1.len()), (3, 3), "{name} {found:?}");
        for ((flash, beep), event) in found.0.iter().zip(&found.1).zip([1.0, 2.0, 3.0]) {
            assert!((flash - beep).abs() < 0.05, "{name}: {flash} and {beep}");
            assert!((flash - event).abs() < 0.05, "{name}: {flash}");
        }
    }
}

#[tokio::test]
async fn a_picture_that_a_file_only_describes_as_cut_is_encoded_so_that_nothing_is_lost() {
    let kit = Kit::new().await;
    // One key frame at the beginning, and a cut at half a second that is only described.
    let whole = flashing(&kit, "whole.mp4", &["-c:v", "libx264", "-g", "300"]).await;
    let args = ["-ss", "0.5", "-i", whole.to_str().unwrap(), "-c", "copy"];
    let video = kit.make("cut.mp4", &args).await;
    let audio = tone(&kit, "tone.mp3", 4).await;
    let inputs: [(&str, &Path); 2] = [("video", &video), ("audio", &audio)];
    let output = assemble(&kit, &inputs, json!({})).await.unwrap();
    assert!(output.encoder.is_some());
    let flashes = flashes(&kit, &output.file);
    assert!(
        flashes.len() == 3 && (flashes[0] - 0.5).abs() < 0.05,
        "{flashes:?}"
    );
}

#[tokio::test]
async fn pictures_that_players_show_differently_are_encoded_upright_square_and_plain() {
    let kit = Kit::new().await;
    let audio = tone(&kit, "tone.mp3", 1).await;
    let base = kit.base(1).await;
    let base = base.to_str().unwrap();
    let turned = kit.source("turned.mp4");
    let new = ["-display_rotation", "90", "-i", base, "-c", "copy"];
    if fixture::ffmpeg(&kit.bench.tools, &new, &turned)
        .await
        .is_err()
    {
        let old = ["-i", base, "-c", "copy", "-metadata:s:v:0", "rotate=90"];
        fixture::ffmpeg(&kit.bench.tools, &old, &turned)
            .await
            .unwrap();
    }
    let coding = ["-an", "-c:v", "libx264", "-preset", "ultrafast"];
    let wide = ["-i", base, "-vf", "setsar=2"];
    let wide = kit.make("wide.mkv", &[&wide[..], &coding].concat()).await;
    let fine = ["-i", base, "-pix_fmt", "yuv420p10le"];
    let fine = kit.make("fine.mp4", &[&fine[..], &coding].concat()).await;
    let odd = Clip {
        width: 321,
        height: 241,
        ..Clip::base(1)
    };
    let odd = kit.clip("odd.mp4", odd).await;
    for (video, size) in [
        (turned, Size::new(360, 640)),
        (wide, Size::new(1280, 360)),
        (fine, Size::new(640, 360)),
        (odd, Size::new(322, 242)),
    ] {
        let inputs: [(&str, &Path); 2] = [("video", &video), ("audio", &audio)];
        let output = assemble(&kit, &inputs, json!({})).await.unwrap();
        assert!(output.encoder.is_some(), "{video:?}");
        assert_eq!(output.checked.size, Some(size), "{video:?}");
    }
}

#[tokio::test]
async fn inputs_that_hold_not_what_they_should_are_refused_by_name() {
    let kit = Kit::new().await;
    let video = kit.base(2).await;
    let audio = tone(&kit, "tone.mp3", 2).await;
    let silent = kit
        .clip(
            "silent.mp4",
            Clip {
                sound: false,
                ..Clip::base(2)
            },
        )
        .await;
    let ass = kit.source("captions.ass");
    std::fs::write(
        &ass,
        "[Script Info]\n[Events]\nDialogue: 0,0:00:00.00,0:00:01.00,x,,0,0,0,,Hi\n",
    )
    .unwrap();
    let late = srt(&kit, "1\n00:01:00,000 --> 00:01:01,000\nlate\n");
    for (inputs, words) in [
        (
            [("video", &audio), ("audio", &audio)],
            ["video", "no video"],
        ),
        (
            [("video", &video), ("audio", &silent)],
            ["audio", "no sound"],
        ),
        (
            [("video", &video), ("captions", &ass)],
            ["captions", "srt or vtt"],
        ),
        (
            [("video", &video), ("captions", &late)],
            ["captions", "2.00 s"],
        ),
        (
            [("video", &video), ("captions", &audio)],
            ["captions", "UTF-8"],
        ),
    ] {
        let inputs = inputs.map(|(name, file)| (name, file.as_path()));
        let failure = assemble(&kit, &inputs, json!({})).await.unwrap_err();
        assert_eq!(failure.code(), Some(FailureCode::InputInvalid), "{failure}");
        let text = failure.to_string();
        assert!(
            words.iter().all(|word| text.contains(word)),
            "{words:?}: {text}"
        );
        assert_eq!(kit.work_files().len(), 0);
    }
}

#[tokio::test]
async fn cut_files_are_the_inputs_fault_whether_their_picture_is_copied_or_not() {
    let kit = Kit::new().await;
    let base = kit.base(4).await;
    let base = base.to_str().unwrap();
    let audio = tone(&kit, "tone.mp3", 4).await;
    let front = ["-i", base, "-c", "copy", "-movflags", "+faststart"];
    let front = kit.make("f.mp4", &front).await;
    let matroska = kit.make("m.mkv", &["-i", base, "-c", "copy"]).await;
    let other = kit
        .make("o.mkv", &["-i", base, "-c:v", "mpeg4", "-c:a", "copy"])
        .await;
    for cut in [
        kit.cut(&front, 0.5, "1.mp4"),
        kit.cut(&matroska, 0.5, "2.mkv"),
        kit.cut(&other, 0.5, "3.mkv"),
    ] {
        let inputs: [(&str, &Path); 2] = [("video", &cut), ("audio", &audio)];
        let failure = assemble(&kit, &inputs, json!({})).await.unwrap_err();
        assert_eq!(
            failure.code(),
            Some(FailureCode::InputInvalid),
            "{cut:?} {failure}"
        );
        assert_eq!(kit.work_files().len(), 0);
    }
}

#[tokio::test]
async fn more_than_what_was_sold_is_refused_before_it_is_decoded() {
    let mut kit = Kit::new().await;
    let video = kit.base(4).await;
    let captions = srt(&kit, SRT);
    kit.bench.tools.ffmpeg = stand_in(kit.sources.path(), "ffmpeg", "echo > decoded");
    let inputs: [(&str, &Path); 2] = [("video", &video), ("captions", &captions)];
    let mut job = job_of(SERVICE, &inputs, &json!({}));
    job.max_output_seconds = 2;
    assert_eq!(
        code(run(&kit.bench, &job, &|_| ()).await),
        FailureCode::InputInvalid
    );
    assert_eq!(kit.work_files().len(), 0);
}

#[tokio::test]
async fn a_stopped_or_failing_assembly_leaves_nothing() {
    let mut kit = Kit::new().await;
    let video = kit.make(
        "v.mkv",
        &[
            "-f",
            "lavfi",
            "-i",
            "testsrc=size=1280x720:rate=30:duration=20",
            "-c:v",
            "mpeg4",
        ],
    );
    let video = video.await;
    let captions = srt(&kit, SRT);
    let inputs: [(&str, &Path); 2] = [("video", &video), ("captions", &captions)];
    let job = job_of(SERVICE, &inputs, &json!({}));
    let stop_soon = |_| kit.bench.stop.cancel();
    assert_eq!(
        run(&kit.bench, &job, &stop_soon).await,
        Err(MediaFailure::Stopped)
    );
    assert_eq!(kit.work_files().len(), 0);
    kit.bench.stop = StopSignal::new();
    kit.bench.tools.ffmpeg = stand_in(kit.sources.path(), "ffmpeg", "echo x > output.mp4; exit 1");
    assert_eq!(
        code(run(&kit.bench, &job, &|_| ()).await),
        FailureCode::RunnerFailed
    );
    assert_eq!(kit.work_files().len(), 0);
}

#[tokio::test]
async fn nothing_that_the_sources_say_about_their_makers_is_handed_on() {
    let kit = Kit::new().await;
    let base = kit.base(1).await;
    let text = base.to_str().unwrap();
    // x264 writes its settings into the picture's own stream.
    let secret = ["-i", text, "-c", "copy", "-metadata", "title=MY-HOME"];
    let track = ["-metadata:s:v:0", "handler_name=MY-HOME"];
    let video = kit.make("v.mp4", &[&secret[..], &track].concat()).await;
    let audio = kit.make("a.mkv", &secret).await;
    let inputs: [(&str, &Path); 2] = [("video", &video), ("audio", &audio)];
    let output = assemble(&kit, &inputs, json!({})).await.unwrap();
    assert_eq!(output.encoder, None);
    let bytes = std::fs::read(&output.file).unwrap();
    for word in [&b"MY-HOME"[..], b"x264"] {
        assert!(!bytes.windows(word.len()).any(|part| part == word));
    }
}

#[tokio::test]
async fn the_check_refuses_files_that_are_not_what_was_promised() {
    let kit = Kit::new().await;
    let video = kit.base(3).await;
    let captions = srt(&kit, SRT);
    let inputs: [(&str, &Path); 2] = [("video", &video), ("captions", &captions)];
    let wish = json!({"caption_language": "eng"});
    let output = assemble(&kit, &inputs, wish.clone()).await.unwrap();
    let made = output.file.to_str().unwrap();
    let params = ServiceParams::parse(ServiceName::AssembleV1, &wish).unwrap();
    let found = probe(&kit.bench, &video).await.unwrap();
    let known = Sources::from([("video".to_owned(), found)]);
    let verdict = async |file: &Path, sources: &Sources| {
        let expectation = Expectation::of(&params, sources, 60).unwrap();
        check_output(&kit.bench, file, &expectation, &|_| ()).await
    };
    verdict(&output.file, &known).await.unwrap();
    verdict(&output.file, &Sources::new()).await.unwrap();
    let rejection = async |file: &Path, sources: &Sources| match verdict(file, sources).await {
        Err(CheckFailure::Rejected(rejection)) => rejection,
        other => panic!("not a rejection: {other:?}"),
    };
    let copy = ["-i", made, "-map", "0", "-c", "copy"];
    let with = async |name: &str, more: &[&str]| kit.make(name, &[&copy, more].concat()).await;
    let bare = with("bare.mp4", &["-sn"]).await;
    assert!(matches!(
        rejection(&bare, &Sources::new()).await,
        Rejection::Streams(_)
    ));
    let short = with("short.mp4", &["-t", "1"]).await;
    assert!(matches!(
        rejection(&short, &known).await,
        Rejection::Duration { .. }
    ));
    let doubled = with("doubled.mp4", &["-map", "0:a"]).await;
    assert!(matches!(
        rejection(&doubled, &Sources::new()).await,
        Rejection::Streams(_)
    ));
    let other = with("other.mp4", &["-c:v", "mpeg4"]).await;
    assert!(matches!(
        rejection(&other, &Sources::new()).await,
        Rejection::Codec { .. }
    ));
    let small = with("small.mp4", &["-c:v", "libx264", "-vf", "scale=64:36"]).await;
    assert!(matches!(
        rejection(&small, &known).await,
        Rejection::PictureSize { .. }
    ));
    let cut = kit.cut(&output.file, 0.6, "cut.mp4");
    assert!(matches!(
        rejection(&cut, &Sources::new()).await,
        Rejection::Undecodable(_)
    ));
}

#[tokio::test]
async fn a_picture_that_begins_late_is_shown_from_the_beginning_and_to_its_end() {
    let kit = Kit::new().await;
    let flashes_late = flashing(&kit, "early.mp4", &["-c:v", "libx264", "-bf", "2"]).await;
    let tone = tone(&kit, "tone.mp3", 5).await;
    for name in ["late.mp4", "late.mkv"] {
        let args = [
            "-itsoffset",
            "0.8",
            "-i",
            flashes_late.to_str().unwrap(),
            "-f",
            "lavfi",
            "-i",
            "sine=duration=4",
            "-c:v",
            "copy",
            "-c:a",
            "aac",
        ];
        let video = kit.make(name, &args).await;
        let inputs: [(&str, &Path); 2] = [("video", &video), ("audio", &tone)];
        let output = assemble(&kit, &inputs, json!({})).await.unwrap();
        let length = output.checked.duration_seconds;
        assert!((length - 4.8).abs() < 0.1, "{name}: {length}");
        let found = probe(&kit.bench, &output.file).await.unwrap();
        let picture = found.main_video().unwrap().duration_seconds.unwrap();
        assert!((picture - 4.8).abs() < 0.1, "{name}: {picture}");
        let flashes = flashes(&kit, &output.file);
        assert!(
            flashes.len() == 3 && (flashes[0] - 1.8).abs() < 0.05,
            "{name}: {flashes:?}"
        );
    }
}
