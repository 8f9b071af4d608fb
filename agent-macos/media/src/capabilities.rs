//! Proves what this machine can do, by doing it.
//!
//! An encoder that FFmpeg lists may still refuse to open: no media engine, no permission, a build
//! without the library. So each one writes a second of a test picture.

mod remotion;
mod services;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use fencepost_domain::service::transcode::VideoCodec;
use fencepost_domain::service::{Capability, ServiceName};

use crate::Workbench;
use crate::args::Args;
use crate::child::{self, ChildLimits, ChildSpec, Ended, Stdout};
use crate::encoder::{Encoder, Quality, encoder_arguments};
use crate::probe::{file_url, probe};

const TRIAL_TIME: Duration = Duration::from_secs(10);
const CODECS: [VideoCodec; 4] = [
    VideoCodec::H264,
    VideoCodec::Hevc,
    VideoCodec::Vp9,
    VideoCodec::Prores,
];

/// Tries every encoder and service in the workbench's folder, which takes a few seconds; worth
/// keeping until FFmpeg's version changes. Cancelling the workbench's signal ends it early with what
/// was found.
pub async fn capabilities(bench: &Workbench) -> BTreeSet<Capability> {
    let mut proven = BTreeSet::new();
    for codec in CODECS {
        if works(bench, Encoder::Software(codec)).await {
            proven.insert(Capability::new(format!("encode.{}", codec.as_str())));
        }
        let has_engine = cfg!(target_os = "macos") && codec != VideoCodec::Vp9;
        if has_engine && works(bench, Encoder::VideoToolbox(codec)).await {
            proven.insert(Capability::new(format!("videotoolbox.{}", codec.as_str())));
        }
    }
    if !proven.is_empty() {
        proven.insert(Capability::new(ServiceName::TranscodeV1.as_str()));
    }
    let software = |codec: &VideoCodec| {
        let word = format!("encode.{}", codec.as_str());
        proven.contains(&Capability::new(word))
    };
    if let Some(codec) = CODECS.into_iter().find(software) {
        let mut words = services::proven(bench, codec.as_str(), &proven).await;
        words.extend(remotion::proven(bench, codec.as_str(), &proven).await);
        proven.extend(words);
    }
    proven
}

async fn works(bench: &Workbench, encoder: Encoder) -> bool {
    let codec = encoder.codec();
    let file = bench.folder.join(format!("trial.{}", codec.extension()));
    let encoded = encode(bench, encoder, &file).await;
    let proven = match encoded {
        Ok(()) => probe(bench, &file)
            .await
            .map_err(|failure| failure.to_string())
            .is_ok_and(|found| {
                found
                    .main_video()
                    .is_some_and(|v| v.codec == codec.as_str())
            }),
        Err(why) => {
            tracing::info!(?encoder, why, "encoder does not work here");
            false
        }
    };
    if let Err(error) = tokio::fs::remove_file(&file).await
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(%error, "a trial output could not be deleted");
    }
    proven
}

async fn encode(bench: &Workbench, encoder: Encoder, file: &Path) -> Result<(), String> {
    let mut args = Args::default();
    args.words("-hide_banner -nostdin -y -loglevel error -nostats");
    args.words("-f lavfi -i testsrc=size=320x240:rate=25:duration=1");
    args.word("-vf")
        .word(format!("format={}", encoder.pixel_format()));
    encoder_arguments(&mut args, encoder, Quality::Usual, 500);
    args.0.push(file_url(file));
    ffmpeg(bench, args, 0).await.map(drop)
}

/// So many bytes of a film's first picture, in this pixel format.
async fn first_picture(
    bench: &Workbench,
    file: &Path,
    (format, bytes): (&str, usize),
) -> Result<Vec<u8>, String> {
    let found = probe(bench, file).await;
    let container = found
        .map_err(|failure| failure.message().to_owned())?
        .container;
    let mut args = Args::default();
    args.words("-hide_banner -nostdin -loglevel error -nostats");
    args.input(container, file);
    args.words("-map 0:v:0 -frames:v 1 -pix_fmt").word(format);
    args.words("-f rawvideo -");
    ffmpeg(bench, args, bytes).await
}

/// Runs FFmpeg to its end; gives so much of what it wrote to its stdout.
async fn ffmpeg(bench: &Workbench, args: Args, kept: usize) -> Result<Vec<u8>, String> {
    let spec = ChildSpec {
        program: &bench.tools.ffmpeg,
        args: args.0,
        folder: &bench.folder,
        limits: ChildLimits {
            run_time: TRIAL_TIME,
            ..bench.probe_limits()
        },
        isolation: &bench.tools.isolation,
        roster: bench.tools.roster.as_ref(),
    };
    let finished = child::run(spec, Stdout::Keep(kept), &bench.stop)
        .await
        .map_err(|error| error.to_string())?;
    match finished.ended {
        Ended::Success => Ok(finished.stdout),
        ended => Err(format!("{ended:?}: {}", finished.stderr.trim())),
    }
}
