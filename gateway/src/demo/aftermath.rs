//! After another Mac has won: what the loser does when it wakes up, and that the buyer still has what
//! it had.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::act_one::{Cast, Delivered};
use super::buyer::{Attempt, Job};
use super::error::{DemoError, require};
use super::report::Narrator;
use super::stage::Stage;
use super::victim::Victim;
use super::wait::until;

/// An agent stops a lost job's encoder within two seconds; a busy machine needs a little more.
const STOP_TIME: Duration = Duration::from_secs(8);

/// Lets the loser go on, and sees that it notices, stops its encoder and cleans up.
pub(super) async fn thaw(
    say: Narrator,
    stage: &mut Stage,
    victim: &Victim,
) -> Result<(), DemoError> {
    let (name, attempt) = (&victim.attempt.device.name, victim.attempt.id.to_string());
    let mac = &mut stage.macs[victim.mac];
    let slept = mac.log().len();
    let encoders = victim.frozen.living_children()?;
    require(!encoders.is_empty(), || {
        format!("the frozen encoder of {name} has ended by itself")
    })?;
    victim.frozen.thaw();
    say.step(&format!("{name} is thawed, and goes on where it was"));
    let stopped = async || Ok(victim.frozen.living_children()?.is_empty().then_some(()));
    until(&format!("{name} kills its encoder"), STOP_TIME, stopped).await?;
    let cleaned = async || Ok((!victim.work.exists()).then_some(()));
    until(
        &format!("{name} removes its unfinished work"),
        STOP_TIME,
        cleaned,
    )
    .await?;
    mac.connected().await?;
    let free = async || {
        let status = mac.status().await?;
        let held = status["status"]["held"]
            .as_array()
            .map_or(usize::MAX, Vec::len);
        Ok((held == 0).then_some(()))
    };
    until(&format!("{name} holds nothing any more"), STOP_TIME, free).await?;
    let log = mac.log();
    let noticed = words_about(log.get(slept..).unwrap_or_default(), &attempt);
    require(!noticed.is_empty(), || {
        format!("the log of {name} does not say that it lost")
    })?;
    say.checked(&format!(
        "{name} learns that it lost; its log: “{}”",
        noticed.join("”, “")
    ));
    say.checked(&format!(
        "{name} has killed its encoder, removed its work, and holds nothing"
    ));
    Ok(())
}

/// The messages of a log in JSON lines that are about this attempt.
fn words_about(log: &str, attempt: &str) -> Vec<String> {
    let lines = log
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    lines
        .filter(|line| line["attempt.id"] == attempt)
        .filter_map(|line| line["message"].as_str().map(str::to_owned))
        .collect()
}

/// No object was ever stored by the attempt that was lost.
pub(super) fn nothing_was_stored(
    say: Narrator,
    stage: &Stage,
    victim: &Victim,
) -> Result<(), DemoError> {
    let of_loser = objects_of(&stage.control.artifacts(), &victim.attempt.id.to_string())?;
    require(of_loser.is_empty(), || {
        format!("a lost attempt has stored {of_loser:?}")
    })?;
    let name = &victim.attempt.device.name;
    say.checked(&format!(
        "{name} has uploaded nothing: no object of its attempt is stored"
    ));
    Ok(())
}

/// The buyer has what it had: one output, the verified one.
pub(super) async fn nothing_has_changed(
    cast: &Cast<'_>,
    stage: &Stage,
    job: &Job,
    delivered: &Delivered,
    attempts: &[Attempt],
) -> Result<(), DemoError> {
    let now = cast.buyer.job(job.id).await?;
    require(now == *job, || {
        format!("the job was {job:?} and is {now:?}")
    })?;
    let outcomes: Vec<&str> = attempts
        .iter()
        .map(|attempt| attempt.status.as_str())
        .collect();
    require(outcomes == ["lost", "succeeded"], || {
        format!("the attempts: {outcomes:?}")
    })?;
    let again = cast.bench.folder.join("again.mp4");
    let came = cast.buyer.download(job.id, &again).await?;
    tokio::fs::remove_file(again).await?;
    require(came.sha256 == delivered.sha256, || {
        format!("the output has become {came:?}")
    })?;
    let artifacts = stage.control.artifacts();
    let verified = objects_of(&artifacts.join("verified"), &job.id.to_string())?;
    require(verified.len() == 1, || {
        format!("there are {} outputs: {verified:?}", verified.len())
    })?;
    cast.say.checked(&format!(
        "the buyer has exactly one output, the verified one: {}",
        delivered.file.display()
    ));
    Ok(())
}

/// The files below `folder` with this id in their path.
fn objects_of(folder: &Path, id: &str) -> Result<Vec<PathBuf>, DemoError> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().contains(id) {
                found.push(path);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_found_by_the_id_in_their_path() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("outputs/j1/a1");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(deep.join("output.mp4"), b"x").unwrap();
        assert_eq!(
            objects_of(folder.path(), "a1").unwrap(),
            [deep.join("output.mp4")]
        );
        assert!(objects_of(folder.path(), "a2").unwrap().is_empty());
    }

    #[test]
    fn only_messages_about_the_attempt_are_quoted() {
        let log = "{\"message\":\"one\",\"attempt.id\":\"a\"}\nplain\n{\"message\":\"two\"}\n";
        assert_eq!(words_about(log, "a"), ["one"]);
    }
}
