//! Proves which services work here beside `transcode.v1`, by doing each once on a film of half a
//! second.
//!
//! A build of FFmpeg may lack the library that draws captions, and a machine the letters to draw.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use fencepost_domain::service::{Capability, ServiceName, ServiceParams};
use serde_json::{Value, json};

use super::{TRIAL_TIME, ffmpeg, first_picture};
use crate::args::Args;
use crate::probe::file_url;
use crate::work::{Job, Partial, run};
use crate::{Limits, Output, Workbench};

/// Names of the trial's inputs within the workbench's folder: a black film with a tone, and
/// captions that lie over all of it.
const FILM: &str = "trial.mkv";
const CAPTIONS: &str = "trial.srt";
const CAPTIONS_TEXT: &str = "1\n00:00:00,000 --> 00:00:10,000\nHHHH\n";

/// One service, done once.
struct Trial {
    service: ServiceName,
    /// The inputs by name.
    inputs: &'static [(&'static str, &'static str)],
    /// The parameters, for a codec that is proven.
    params: fn(codec: &str) -> Value,
    /// Whether something bright must be seen in the output, although the film is black.
    is_seen: bool,
}

const TRIALS: [Trial; 5] = [
    Trial {
        service: ServiceName::StitchExportV1,
        inputs: &[("clip_1", FILM), ("clip_2", FILM)],
        params: |codec| json!({"encode": {"codec": codec}}),
        is_seen: false,
    },
    Trial {
        service: ServiceName::CaptionBurnV1,
        inputs: &[("source", FILM), ("captions", CAPTIONS)],
        params: |codec| json!({"encode": {"codec": codec}, "size_percent": 20}),
        is_seen: true,
    },
    Trial {
        service: ServiceName::AssembleV1,
        inputs: &[("video", FILM), ("captions", CAPTIONS)],
        params: |_| json!({}),
        is_seen: false,
    },
    Trial {
        service: ServiceName::AudioMixV1,
        inputs: &[("track_1", FILM), ("track_2", FILM)],
        params: |_| json!({"loudness_lufs": -20}),
        is_seen: false,
    },
    Trial {
        service: ServiceName::ThumbnailV1,
        inputs: &[("source", FILM)],
        params: |_| json!({"at_seconds": 0.2}),
        is_seen: false,
    },
];

/// The services that work here, with an encoder of this codec.
pub(super) async fn proven(
    bench: &Workbench,
    codec: &str,
    encoders: &BTreeSet<Capability>,
) -> Vec<Capability> {
    let bench = Workbench {
        limits: Limits {
            run_time: TRIAL_TIME,
            ..bench.limits.clone()
        },
        ..bench.clone()
    };
    let film = Partial::new(bench.folder.join(FILM));
    let captions = Partial::new(bench.folder.join(CAPTIONS));
    if let Err(why) = prepare(&bench, &film.path, &captions.path).await {
        tracing::warn!(why, "no service could be tried");
        return Vec::new();
    }
    let mut words = Vec::new();
    for trial in &TRIALS {
        let word = trial.service.as_str();
        match attempt(&bench, trial, codec, encoders).await {
            Ok(()) => words.push(Capability::new(word)),
            Err(why) => tracing::info!(word, why, "service does not work here"),
        }
    }
    words
}

async fn prepare(bench: &Workbench, film: &Path, captions: &Path) -> Result<(), String> {
    let mut args = Args::default();
    args.words("-hide_banner -nostdin -y -loglevel error -nostats");
    args.words("-f lavfi -i color=black:size=320x180:rate=10:duration=0.5");
    args.words("-f lavfi -i sine=duration=0.5:sample_rate=48000");
    // Encoders of FFmpeg's own, which every build has.
    args.words("-c:v ffv1 -pix_fmt yuv420p -c:a pcm_s16le -f matroska");
    args.word(file_url(film));
    ffmpeg(bench, args, 0).await?;
    let written = tokio::fs::write(captions, CAPTIONS_TEXT).await;
    written.map_err(|error| error.to_string())
}

async fn attempt(
    bench: &Workbench,
    trial: &Trial,
    codec: &str,
    encoders: &BTreeSet<Capability>,
) -> Result<(), String> {
    let params = (trial.params)(codec);
    let params = ServiceParams::parse(trial.service, &params).map_err(|error| error.to_string())?;
    let inputs = trial.inputs.iter();
    let inputs: BTreeMap<String, PathBuf> = inputs
        .map(|(name, file)| ((*name).to_owned(), bench.folder.join(file)))
        .collect();
    let job = Job {
        params,
        inputs,
        max_output_seconds: 5,
        proven: encoders.clone(),
    };
    let output = run(bench, &job, &|_| ()).await;
    let Output { file, .. } = output.map_err(|failure| failure.to_string())?;
    let file = Partial::new(file);
    if trial.is_seen && !is_bright(bench, &file.path).await? {
        return Err("nothing is drawn".to_owned());
    }
    Ok(())
}

/// Whether there is any light in a film's first picture.
async fn is_bright(bench: &Workbench, file: &Path) -> Result<bool, String> {
    let picture = first_picture(bench, file, ("gray", 320 * 180)).await?;
    Ok(picture.iter().any(|&pixel| pixel > 128))
}
