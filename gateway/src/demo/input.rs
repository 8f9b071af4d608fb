//! The video that both acts are about.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fencepost_media::fixture::Clip;
use fencepost_media::{Limits, Overrides, Probe, StopSignal, Tools, Workbench, probe};

use super::error::DemoError;
use super::stage::Stage;

/// The clip that is made when no file is given: long and large enough to be watched.
const CLIP: Clip = Clip {
    seconds: 20,
    width: 1280,
    height: 720,
    sound: true,
};
/// Refuses what is no video before anything is started.
pub(super) async fn check(given: &Path) -> Result<(), DemoError> {
    let folder = tempfile::tempdir()?;
    require_video(&bench_in(folder.path().to_owned()).await?, given)
        .await
        .map(drop)
}

/// FFmpeg, working in the demo's own folder.
pub(super) async fn workbench(stage: &Stage) -> Result<Workbench, DemoError> {
    bench_in(stage.control.temporary()).await
}

async fn bench_in(folder: PathBuf) -> Result<Workbench, DemoError> {
    Ok(Workbench {
        tools: Tools::find(&Overrides::default()).await?,
        folder,
        limits: Limits {
            run_time: Duration::from_mins(10),
            ..Limits::default()
        },
        stop: StopSignal::new(),
    })
}

/// The file to work on, and what it is: the one that was given, or a clip.
pub(super) async fn prepare(
    bench: &Workbench,
    given: Option<&Path>,
) -> Result<(PathBuf, Probe), DemoError> {
    let file = if let Some(file) = given {
        file.to_owned()
    } else {
        let file = bench.folder.join("clip.mp4");
        CLIP.write(&bench.tools, &file).await?;
        file
    };
    let source = require_video(bench, &file).await?;
    Ok((file, source))
}

async fn require_video(bench: &Workbench, file: &Path) -> Result<Probe, DemoError> {
    let source = probe(bench, file).await?;
    if source.main_video().is_none() {
        let problem = format!("there is no video in {}", file.display());
        return Err(DemoError::stuck(problem));
    }
    Ok(source)
}
