//! Tracks become one mix: as loud, as late and as long as asked for.

use std::path::{Path, PathBuf};
use std::process::Command;

use fencepost_media::{
    CheckFailure, Container, Expectation, FailureCode, MediaFailure, Output, Rejection, Sources,
    check_output, probe, run,
};
use serde_json::{Value, json};

use crate::kit::{Kit, code, job_of, stand_in};

/// Mixes files that are called `track_1` and so on.
pub(crate) async fn mix(
    kit: &Kit,
    tracks: &[&Path],
    params: Value,
) -> Result<Output, MediaFailure> {
    let names: Vec<_> = (1..=tracks.len()).map(|n| format!("track_{n}")).collect();
    let inputs = names.iter().map(String::as_str).zip(tracks.iter().copied());
    let inputs: Vec<_> = inputs.collect();
    run(
        &kit.bench,
        &job_of("audio_mix.v1", &inputs, &params),
        &|_| (),
    )
    .await
}

/// A tone that peaks at -6 dB.
pub(crate) async fn tone(kit: &Kit, name: &str, hertz: u32, seconds: u32) -> PathBuf {
    let tone = format!("sine=frequency={hertz}:sample_rate=48000:duration={seconds},volume=4");
    kit.make(name, &["-f", "lavfi", "-i", &tone]).await
}

/// What FFmpeg's filter says about the sound of a file.
fn measured(kit: &Kit, file: &Path, filter: &str) -> String {
    let output = Command::new(&kit.bench.tools.ffmpeg)
        .args(["-hide_banner", "-nostdin", "-i"])
        .arg(file)
        .args(["-af", filter, "-f", "null", "-"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn last_number(text: &str, word: &str) -> f64 {
    let (_, rest) = text.rsplit_once(word).expect(word);
    rest.split_whitespace().next().unwrap().parse().unwrap()
}

/// The highest sample between two times, in dB below full scale.
pub(crate) fn peak(kit: &Kit, file: &Path, from: f64, to: f64) -> f64 {
    let filter = format!("atrim={from}:{to},volumedetect");
    last_number(&measured(kit, file, &filter), "max_volume:")
}

/// Loudness in LUFS and the highest true peak in dBTP.
fn loudness(kit: &Kit, file: &Path) -> (f64, f64) {
    let text = measured(kit, file, "ebur128=peak=true");
    (last_number(&text, "I:"), last_number(&text, "Peak:"))
}

pub(crate) fn near(found: f64, wanted: f64, within: f64) -> bool {
    (found - wanted).abs() <= within
}

#[tokio::test]
async fn tracks_are_added_and_not_averaged() {
    let kit = Kit::new().await;
    let tone = tone(&kit, "t.wav", 440, 2).await;
    let original = peak(&kit, &tone, 0.5, 1.5);
    // The same input twice, each at half of its level.
    let halves = json!({"format": "wav", "tracks": [
        {"input": "track_1", "gain_db": -6.02},
        {"input": "track_1", "gain_db": -6.02},
    ]});
    let output = mix(&kit, &[&tone], halves).await.unwrap();
    let sum = peak(&kit, &output.file, 0.5, 1.5);
    assert!(near(sum, original, 0.2), "{sum} and {original}");
    let alone = json!({"format": "wav"});
    let output = mix(&kit, &[&tone], alone.clone()).await.unwrap();
    assert!(near(peak(&kit, &output.file, 0.5, 1.5), original, 0.1));
    // Another file of the same sound.
    let both = [tone.as_path(), &tone];
    let soft = json!({"format": "wav", "tracks": [
        {"input": "track_1", "gain_db": -12.04}, {"input": "track_2", "gain_db": -6.02},
    ]});
    let output = mix(&kit, &both, soft).await.unwrap();
    let sum = peak(&kit, &output.file, 0.5, 1.5);
    assert!(near(sum, original - 2.5, 0.2), "{sum} and {original}");
}

#[tokio::test]
async fn a_gain_of_minus_sixty_is_nearly_silent_and_a_gain_of_six_twice_as_loud() {
    let kit = Kit::new().await;
    let tone = tone(&kit, "t.wav", 440, 2).await;
    for (gain, expected) in [(-60.0, -66.0), (-20.5, -26.5), (5.0, -1.0)] {
        let params = json!({"format": "flac", "tracks": [
            {"input": "track_1", "gain_db": gain},
        ]});
        let output = mix(&kit, &[&tone], params).await.unwrap();
        let found = peak(&kit, &output.file, 0.5, 1.5);
        assert!(near(found, expected, 0.3), "{found} at {gain}");
    }
}

#[tokio::test]
async fn before_its_start_a_track_is_not_heard() {
    let kit = Kit::new().await;
    let tone = tone(&kit, "t.wav", 440, 2).await;
    for format in ["wav", "aac"] {
        let params = json!({"format": format, "tracks": [
            {"input": "track_1", "start_seconds": 1.5},
        ]});
        let output = mix(&kit, &[&tone], params).await.unwrap();
        assert!(near(output.checked.duration_seconds, 3.5, 0.05));
        let [before, after] = [(0.0, 1.45), (1.55, 3.4)];
        let silence = peak(&kit, &output.file, before.0, before.1);
        assert!(silence < -80.0, "{silence}");
        let sound = peak(&kit, &output.file, after.0, after.1);
        assert!(near(sound, -6.0, 0.5), "{sound}");
        if format == "wav" {
            assert!(peak(&kit, &output.file, 1.4, 1.499_9) < -80.0);
            assert!(peak(&kit, &output.file, 1.500_1, 1.51) > -12.0);
        }
    }
}

#[tokio::test]
async fn a_mix_ends_with_its_longest_or_with_its_first_track() {
    let kit = Kit::new().await;
    let short = tone(&kit, "s.wav", 440, 1).await;
    let long = tone(&kit, "l.wav", 880, 3).await;
    let files = [short.as_path(), &long];
    let late = |input, start: f64| json!({"input": input, "start_seconds": start});
    for (params, seconds) in [
        (json!({}), 3.0),
        (json!({"length": "first"}), 1.0),
        (
            json!({"tracks": [late("track_1", 2.5), late("track_2", 0.0)]}),
            3.5,
        ),
        (
            json!({"length": "first",
                   "tracks": [late("track_1", 1.0), late("track_2", 0.5)]}),
            2.0,
        ),
        (
            json!({"length": "first",
                   "tracks": [late("track_1", 0.0), late("track_2", 40.0)]}),
            1.0,
        ),
    ] {
        let output = mix(&kit, &files, params.clone()).await.unwrap();
        let found = output.checked.duration_seconds;
        assert!(near(found, seconds, 0.06), "{params}: {found}");
    }
}

#[tokio::test]
async fn the_first_of_more_than_nine_inputs_is_that_of_the_smallest_number() {
    let kit = Kit::new().await;
    let short = tone(&kit, "s.wav", 440, 1).await;
    let long = tone(&kit, "l.wav", 880, 2).await;
    let inputs = [("track_10", short.as_path()), ("track_2", &long)];
    let job = job_of("audio_mix.v1", &inputs, &json!({"length": "first"}));
    let output = run(&kit.bench, &job, &|_| ()).await.unwrap();
    assert!(near(output.checked.duration_seconds, 2.0, 0.06));
}

#[tokio::test]
async fn every_format_holds_one_track_of_the_asked_channels_and_nothing_else() {
    let kit = Kit::new().await;
    let film = kit.base(2).await;
    for (format, container, codec) in [
        ("aac", Container::Mp4, "aac"),
        ("flac", Container::Flac, "flac"),
        ("wav", Container::Wav, "pcm_s16le"),
    ] {
        for (channels, number) in [("stereo", 2), ("mono", 1)] {
            let params = json!({"format": format, "channels": channels});
            let output = mix(&kit, &[&film], params).await.unwrap();
            assert_eq!(kit.work_files(), std::slice::from_ref(&output.file));
            assert!(output.checked.has_audio && output.checked.size.is_none());
            let found = probe(&kit.bench, &output.file).await.unwrap();
            assert_eq!((found.container, found.streams), (container, 1));
            let audio = found.main_audio().unwrap();
            assert_eq!((audio.codec.as_str(), audio.channels), (codec, number));
            std::fs::remove_file(output.file).unwrap();
        }
    }
}

#[tokio::test]
async fn peaks_of_a_sum_are_held_below_full_scale() {
    let kit = Kit::new().await;
    let tone = tone(&kit, "t.wav", 440, 2).await;
    let track = json!({"input": "track_1", "gain_db": 3});
    let params = json!({"format": "flac", "tracks": vec![track; 16]});
    let output = mix(&kit, &[&tone], params).await.unwrap();
    let found = peak(&kit, &output.file, 0.0, 2.0);
    assert!((-1.0..0.0).contains(&found), "{found}");
    assert!(near(output.checked.duration_seconds, 2.0, 0.01));
}

#[tokio::test]
async fn a_mix_is_as_loud_as_asked_for() {
    let kit = Kit::new().await;
    let quiet = "sine=frequency=997:sample_rate=48000:duration=5,volume=-10dB";
    let quiet = kit.make("q.wav", &["-f", "lavfi", "-i", quiet]).await;
    let loud = "anoisesrc=color=pink:amplitude=1:sample_rate=44100:duration=5";
    let loud = kit.make("l.flac", &["-f", "lavfi", "-i", loud]).await;
    // Short bursts over a soft floor: their peaks are far above their loudness.
    let spiky = "aevalsrc='if(lt(mod(t,0.5),0.03),0.9,0.02)*sin(6000*t)':s=48000:d=8";
    let spiky = kit.make("s.wav", &["-f", "lavfi", "-i", spiky]).await;
    let short = ["-i", spiky.to_str().unwrap(), "-t", "1.5"];
    let short = kit.make("short.wav", &short).await;
    for (tracks, lufs) in [
        (vec![quiet.as_path()], -23.0),
        (vec![&quiet], -8.0),
        (vec![&loud], -16.0),
        (vec![&loud, &quiet], -40.0),
        (vec![&spiky], -14.0),
        (vec![&spiky], -10.0),
        (vec![&short], -12.0),
    ] {
        for format in ["aac", "wav"] {
            let params = json!({"format": format, "loudness_lufs": lufs});
            let output = mix(&kit, &tracks, params).await.unwrap();
            let (found, peak) = loudness(&kit, &output.file);
            assert!(
                near(found, lufs, 1.0),
                "{found} instead of {lufs}: {tracks:?}"
            );
            assert!(peak <= -1.0, "{peak} dBTP at {lufs}: {tracks:?}");
        }
    }
}

#[tokio::test]
async fn silence_has_no_loudness_and_stays_silent() {
    let kit = Kit::new().await;
    let silence = ["-f", "lavfi", "-i", "anullsrc=r=48000:cl=stereo", "-t", "2"];
    let silence = kit.make("s.wav", &silence).await;
    let params = json!({"loudness_lufs": -16});
    let output = mix(&kit, &[&silence], params).await.unwrap();
    assert!(peak(&kit, &output.file, 0.0, 2.0) < -80.0);
}

#[tokio::test]
async fn a_mix_longer_than_what_was_sold_is_refused_before_it_is_decoded() {
    let mut kit = Kit::new().await;
    let tone = tone(&kit, "t.wav", 440, 4).await;
    kit.bench.tools.ffmpeg = stand_in(kit.sources.path(), "ffmpeg", "echo > decoded");
    for params in [
        json!({"tracks": [{"input": "track_1", "start_seconds": 59}]}),
        json!({"tracks": [{"input": "track_1", "start_seconds": 86_400}]}),
    ] {
        let failure = mix(&kit, &[&tone], params).await.unwrap_err();
        assert_eq!(failure.code(), Some(FailureCode::InputInvalid));
        assert!(
            failure.to_string().contains("max_output_seconds"),
            "{failure}"
        );
        assert_eq!(kit.work_files().len(), 0);
    }
}

/// A promise to two seconds of stereo.
fn expected(params: &Value, sources: &Sources, most: u32) -> Expectation {
    let job = job_of("audio_mix.v1", &[("track_1", Path::new("/x"))], params);
    Expectation::of(&job.params, sources, most).expect("a promise")
}

#[tokio::test]
async fn the_check_refuses_whatever_is_not_the_mix_that_was_asked_for() {
    let kit = Kit::new().await;
    let film = kit.base(2).await;
    let source = probe(&kit.bench, &film).await.unwrap();
    let known = Sources::from([("track_1".to_owned(), source)]);
    let good = mix(&kit, &[&film], json!({})).await.unwrap().file;
    let text = good.to_str().unwrap();
    let verdict = async |file: &Path, params: Value, sources: &Sources, most| {
        let expectation = expected(&params, sources, most);
        match check_output(&kit.bench, file, &expectation, &|_| ()).await {
            Ok(checked) => Ok(checked),
            Err(CheckFailure::Rejected(rejection)) => Err(rejection),
            Err(other) => panic!("not a rejection: {other}"),
        }
    };
    for sources in [&known, &Sources::new()] {
        let checked = verdict(&good, json!({}), sources, 60).await.unwrap();
        assert!(near(checked.duration_seconds, 2.0, 0.06));
        let flac = verdict(&good, json!({"format": "flac"}), sources, 60).await;
        assert!(matches!(flac, Err(Rejection::Container { .. })));
        let mono = verdict(&good, json!({"channels": "mono"}), sources, 60).await;
        assert!(matches!(mono, Err(Rejection::Streams(_))));
        let film = verdict(&film, json!({}), sources, 60).await;
        assert!(matches!(film, Err(Rejection::Streams(_))));
        let empty = kit.source("empty.m4a");
        std::fs::write(&empty, "").unwrap();
        assert_eq!(
            verdict(&empty, json!({}), sources, 60).await,
            Err(Rejection::Empty)
        );
        let cut = kit.cut(&good, 0.6, "cut.m4a");
        assert!(verdict(&cut, json!({}), sources, 60).await.is_err());
    }
    let long = verdict(&good, json!({}), &Sources::new(), 0).await;
    assert!(matches!(long, Err(Rejection::TooLong { most: 0, .. })));
    let copy = ["-i", text, "-c", "copy"];
    let short = [&copy[..], &["-t", "1"]].concat();
    let short = kit.make("short.m4a", &short).await;
    let short = verdict(&short, json!({}), &known, 60).await;
    assert!(matches!(short, Err(Rejection::Duration { .. })));
    let twice = [&copy[..], &["-map", "0", "-map", "0"]].concat();
    let twice = kit.make("twice.m4a", &twice).await;
    let twice = verdict(&twice, json!({}), &known, 60).await;
    assert!(matches!(twice, Err(Rejection::Streams(_))));
    let other = kit.make("other.m4a", &["-i", text, "-c:a", "alac"]).await;
    let other = verdict(&other, json!({}), &Sources::new(), 60).await;
    assert!(matches!(other, Err(Rejection::Codec { .. })));
}

#[tokio::test]
async fn a_wave_file_that_states_more_than_is_in_it_is_refused() {
    let kit = Kit::new().await;
    let tone = tone(&kit, "t.wav", 440, 4).await;
    let good = mix(&kit, &[&tone], json!({"format": "wav"})).await.unwrap();
    let flac = mix(&kit, &[&tone], json!({"format": "flac"}))
        .await
        .unwrap();
    for (file, format) in [(good.file, "wav"), (flac.file, "flac")] {
        let cut = kit.cut(&file, 0.5, "cut");
        let expectation = expected(&json!({"format": format}), &Sources::new(), 60);
        let result = check_output(&kit.bench, &cut, &expectation, &|_| ()).await;
        assert!(
            matches!(result, Err(CheckFailure::Rejected(_))),
            "{format}: {result:?}"
        );
    }
}

#[tokio::test]
async fn nothing_is_left_of_a_mix_that_fails_or_is_stopped() {
    let mut kit = Kit::new().await;
    let tone = tone(&kit, "t.wav", 440, 1).await;
    for (script, params) in [
        ("exit 0", json!({})),
        ("echo x > output.m4a", json!({})),
        ("echo x > output.m4a; exit 1", json!({})),
        ("exit 0", json!({"loudness_lufs": -16})),
    ] {
        kit.bench.tools.ffmpeg = stand_in(kit.sources.path(), "ffmpeg", script);
        let result = mix(&kit, &[&tone], params).await;
        assert_eq!(code(result), FailureCode::RunnerFailed, "{script}");
        assert_eq!(kit.work_files().len(), 0, "{script}");
    }
    let script =
        "echo x > output.m4a; echo total_size=1; echo progress=continue; sleep 1000 & wait";
    kit.bench.tools.ffmpeg = stand_in(kit.sources.path(), "ffmpeg", script);
    let job = job_of("audio_mix.v1", &[("track_1", &tone)], &json!({}));
    let stop = |_| kit.bench.stop.cancel();
    let stopped = run(&kit.bench, &job, &stop).await;
    assert_eq!(stopped, Err(MediaFailure::Stopped));
    assert_eq!(kit.work_files().len(), 0);
}
