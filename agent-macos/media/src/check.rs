//! The service's media check: is this file what was promised? Asked by the agent before it uploads
//! and by the verifier before it settles, with the same rules.

use std::path::Path;

use crate::args::Args;
use crate::judge::{Promise, compositions, judge, tolerance};
use crate::probe::{probe, probe_picture};
use crate::progress::{Meter, OnProgress, Stage};
use crate::work::ffmpeg;
use crate::{CheckFailure, Checked, Container, Expectation, Rejection, Workbench};

/// Looks at `file` and decodes all of it.
pub async fn check_output(
    bench: &Workbench,
    file: &Path,
    expectation: &Expectation,
    on_progress: OnProgress<'_>,
) -> Result<Checked, CheckFailure> {
    let metadata = tokio::fs::metadata(file)
        .await
        .map_err(|error| CheckFailure::Trouble(format!("the file cannot be read: {error}")))?;
    if metadata.len() == 0 {
        return Err(Rejection::Empty.into());
    }
    let Some(streams) = streams_of(&expectation.promise) else {
        return compositions::check(file).await;
    };
    let found = match expectation.promise {
        Promise::Picture(_) => probe_picture(bench, file).await,
        _ => probe(bench, file).await,
    }
    .map_err(|failure| CheckFailure::sort(failure, Rejection::NotMedia))?;
    let mut checked = judge(&found, expectation)?;
    let stated = checked.duration_seconds;
    let mut meter = Meter::new(Stage::Checking, Some(stated), on_progress);
    decode(bench, (file, found.container), streams, &mut meter).await?;
    if checked.size.is_some() && meter.frames == 0 {
        return Err(Rejection::Undecodable("it holds no picture".to_owned()).into());
    }
    checked.frames = meter.frames;
    if matches!(expectation.promise, Promise::Picture(_)) {
        return match meter.frames {
            1 => Ok(checked),
            more => Err(Rejection::Streams(format!("{more} pictures instead of one")).into()),
        };
    }
    // Money follows the length, so what is stated must be there.
    if (meter.media_seconds - stated).abs() > tolerance(stated, &[checked.fps]) {
        return Err(Rejection::Duration {
            wanted: stated,
            found: meter.media_seconds,
        }
        .into());
    }
    checked.duration_seconds = stated.max(meter.media_seconds);
    Ok(checked)
}

/// What is decoded of it; nothing of what is no media.
fn streams_of(promise: &Promise) -> Option<&'static str> {
    match promise {
        Promise::Video(_) => Some("-map 0:v:0 -map 0:a:0?"),
        Promise::Sound(_) => Some("-map 0:a:0"),
        Promise::Picture(_) => Some("-map 0:v:0"),
        Promise::Compositions => None,
    }
}

async fn decode(
    bench: &Workbench,
    (file, container): (&Path, Container),
    streams: &'static str,
    meter: &mut Meter<'_>,
) -> Result<(), CheckFailure> {
    let mut args = Args::default();
    args.words("-hide_banner -nostdin -loglevel error -nostats -progress pipe:1 -xerror");
    if matches!(container, Container::Jpeg | Container::Png) {
        // What is missing of a picture is made up otherwise.
        args.words("-err_detect crccheck+explode");
    }
    args.input(container, file);
    args.words(streams).words("-f null -");
    let said = ffmpeg(bench, "decoding", args, meter)
        .await
        .map_err(|failure| CheckFailure::sort(failure, Rejection::Undecodable))?;
    if !said.trim().is_empty() {
        tracing::debug!(said, "decoding passed with complaints");
    }
    Ok(())
}
