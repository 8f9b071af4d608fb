//! The service's media check: is this file what was promised? Asked by the agent before it uploads
//! and by the verifier before it settles, with the same rules.

use std::path::Path;

use crate::child::{self, ChildSpec, Stdout};
use crate::encoder::Args;
use crate::exit::{not_started, require_success};
use crate::judge::{judge, tolerance};
use crate::probe::{file_url, probe};
use crate::progress::{Meter, OnProgress, Stage};
use crate::{CheckFailure, Checked, Container, Expectation, Rejection, Workbench};

/// Looks at `file` and decodes all of it.
pub async fn check_output(
    bench: &Workbench,
    file: &Path,
    expectation: &Expectation<'_>,
    on_progress: OnProgress<'_>,
) -> Result<Checked, CheckFailure> {
    let metadata = tokio::fs::metadata(file)
        .await
        .map_err(|error| CheckFailure::Trouble(format!("the file cannot be read: {error}")))?;
    if metadata.len() == 0 {
        return Err(Rejection::Empty.into());
    }
    let found = probe(bench, file)
        .await
        .map_err(|failure| CheckFailure::sort(failure, Rejection::NotMedia))?;
    let mut checked = judge(&found, expectation)?;
    let stated = checked.duration_seconds;
    let mut meter = Meter::new(Stage::Checking, Some(stated), on_progress);
    decode(bench, file, found.container, &mut meter).await?;
    if meter.frames == 0 {
        return Err(Rejection::Undecodable("it holds no picture".to_owned()).into());
    }
    // Money follows the length, so what is stated must be there.
    if (meter.media_seconds - stated).abs() > tolerance(stated, &[checked.fps]) {
        return Err(Rejection::Duration {
            wanted: stated,
            found: meter.media_seconds,
        }
        .into());
    }
    checked.frames = meter.frames;
    checked.duration_seconds = stated.max(meter.media_seconds);
    Ok(checked)
}

async fn decode(
    bench: &Workbench,
    file: &Path,
    container: Container,
    meter: &mut Meter<'_>,
) -> Result<(), CheckFailure> {
    let mut args = Args(Vec::new());
    args.words("-hide_banner -nostdin -loglevel error -nostats -progress pipe:1 -xerror");
    args.words("-protocol_whitelist file -f")
        .word(container.demuxer());
    args.word("-i").0.push(file_url(file));
    args.words("-map 0:v:0 -map 0:a:0? -f null -");
    let spec = ChildSpec {
        program: &bench.tools.ffmpeg,
        args: args.0,
        folder: &bench.folder,
        limits: bench.work_limits(),
        isolation: &bench.tools.isolation,
        roster: bench.tools.roster.as_ref(),
    };
    let finished = child::run(
        spec,
        Stdout::Lines(&mut |line| meter.line(line)),
        &bench.stop,
    )
    .await
    .map_err(|error| CheckFailure::Trouble(not_started("ffmpeg", &error).to_string()))?;
    require_success("decoding", &finished, &bench.folder)
        .map_err(|failure| CheckFailure::sort(failure, Rejection::Undecodable))?;
    if !finished.stderr.trim().is_empty() {
        tracing::debug!(said = %finished.stderr, "decoding passed with complaints");
    }
    Ok(())
}
