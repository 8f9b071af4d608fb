//! `fencepost demo --stop FOLDER`: ends what `--keep` left running, and removes it.

use std::path::Path;
use std::time::Duration;

use fencepost_embedded::{EmbeddedPostgres, StartOptions};
use rustix::process::Signal;

use super::error::DemoError;
use super::processes::{self, kill_family};
use super::report::Narrator;
use super::stage::{PREFIX, postgres_dir};
use super::wait::until;

/// Agents hand back what they hold within ten seconds.
const PATIENCE: Duration = Duration::from_secs(12);

/// Ends the demo that lives in `folder`.
pub(super) async fn stop(folder: &Path, say: Narrator) -> Result<(), DemoError> {
    let root = folder.canonicalize()?;
    let name = root
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let is_ours =
        name.is_some_and(|name| name.starts_with(PREFIX)) && root.join("control").is_dir();
    if !is_ours {
        let problem = format!("{} is not the folder of a demo", root.display());
        return Err(DemoError::stuck(problem));
    }
    for (what, word) in [("the agents", "fencepost-agent"), ("the gateway", "serve")] {
        end(&root, word).await?;
        say.step(&format!("{what} have stopped").replace("gateway have", "gateway has"));
    }
    // Postgres is stopped by whoever starts it next, here by ourselves.
    let options = StartOptions {
        temporary: true,
        ..StartOptions::new(postgres_dir(&root))
    };
    EmbeddedPostgres::start(options).await?.stop().await?;
    say.step("Postgres has stopped");
    std::fs::remove_dir_all(&root)?;
    say.step(&format!("{} is removed", root.display()));
    Ok(())
}

/// Ends every program whose command line names the folder and the word: asked first, then forced.
async fn end(root: &Path, word: &str) -> Result<(), DemoError> {
    for id in running(root, word)? {
        processes::signal(id, Signal::TERM);
    }
    let ended = async || Ok(running(root, word)?.is_empty().then_some(()));
    if until("all have ended", PATIENCE, ended).await.is_err() {
        running(root, word)?.into_iter().for_each(kill_family);
    }
    Ok(())
}

fn running(root: &Path, word: &str) -> Result<Vec<i32>, DemoError> {
    let root = root.to_string_lossy();
    let ours = |command: &str| {
        let mut words = command.split(' ');
        let program = words.next().unwrap_or_default();
        let is_program = program
            .rsplit('/')
            .next()
            .is_some_and(|name| name.starts_with("fencepost"));
        is_program && command.contains(&*root) && command.contains(word)
    };
    let me = rustix::process::getpid().as_raw_nonzero().get();
    let found = processes::all()?.into_iter();
    let found = found.filter(|process| process.id != me && ours(&process.command));
    Ok(found.map(|process| process.id).collect())
}
