//! Fetching an output: resumed where it was cut, checked, and only then given its name.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use fencepost_domain::ids::JobId;
use indicatif::ProgressBar;
use reqwest::{Response, StatusCode};
use rustix::fs::{FlockOperation, flock};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::JobError;
use super::SHOWN_BY;
use super::api::Api;
use super::asking::{Patience, Try};
use super::error::Problem;
use super::file::{blocking, exists, hash, part_of, put_in_place};
use super::screen::Screen;
use super::view::{Job, Output};
use crate::cli::ids::id;

/// Fetches the output of a job.
#[derive(Debug, Args)]
pub(super) struct DownloadArgs {
    /// The job's id.
    #[arg(value_parser = id::<JobId>(SHOWN_BY))]
    job: JobId,
    /// Where to; without it, in this folder, under the name that the gateway gives.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
}

pub(super) async fn run(api: &Api, screen: &Screen, args: &DownloadArgs) -> Result<(), JobError> {
    let job = Job::read(&api.job(args.job).await?)?;
    job.verdict()?;
    let target = args.output.clone().unwrap_or_else(|| default_name(&job));
    download(api, screen, args.job, &job, &target, args.force).await
}

/// Refuses before anything is done what could only be refused after it.
pub(super) fn check_target(target: &Path, force: bool) -> Result<(), JobError> {
    if !force && target.exists() {
        return Err(exists(target));
    }
    if target.is_dir() {
        return Err(JobError::Usage(format!("{} is a folder", target.display())));
    }
    let folder = target
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    if !folder.is_dir() {
        let why = format!("there is no folder {}", folder.display());
        return Err(JobError::Usage(why));
    }
    // The surest way to know whether a file can be made there is to make one.
    let tried = tempfile::tempfile_in(folder).map(drop);
    tried.map_err(|error| {
        JobError::Usage(format!("{} cannot be written: {error}", target.display()))
    })
}

/// The gateway's name for it, or the job's; never anything that leads out of this folder.
fn default_name(job: &Job) -> PathBuf {
    let said = job
        .output
        .as_ref()
        .and_then(|output| output.filename.clone());
    let name = said.filter(|name| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        name.bytes().all(is_plain) && !name.starts_with('.')
    });
    PathBuf::from(name.unwrap_or_else(|| job.id.clone()))
}

/// Fetches the output of a job that succeeded into `target`.
pub(super) async fn download(
    api: &Api,
    screen: &Screen,
    id: JobId,
    job: &Job,
    target: &Path,
    force: bool,
) -> Result<(), JobError> {
    let Some(output) = &job.output else {
        return Err(JobError::Refused(Problem {
            detail: Some(format!(
                "the job is {}: follow it with fencepost job watch {id}",
                job.doing()
            )),
            ..Problem::default()
        }));
    };
    if output.deleted_at.is_some() || output.size_bytes.is_none() {
        let at = output.deleted_at.as_deref().unwrap_or("an unknown time");
        return Err(JobError::Refused(Problem {
            code: Some("gone".to_owned()),
            detail: Some(format!("the output was deleted at {at}")),
            ..Problem::default()
        }));
    }
    check_target(target, force)?;
    let part = part_of(target);
    screen.leaves(format!(
        "what was fetched is in {}. To go on where it was: fencepost job download {id} --output {}",
        part.display(),
        target.display()
    ));
    fetch(api, screen, id, output, &part).await?;
    put_in_place(&part, target, force)?;
    let json = json!({
        "type": "download",
        "job_id": job.id,
        "file": target,
        "sha256": output.sha256,
        "size_bytes": output.size(),
    });
    let text = format!("{}: {} bytes, as verified", target.display(), output.size());
    Ok(screen.result(&text, &json)?)
}

/// Fetches until the part is whole and is what was promised.
async fn fetch(
    api: &Api,
    screen: &Screen,
    id: JobId,
    output: &Output,
    part: &Path,
) -> Result<(), JobError> {
    let mut growing = Growing::open(screen, part, output).await?;
    let was_begun = growing.size > 0;
    if growing.fill(api, screen, id).await? {
        return Ok(());
    }
    // What was there from before may be a part of something else.
    if was_begun {
        screen.say("what was fetched before does not fit: fetching all of it again")?;
        growing.begin_anew()?;
        if growing.fill(api, screen, id).await? {
            return Ok(());
        }
    }
    std::fs::remove_file(part)?;
    Err(JobError::Local(format!(
        "what came is not what was promised (sha256 {}); it was deleted. Try again",
        output.sha256
    )))
}

/// A part that is being filled, by one process at a time.
struct Growing<'a> {
    file: File,
    digest: Sha256,
    size: u64,
    wanted: &'a Output,
}

impl<'a> Growing<'a> {
    async fn open(screen: &Screen, part: &Path, wanted: &'a Output) -> Result<Self, JobError> {
        let file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(part);
        let file = file.map_err(|error| JobError::Usage(format!("{}: {error}", part.display())))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let why = format!("{} is being written by another process", part.display());
            return Err(JobError::Usage(why));
        }
        let (path, most) = (part.to_owned(), wanted.size());
        let bar = screen.bytes_bar("reading", most);
        let shown = bar.clone();
        let (digest, size) = blocking(move || hash(&path, most, &shown)).await?;
        bar.finish_and_clear();
        let mut growing = Self {
            file,
            digest,
            size,
            wanted,
        };
        growing.file.set_len(size)?;
        growing.file.seek(SeekFrom::Start(size))?;
        Ok(growing)
    }

    fn begin_anew(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        (self.digest, self.size) = (Sha256::new(), 0);
        Ok(())
    }

    /// Fetches what is missing; whether the whole is right. It is on the disk then.
    async fn fill(&mut self, api: &Api, screen: &Screen, id: JobId) -> Result<bool, JobError> {
        let bar = screen.bytes_bar("fetching", self.wanted.size());
        let mut patience = Patience::new(api.patience);
        while self.size < self.wanted.size() {
            bar.set_position(self.size);
            let before = self.size;
            let why = match api.output(id, self.size).await {
                Ok(answer) => match self.take(answer, &bar).await {
                    Ok(()) => "the answer ended early".to_owned(),
                    Err(Try::Final(error)) => return Err(error),
                    Err(Try::Again { why, .. }) => why,
                },
                Err(Try::Final(error)) => return Err(error),
                Err(Try::Again { why, .. }) => why,
            };
            if self.size >= self.wanted.size() {
                break;
            }
            if self.size > before {
                patience.renew();
            }
            screen.say(&format!("going on at {} bytes: {why}", self.size))?;
            patience.wait(why, None).await?;
        }
        bar.finish_and_clear();
        self.file.sync_all()?;
        Ok(hex::encode(self.digest.clone().finalize()) == self.wanted.sha256)
    }

    /// Takes what an answer brings, but never more than was promised.
    async fn take(&mut self, mut answer: Response, bar: &ProgressBar) -> Result<(), Try> {
        let local = |error: io::Error| Try::Final(error.into());
        if answer.status() != StatusCode::PARTIAL_CONTENT && self.size > 0 {
            // All of it comes, whatever was asked for.
            self.begin_anew().map_err(local)?;
            bar.set_position(0);
        }
        while let Some(bytes) = answer.chunk().await.map_err(|error| Try::cut(&error))? {
            let room = self.wanted.size().saturating_sub(self.size);
            let length = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
            let bytes = &bytes[..length];
            if bytes.is_empty() {
                break;
            }
            self.file.write_all(bytes).map_err(local)?;
            self.digest.update(bytes);
            self.size += bytes.len() as u64;
            bar.set_position(self.size);
        }
        Ok(())
    }
}
