//! Clips whose colours are stored in different ways show the same colours in the film.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::colours::tags;
use crate::kit::Kit;
use crate::stitches::stitch;

/// A second of one colour, stored by a matrix, and tagged as such or not at all.
async fn coloured(
    kit: &Kit,
    name: &str,
    colour: &str,
    (matrix, range, tag): Coding<'_>,
) -> PathBuf {
    let picture = format!("color={colour}:size=128x72:rate=10:duration=1,format=gbrp");
    let format = if range == "pc" { "yuvj420p" } else { "yuv420p" };
    let store = format!("scale=out_color_matrix={matrix}:out_range={range},format={format}");
    let mut args = vec![
        "-f", "lavfi", "-i", &picture, "-vf", &store, "-c:v", "libx264", "-qp", "4",
    ];
    if tag {
        args.extend([
            "-colorspace",
            matrix,
            "-color_primaries",
            matrix,
            "-color_trc",
            matrix,
        ]);
    }
    kit.make(name, &args).await
}

type Coding<'a> = (&'a str, &'a str, bool);

/// Red, green and blue of the middle of the picture at a time, read by the matrix of `bt709`.
fn shown(kit: &Kit, file: &Path, at: &str) -> [u8; 3] {
    let output = Command::new(&kit.bench.tools.ffmpeg)
        .args(["-v", "error", "-nostdin", "-i"])
        .arg(file)
        .args(["-ss", at, "-frames:v", "1", "-vf"])
        .arg("scale=in_color_matrix=bt709:flags=accurate_rnd+full_chroma_int,crop=2:2")
        .args(["-pix_fmt", "rgb24", "-f", "rawvideo", "-"])
        .output()
        .unwrap();
    output.stdout[..3].try_into().expect("a pixel")
}

#[tokio::test]
async fn pure_colours_stay_pure_whatever_matrix_and_range_each_clip_is_stored_by() {
    let kit = Kit::new().await;
    let codings = [
        ("bt709", "tv", true),
        ("smpte170m", "tv", true),
        ("smpte170m", "tv", false),
        ("bt709", "pc", true),
    ];
    for (codec, colour, wanted) in [
        ("h264", "0xe01010", [0xe0, 0x10, 0x10]),
        ("prores", "0x10d0d0", [0x10, 0xd0, 0xd0]),
    ] {
        let mut clips = Vec::new();
        for (number, coding) in codings.into_iter().enumerate() {
            clips.push(coloured(&kit, &format!("{number}.mp4"), colour, coding).await);
        }
        // Whichever is the first.
        for turn in 0..clips.len() {
            clips.rotate_left(usize::from(turn > 0));
            let all: Vec<&PathBuf> = clips.iter().collect();
            let params = json!({"encode": {"codec": codec}});
            let output = stitch(&kit, &all, params).await.unwrap();
            for at in ["0.5", "1.5", "2.5", "3.5"] {
                let found = shown(&kit, &output.file, at);
                let near = found.iter().zip(wanted).all(|(a, b)| a.abs_diff(b) <= 6);
                assert!(
                    near,
                    "{codec}, {turn} first, {at} s: {found:x?}, not {wanted:x?}"
                );
            }
            let found = tags(&kit, &output.file);
            for tag in ["color_space", "color_primaries", "color_transfer"] {
                assert_eq!(found[tag], "bt709", "{codec} {tag}");
            }
        }
    }
}

#[tokio::test]
async fn colours_that_all_clips_store_alike_are_left_alone() {
    let kit = Kit::new().await;
    let clip = coloured(&kit, "a.mp4", "0xe01010", ("smpte170m", "tv", true)).await;
    let params = json!({"encode": {"codec": "h264"}});
    let output = stitch(&kit, &[&clip, &clip], params).await.unwrap();
    assert_eq!(
        tags(&kit, &output.file)["color_space"],
        Value::from("smpte170m")
    );
}
