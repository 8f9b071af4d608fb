//! Captions are seen where and when they should be, and nowhere else.

use std::path::{Path, PathBuf};

use fencepost_domain::service::{ServiceName, ServiceParams};
use fencepost_media::fixture::Clip;
use fencepost_media::{
    CheckFailure, Expectation, FailureCode, MediaFailure, Output, Rejection, Size, Sources,
    StopSignal, capabilities, check_output, run,
};
use serde_json::{Value, json};

use crate::kit::{Kit, code, job_of, stand_in};
use crate::sync::{measured, number_after};

const SERVICE: &str = "caption_burn.v1";
const SRT: &str = "1\n00:00:01,000 --> 00:00:02,000\nHIHIHIHI\n";

async fn burn(
    kit: &Kit,
    source: &Path,
    text: impl AsRef<[u8]>,
    params: Value,
) -> Result<Output, MediaFailure> {
    let captions = kit.source("captions");
    std::fs::write(&captions, text).unwrap();
    let inputs = [("source", source), ("captions", captions.as_path())];
    run(&kit.bench, &job_of(SERVICE, &inputs, &params), &|_| ()).await
}

/// Three seconds of black, with a tone.
async fn black(kit: &Kit) -> PathBuf {
    let inputs = [
        "-f",
        "lavfi",
        "-i",
        "color=black:size=320x180:rate=10:duration=3",
        "-f",
        "lavfi",
        "-i",
        "sine=duration=3",
    ];
    let coding = ["-pix_fmt", "yuv420p", "-c:v", "libx264", "-c:a", "aac"];
    kit.make("black.mp4", &[&inputs[..], &coding].concat())
        .await
}

/// When anything bright is seen in the upper, middle and lower third of the picture: the first and
/// the last time, in tenths of a second.
fn seen(kit: &Kit, file: &Path) -> [Option<(i64, i64)>; 3] {
    ["0", "ih/3", "2*ih/3"].map(|y| {
        let print = format!(
            "crop=iw:ih/3:0:{y},signalstats,metadata=print:key=lavfi.signalstats.YMAX:file=-"
        );
        let text = measured(kit, file, &["-an", "-vf", &print]);
        let (mut times, mut time) = (Vec::new(), 0);
        for line in text.lines() {
            if let Some(at) = number_after(line, "pts_time:") {
                #[expect(clippy::cast_possible_truncation, reason = "a few seconds")]
                let tenths = (at * 10.0).round() as i64;
                time = tenths;
            } else if number_after(line, "YMAX=").is_some_and(|brightest| brightest > 150.0) {
                times.push(time);
            }
        }
        Some((*times.first()?, *times.last()?))
    })
}

#[tokio::test]
async fn captions_of_all_kinds_are_seen_in_their_time_and_place_and_nowhere_else() {
    let kit = Kit::new().await;
    let source = black(&kit).await;
    let vtt = "WEBVTT\n\n00:01.000 --> 00:02.000 line:0\n<b>HIHIHIHI</b>\n";
    let ass = "[Script Info]\nScriptType: v4.00+\nPlayResX: 320\nPlayResY: 180\n\n[V4+ Styles]\n\
               Format: Name, Fontname, Fontsize, PrimaryColour, Alignment\n\
               Style: Default,Arial,20,&H00FFFFFF,8\n\n[Events]\n\
               Format: Layer, Start, End, Style, Text\n\
               Dialogue: 0,0:00:01.00,0:00:02.00,Default,HIHIHIHI\n";
    let shown = Some((10, 19));
    for (text, position, expected) in [
        (SRT, "bottom", [None, None, shown]),
        (SRT, "middle", [None, shown, None]),
        (SRT, "top", [shown, None, None]),
        (vtt, "bottom", [None, None, shown]),
        (ass, "bottom", [shown, None, None]),
    ] {
        let params = json!({"encode": {"codec": "h264"}, "position": position});
        let output = burn(&kit, &source, text, params).await.unwrap();
        assert_eq!(seen(&kit, &output.file), expected, "{position} {text}");
        assert_eq!(output.checked.size, Some(Size::new(320, 180)));
        assert_eq!(output.checked.frames, 30);
        assert!(output.checked.has_audio);
        assert_eq!(kit.work_files(), [output.file]);
    }
}

#[tokio::test]
async fn every_codec_and_size_is_drawn_into() {
    let kit = Kit::new().await;
    let source = black(&kit).await;
    for encode in [
        json!({"codec": "prores", "height": 90}),
        json!({"codec": "vp9", "width": 200, "height": 200}),
        json!({"codec": "hevc", "fps": 20.0, "audio": "drop"}),
    ] {
        let params = json!({"encode": encode, "size_percent": 12.0});
        let output = burn(&kit, &source, SRT, params).await.unwrap();
        let [top, _, bottom] = seen(&kit, &output.file);
        assert!(
            top.is_none() && bottom.is_some_and(|(first, _)| first == 10),
            "{encode}"
        );
    }
}

#[tokio::test]
async fn a_caption_over_a_picture_that_stands_still_comes_and_goes_in_time() {
    let kit = Kit::new().await;
    let still = "color=black:size=320x180:rate=10:duration=6,select='not(mod(n,25))'";
    let args = [
        "-f",
        "lavfi",
        "-i",
        still,
        "-fps_mode",
        "vfr",
        "-pix_fmt",
        "yuv420p",
    ];
    let source = kit.make("still.mkv", &args).await;
    let output = burn(&kit, &source, SRT, json!({"encode": {"codec": "h264"}}))
        .await
        .unwrap();
    assert_eq!(seen(&kit, &output.file), [None, None, Some((10, 19))]);
}

#[tokio::test]
async fn a_turned_source_is_drawn_into_upright() {
    let kit = Kit::new().await;
    let source = black(&kit).await;
    let turned = kit.source("turned.mp4");
    let text = source.to_str().unwrap();
    let new = ["-display_rotation", "90", "-i", text, "-c", "copy"];
    if fencepost_media::fixture::ffmpeg(&kit.bench.tools, &new, &turned)
        .await
        .is_err()
    {
        let old = ["-i", text, "-c", "copy", "-metadata:s:v:0", "rotate=90"];
        fencepost_media::fixture::ffmpeg(&kit.bench.tools, &old, &turned)
            .await
            .unwrap();
    }
    let output = burn(&kit, &turned, SRT, json!({"encode": {"codec": "h264"}}))
        .await
        .unwrap();
    assert_eq!(output.checked.size, Some(Size::new(180, 320)));
    assert_eq!(seen(&kit, &output.file), [None, None, Some((10, 19))]);
}

#[tokio::test]
async fn captions_that_are_none_are_refused_by_name_and_call_no_host() {
    let kit = Kit::new().await;
    let source = black(&kit).await;
    let utf16: Vec<u8> = std::iter::once(0xfeff_u16)
        .chain(SRT.encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect();
    let large = vec![b'x'; (2 << 20) + 1];
    for (bytes, word) in [
        (&b""[..], "no caption"),
        (b"#EXTM3U\nfile:///etc/passwd", "line 1"),
        (b"ffconcat version 1.0\nfile canary.mp4\n", "line 1"),
        (b"1\n00:00:01,000 --> 00:00:02,000\nGr\xfc\xdfe\n", "UTF-8"),
        (&utf16, "UTF-8"),
        (&large, "bytes"),
        (b"1\n00:00:09,000 --> 00:00:10,000\nlate\n", "3.00 s"),
        (b"1\n00:00:02,000 --> 00:00:01,000\nback\n", "line 2"),
    ] {
        let failure = burn(&kit, &source, bytes, json!({"encode": {"codec": "h264"}}))
            .await
            .unwrap_err();
        assert_eq!(failure.code(), Some(FailureCode::InputInvalid), "{word}");
        let text = failure.to_string();
        assert!(
            text.contains("captions") && text.contains(word),
            "{word}: {text}"
        );
        assert_eq!(kit.work_files().len(), 0);
    }
}

#[tokio::test]
async fn a_source_that_is_none_and_one_too_long_are_refused_before_anything_is_decoded() {
    let mut kit = Kit::new().await;
    let tone = kit
        .make("t.mp3", &["-f", "lavfi", "-i", "sine=duration=1"])
        .await;
    let params = json!({"encode": {"codec": "h264"}});
    assert_eq!(
        code(burn(&kit, &tone, SRT, params.clone()).await),
        FailureCode::InputInvalid
    );
    let source = kit.clip("long.mp4", Clip::base(5)).await;
    let captions = kit.source("captions");
    let inputs = [
        ("source", source.as_path()),
        ("captions", captions.as_path()),
    ];
    kit.bench.tools.ffmpeg = stand_in(kit.sources.path(), "ffmpeg", "echo > decoded");
    let mut job = job_of(SERVICE, &inputs, &params);
    job.max_output_seconds = 2;
    assert_eq!(
        code(run(&kit.bench, &job, &|_| ()).await),
        FailureCode::InputInvalid
    );
    assert_eq!(kit.work_files().len(), 0);
}

#[tokio::test]
async fn a_stopped_or_failing_burn_leaves_neither_captions_nor_output() {
    let mut kit = Kit::new().await;
    let source = kit.base(20).await;
    let params = json!({"encode": {"codec": "h264", "height": 720}});
    let captions = kit.source("captions");
    std::fs::write(&captions, SRT).unwrap();
    let inputs = [
        ("source", source.as_path()),
        ("captions", captions.as_path()),
    ];
    let job = job_of(SERVICE, &inputs, &params);
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
async fn the_check_refuses_another_size_and_a_track_of_captions() {
    let kit = Kit::new().await;
    let source = black(&kit).await;
    let params = json!({"encode": {"codec": "h264", "height": 90}});
    let output = burn(&kit, &source, SRT, params.clone()).await.unwrap();
    let params = ServiceParams::parse(ServiceName::CaptionBurnV1, &params).unwrap();
    let expectation = Expectation::of(&params, &Sources::new(), 60).unwrap();
    let verdict = async |file: &Path| check_output(&kit.bench, file, &expectation, &|_| ()).await;
    verdict(&output.file).await.unwrap();
    let size = verdict(&source).await;
    assert!(
        matches!(
            size,
            Err(CheckFailure::Rejected(Rejection::PictureSize { .. }))
        ),
        "{size:?}"
    );
    let srt = kit.source("s.srt");
    std::fs::write(&srt, SRT).unwrap();
    let args = [
        "-i",
        output.file.to_str().unwrap(),
        "-i",
        srt.to_str().unwrap(),
        "-c",
        "copy",
        "-c:s",
        "mov_text",
    ];
    let tracked = kit.make("tracked.mp4", &args).await;
    let streams = verdict(&tracked).await;
    assert!(
        matches!(streams, Err(CheckFailure::Rejected(Rejection::Streams(_)))),
        "{streams:?}"
    );
}

#[tokio::test]
async fn a_machine_that_draws_nothing_is_not_offered_captions() {
    let mut kit = Kit::new().await;
    let real = kit.bench.tools.ffmpeg.display().to_string();
    for script in [
        // Built without libass.
        format!(
            "case \"$*\" in *ass=*) echo \"No such filter: 'ass'\" >&2; exit 1;; esac\nexec {real} \"$@\""
        ),
        // With libass, and without a font.
        format!(
            "n=$#; while [ $n -gt 0 ]; do a=$1; shift; n=$((n - 1)); \
                 set -- \"$@\" \"$(echo \"$a\" | sed 's/ass=captions.ass/null/')\"; done\n\
                 exec {real} \"$@\""
        ),
    ] {
        kit.bench.tools.ffmpeg = stand_in(kit.sources.path(), "ffmpeg", &script);
        let words = capabilities(&kit.bench).await;
        let has = |word: &str| words.iter().any(|found| found.0 == word);
        assert!(has("assemble.v1") && has("stitch_export.v1"), "{words:?}");
        assert!(!has("caption_burn.v1"), "{script}");
        assert_eq!(kit.work_files().len(), 0);
    }
}
