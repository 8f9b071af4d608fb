//! Sound and picture stay together where the frame rate varies.

use std::path::Path;
use std::process::Command;

use fencepost_media::probe;
use serde_json::json;

use crate::kit::Kit;

/// When a white flash and a beep begin, in seconds.
const EVENTS: [f64; 3] = [1.0, 6.0, 11.0];
const LENGTH: &str = "12";
const LONGEST_OFFSET: f64 = 0.05;

/// A flash and a beep of a tenth of a second at each event. Between them the picture stands still
/// for three seconds, then comes at ten frames per second.
async fn source(kit: &Kit) -> std::path::PathBuf {
    let during = "lt(mod(t-1,5),0.1)*gte(t,1)";
    let black = format!("color=black:size=160x90:rate=30:duration={LENGTH}");
    let beep = format!("aevalsrc='0.5*sin(2000*PI*t)*{during}':s=48000:d={LENGTH}");
    let flash = format!(
        "drawbox=w=160:h=90:color=white:t=fill:enable='{during}',\
         select='lt(t,2)+between(t,5,7)+gte(t,10)+between(t,7,10)*not(mod(n,3))'"
    );
    let inputs = ["-f", "lavfi", "-i", &black, "-f", "lavfi", "-i", &beep];
    let coding = [
        "-vf",
        &flash,
        "-fps_mode",
        "vfr",
        "-pix_fmt",
        "yuv420p",
        "-c:v",
        "libx264",
        "-c:a",
        "aac",
    ];
    kit.make("sync.mp4", &[&inputs[..], &coding[..]].concat())
        .await
}

/// What FFmpeg's filters say about a file.
pub(crate) fn measured(kit: &Kit, file: &Path, filters: &[&str]) -> String {
    let output = Command::new(&kit.bench.tools.ffmpeg)
        .args(["-hide_banner", "-nostdin", "-i"])
        .arg(file)
        .args(filters)
        .args(["-f", "null", "-"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

pub(crate) fn number_after(line: &str, word: &str) -> Option<f64> {
    let (_, rest) = line.split_once(word)?;
    rest.split_whitespace().next()?.parse().ok()
}

/// When the picture turns from dark to bright.
pub(crate) fn flashes(kit: &Kit, file: &Path) -> Vec<f64> {
    let print = "signalstats,metadata=print:key=lavfi.signalstats.YAVG:file=-";
    let text = measured(kit, file, &["-an", "-vf", print]);
    let (mut found, mut time, mut bright) = (Vec::new(), 0.0, false);
    for line in text.lines() {
        if let Some(at) = number_after(line, "pts_time:") {
            time = at;
        } else if let Some(average) = number_after(line, "YAVG=") {
            if average > 128.0 && !bright {
                found.push(time);
            }
            bright = average > 128.0;
        }
    }
    found
}

/// When the sound turns from silent to loud, the first so many times: the last silence ends with
/// the file.
pub(crate) fn beeps(kit: &Kit, file: &Path, count: usize) -> Vec<f64> {
    let text = measured(
        kit,
        file,
        &["-vn", "-af", "silencedetect=noise=-30dB:d=0.3"],
    );
    let ends = text
        .lines()
        .filter_map(|line| number_after(line, "silence_end: "));
    ends.take(count).collect()
}

#[tokio::test]
async fn a_flash_and_its_beep_stay_together_at_the_start_the_middle_and_the_end() {
    let kit = Kit::new().await;
    let source = source(&kit).await;
    for params in [
        json!({"codec": "h264"}),
        json!({"codec": "h264", "fps": 25.0}),
        json!({"codec": "vp9", "height": 90}),
    ] {
        let output = kit.run(&source, params.clone()).await.unwrap();
        let (flashes, beeps) = (flashes(&kit, &output.file), beeps(&kit, &output.file, 3));
        assert_eq!(
            (flashes.len(), beeps.len()),
            (3, 3),
            "{params} {flashes:?} {beeps:?}"
        );
        for ((flash, beep), event) in flashes.iter().zip(&beeps).zip(EVENTS) {
            let offset = (flash - beep).abs();
            assert!(offset < LONGEST_OFFSET, "{params}: {flash} and {beep}");
            assert!(
                (flash - event).abs() < 0.1,
                "{params}: {flash} instead of {event}"
            );
        }
        let found = probe(&kit.bench, &output.file).await.unwrap();
        let video = found.main_video().unwrap().duration_seconds;
        let audio = found.main_audio().unwrap().duration_seconds;
        // WebM states one length for all.
        if let (Some(video), Some(audio)) = (video, audio) {
            let frame = 1.0 / 25.0;
            assert!(
                (video - audio).abs() < frame + 0.05,
                "{params}: {video} and {audio}"
            );
        }
    }
}
