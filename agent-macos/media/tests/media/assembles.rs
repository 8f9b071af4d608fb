//! A picture, other sound and captions become one mp4.

use std::path::{Path, PathBuf};
use std::process::Command;

use fencepost_media::fixture::Clip;
use fencepost_media::{MediaFailure, Output, probe, run};
use serde_json::{Value, json};

use crate::kit::{Kit, job_of};
use crate::sync::{beeps, flashes, measured, number_after};

pub(crate) const SERVICE: &str = "assemble.v1";
pub(crate) const SRT: &str = "1\n00:00:00,500 --> 00:00:01,500\nOne <i>two</i>\n\n\
                   2\n00:00:01,700 --> 00:00:09,000\n{y:i}<3 \\N\n\n\
                   3\n00:00:08,000 --> 00:00:09,000\nAfter the end\n";

pub(crate) async fn assemble(
    kit: &Kit,
    inputs: &[(&str, &Path)],
    params: Value,
) -> Result<Output, MediaFailure> {
    run(&kit.bench, &job_of(SERVICE, inputs, &params), &|_| ()).await
}

pub(crate) fn srt(kit: &Kit, text: &str) -> PathBuf {
    let file = kit.source("captions.srt");
    std::fs::write(&file, text).unwrap();
    file
}

/// A tone of so many seconds.
pub(crate) async fn tone(kit: &Kit, name: &str, seconds: u32) -> PathBuf {
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

pub(crate) async fn flashing(kit: &Kit, name: &str, coding: &[&str]) -> PathBuf {
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
