//! Mixes of sounds of every shape, and of what is no sound.

use fencepost_media::{FailureCode, probe};
use serde_json::json;

use crate::kit::{Kit, code};
use crate::mixes::{mix, near, peak, tone};

#[tokio::test]
async fn sounds_of_every_container_rate_and_layout_are_mixed() {
    let kit = Kit::new().await;
    let tone = "sine=frequency=440:sample_rate=44100:duration=2,volume=4";
    let input = ["-f", "lavfi", "-i", tone];
    let long_title = format!("title={}", "long ".repeat(2_000));
    for (name, coding) in [
        ("t.mp3", &["-ar", "44100"][..]),
        (
            "t22.mp3",
            &["-ar", "22050", "-id3v2_version", "0", "-write_xing", "0"],
        ),
        ("bare.mp3", &["-id3v2_version", "0", "-write_xing", "0"]),
        ("t.aac", &["-b:a", "128k"]),
        // A tag in front, of more bytes than are looked at to recognise a file.
        (
            "tagged.aac",
            &["-write_id3v2", "1", "-metadata", &long_title],
        ),
        ("tagged.mp3", &["-metadata", &long_title]),
        ("t.m4a", &["-c:a", "aac"]),
        ("t.flac", &["-sample_fmt", "s32"]),
        ("t.ogg", &["-c:a", "libvorbis"]),
        ("t.webm", &["-c:a", "libopus"]),
        ("t8.wav", &["-c:a", "pcm_u8", "-ar", "8000"]),
        ("t24.wav", &["-c:a", "pcm_s24le", "-ar", "96000"]),
        ("t64.wav", &["-rf64", "always"]),
        ("t.mka", &["-c:a", "pcm_f32le"]),
        ("t.ts", &["-c:a", "aac"]),
    ] {
        let source = kit.make(name, &[&input[..], coding].concat()).await;
        let output = mix(&kit, &[&source], json!({"format": "wav"})).await;
        let output = output.unwrap_or_else(|failure| panic!("{name}: {failure}"));
        let seconds = output.checked.duration_seconds;
        assert!(near(seconds, 2.0, 0.1), "{name}: {seconds}");
        let found = peak(&kit, &output.file, 0.5, 1.5);
        assert!(near(found, -6.0, 1.0), "{name}: {found}");
    }
}

#[tokio::test]
async fn a_wave_file_from_a_pipe_does_not_say_how_long_it_is() {
    let kit = Kit::new().await;
    let tone = tone(&kit, "t.wav", 440, 2).await;
    let mut bytes = std::fs::read(tone).unwrap();
    let data = bytes.windows(4).position(|word| word == b"data").unwrap();
    for unknown in [[0xff; 4], [0; 4]] {
        bytes[4..8].copy_from_slice(&unknown);
        bytes[data + 4..data + 8].copy_from_slice(&unknown);
        let piped = kit.source("piped.wav");
        std::fs::write(&piped, &bytes).unwrap();
        for params in [json!({}), json!({"loudness_lufs": -16})] {
            let output = mix(&kit, &[&piped], params).await.unwrap();
            let seconds = output.checked.duration_seconds;
            assert!(near(seconds, 2.0, 0.06), "{seconds}");
        }
    }
}

#[tokio::test]
async fn many_channels_become_two_or_one() {
    let kit = Kit::new().await;
    let voice = "sine=frequency=440:sample_rate=48000:duration=2,volume=2";
    for (layout, expected) in [
        ("pan=stereo|c0=c0|c1=c0", -12.0),
        // The middle channel is heard from both sides.
        ("pan=5.1|FC=c0", -15.0),
        ("pan=7.1|FL=c0|FR=c0", -12.0),
    ] {
        let args = ["-f", "lavfi", "-i", voice, "-af", layout];
        let source = kit.make("many.wav", &args).await;
        for channels in ["stereo", "mono"] {
            let params = json!({"format": "wav", "channels": channels});
            let output = mix(&kit, &[&source], params).await.unwrap();
            let found = peak(&kit, &output.file, 0.5, 1.5);
            assert!(near(found, expected, 0.7), "{layout} {channels}: {found}");
        }
    }
    let channels = "aevalsrc='0.5*sin(2000*t)|0|0|0|0|0|0|0|0|0|0|0':s=48000:d=1";
    let source = kit
        .make("twelve.wav", &["-f", "lavfi", "-i", channels])
        .await;
    let found = probe(&kit.bench, &source).await.unwrap();
    assert_eq!(found.main_audio().unwrap().channels, 12);
    let output = mix(&kit, &[&source], json!({"format": "wav"}))
        .await
        .unwrap();
    assert!(near(peak(&kit, &output.file, 0.2, 0.8), -6.0, 0.5));
}

#[tokio::test]
async fn of_a_video_the_first_sound_is_taken_and_stays_in_its_time() {
    let kit = Kit::new().await;
    let tone = tone(&kit, "t.wav", 440, 2).await;
    let silent = "color=size=64x64:rate=10:duration=4";
    let late = [
        "-f",
        "lavfi",
        "-i",
        silent,
        "-itsoffset",
        "1.5",
        "-i",
        tone.to_str().unwrap(),
    ];
    for name in ["late.mp4", "late.mkv", "late.ts"] {
        let source = kit.make(name, &late).await;
        let output = mix(&kit, &[&source], json!({"format": "wav"})).await;
        let output = output.unwrap_or_else(|failure| panic!("{name}: {failure}"));
        let seconds = output.checked.duration_seconds;
        assert!(near(seconds, 3.5, 0.1), "{name}: {seconds}");
        assert!(peak(&kit, &output.file, 0.0, 1.4) < -60.0, "{name}");
        assert!(
            near(peak(&kit, &output.file, 1.7, 3.3), -6.0, 1.0),
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_sound_that_changes_its_form_is_refused_rather_than_mixed_wrongly() {
    let kit = Kit::new().await;
    let mut bytes = Vec::new();
    for channels in ["6", "1", "6"] {
        let tone = ["-f", "lavfi", "-i", "sine=duration=1", "-ac", channels];
        let coding = ["-c:a", "ac3", "-f", "mpegts"];
        let part = kit.make("part.ts", &[&tone[..], &coding].concat()).await;
        bytes.extend(std::fs::read(part).unwrap());
    }
    let joined = kit.source("joined.ts");
    std::fs::write(&joined, bytes).unwrap();
    let late = json!({"tracks": [{"input": "track_1", "start_seconds": 1}]});
    let result = mix(&kit, &[&joined], late).await;
    assert_eq!(code(result), FailureCode::InputInvalid);
    assert_eq!(kit.work_files().len(), 0);
}

#[tokio::test]
async fn a_hole_in_a_sound_is_silence() {
    let kit = Kit::new().await;
    let tone = tone(&kit, "t.wav", 440, 4).await;
    let hole = [
        "-i",
        tone.to_str().unwrap(),
        "-af",
        "aselect='not(between(t,1,2))'",
        "-c:a",
        "pcm_s16le",
    ];
    let source = kit.make("hole.mkv", &hole).await;
    let output = mix(&kit, &[&source], json!({"format": "wav"}))
        .await
        .unwrap();
    assert!(near(output.checked.duration_seconds, 4.0, 0.1));
    assert!(peak(&kit, &output.file, 1.2, 1.8) < -80.0);
    assert!(near(peak(&kit, &output.file, 2.2, 3.8), -6.0, 0.5));
}

#[tokio::test]
async fn a_sound_with_a_cover_picture_is_mixed_without_it() {
    let kit = Kit::new().await;
    let still = ["-f", "lavfi", "-i", "testsrc=size=64x64", "-frames:v", "1"];
    let cover = kit.make("c.jpg", &still).await;
    let input = [
        "-f",
        "lavfi",
        "-i",
        "sine=duration=2",
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
        "-metadata",
        "title=MY-HOME",
    ];
    for name in ["song.mp3", "song.flac", "song.m4a"] {
        let source = kit.make(name, &[&input[..], &rest].concat()).await;
        for format in ["aac", "flac", "wav"] {
            let output = mix(&kit, &[&source], json!({"format": format})).await;
            let output = output.unwrap();
            let found = probe(&kit.bench, &output.file).await.unwrap();
            assert_eq!(found.streams, 1, "{name} as {format}");
            let bytes = std::fs::read(&output.file).unwrap();
            assert!(!bytes.windows(7).any(|part| part == b"MY-HOME"));
            std::fs::remove_file(output.file).unwrap();
        }
    }
}

#[tokio::test]
async fn an_input_without_sound_is_refused_by_its_name() {
    let kit = Kit::new().await;
    let tone = tone(&kit, "t.wav", 440, 1).await;
    let picture = ["-f", "lavfi", "-i", "testsrc=size=64x64:rate=10:duration=1"];
    let mut odd = vec![(kit.make("silent.mp4", &picture).await, "no sound")];
    let still = [&picture[..], &["-frames:v", "1"]].concat();
    odd.push((kit.make("still.png", &still).await, "still picture"));
    for (name, text, says) in [
        ("empty.wav", "", "empty"),
        ("list.wav", "#EXTM3U\nt.wav\n", "text"),
        ("noise.mp3", "\u{0}\u{1}\u{2}\u{3}", "not in a container"),
    ] {
        let file = kit.source(name);
        std::fs::write(&file, text).unwrap();
        odd.push((file, says));
    }
    for (file, says) in odd {
        let failure = mix(&kit, &[&tone, &file], json!({})).await.unwrap_err();
        assert_eq!(failure.code(), Some(FailureCode::InputInvalid), "{failure}");
        let text = failure.to_string();
        assert!(text.contains("track_2") && text.contains(says), "{text}");
        assert_eq!(kit.work_files().len(), 0);
    }
}

#[tokio::test]
async fn a_cut_sound_is_the_inputs_fault() {
    let kit = Kit::new().await;
    let good = tone(&kit, "t.wav", 440, 4).await;
    let text = good.to_str().unwrap();
    let flac = kit.make("t.flac", &["-i", text]).await;
    let m4a = kit.make("t.m4a", &["-i", text]).await;
    let front = ["-i", text, "-movflags", "+faststart"];
    let front = kit.make("f.m4a", &front).await;
    for source in [&good, &flac, &m4a, &front] {
        let cut = kit.cut(source, 0.5, "cut");
        let result = mix(&kit, &[&cut], json!({})).await;
        assert_eq!(code(result), FailureCode::InputInvalid, "{source:?}");
        assert_eq!(kit.work_files().len(), 0);
    }
}
