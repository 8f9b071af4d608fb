//! One attempt's work on this machine, from download to upload.
//!
//! ```text
//! workspace ─> download + check ─> media ─> digest ─> lease still ours? ─> upload ─> gone
//! ```
//!
//! It never sees the secret of its lease, and it cannot commit: it only says how it ended.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::service::{InputForm, ServiceParams};
use fencepost_media::disk::free_bytes;
use fencepost_protocol::{InputGrant, OutputDeclaration};

use crate::address::Gateway;
use crate::core::{JobOutcome, Work};
use crate::reporter::Reporter;
use crate::runner::{Runner, check_order};
use crate::transfer::bundle::Bundle;
use crate::transfer::digest::{self, Digest};
use crate::transfer::fetch::{Fetch, What};
use crate::transfer::link::{Link, LinkDesk};
use crate::transfer::share::Share;
use crate::transfer::{LeaseWatch, Network, StepError, download, upload};
use crate::workspace::Workspace;

const LOOK_AT_UPLOAD: Duration = Duration::from_millis(500);

/// What all jobs of this agent share.
#[derive(Debug)]
pub struct Shop {
    /// For what is behind links.
    pub network: Network,
    /// What links are relative to.
    pub gateway: Gateway,
    /// What runs the services.
    pub runner: Runner,
    /// Parent of the workspaces.
    pub work_folder: PathBuf,
    /// How many jobs there may be at once, all in that folder.
    pub slots: u32,
}

/// Runs one attempt. When it returns, no child is left and its workspace is gone.
pub async fn run(
    shop: Arc<Shop>,
    work: Work,
    live: LeaseWatch,
    (reporter, desk): (Reporter, LinkDesk),
) -> JobOutcome {
    let workspace = match Workspace::create(&shop.work_folder, work.attempt_id) {
        Ok(workspace) => workspace,
        Err(error) => {
            return outcome(Err(StepError::device(
                "the workspace cannot be made",
                &error,
            )));
        }
    };
    let job = Job {
        shop: &shop,
        work: &work,
        workspace: &workspace,
        live: &live,
        reporter: &reporter,
        desk: &desk,
    };
    let done = job.run().await;
    workspace.remove().await;
    outcome(done)
}

struct Job<'a> {
    shop: &'a Shop,
    work: &'a Work,
    workspace: &'a Workspace,
    live: &'a LeaseWatch,
    reporter: &'a Reporter,
    desk: &'a LinkDesk,
}

impl Job<'_> {
    async fn run(&self) -> Result<OutputDeclaration, StepError> {
        let params = check_order(self.work)?;
        self.reporter.phase(Phase::Downloading).await;
        let inputs = self.live.bound(self.download()).await?;
        self.reporter.phase(Phase::Running).await;
        let output = self.media(params, inputs).await?;
        let digest = self.live.bound(digest::of_file(&output, self.live)).await?;
        self.check_size(&digest)?;
        self.reporter.phase(Phase::Uploading).await;
        let uploading = self.upload(output, digest.size_bytes);
        let object_key = self.live.bound(uploading).await?;
        Ok(OutputDeclaration {
            sha256: digest.sha256,
            size_bytes: digest.size_bytes,
            object_key,
        })
    }

    /// Fetches every input, one after the other; gives by the inputs' names the files, and the folder
    /// of what is a bundle.
    async fn download(&self) -> Result<BTreeMap<String, PathBuf>, StepError> {
        let inputs = &self.work.inputs;
        let free = free_bytes(&self.shop.work_folder).ok();
        let mut share = Share::of(free, self.shop.slots, inputs);
        let mut done = Downloaded::of(inputs.iter().map(|input| {
            // Of a bundle only the manifest's size is said.
            input.size_bytes.filter(|_| !self.is_bundle(input))
        }));
        let mut files = BTreeMap::new();
        for (index, grant) in inputs.iter().enumerate() {
            // Never named by what the buyer or the gateway calls it.
            let file = self.workspace.path().join(format!("input-{index}"));
            let size = if self.is_bundle(grant) {
                let size = self.fetch_bundle(grant, &file, (done, share)).await?;
                share.take_unpromised(size);
                size
            } else if grant.is_elsewhere() {
                let size = self.fetch(grant, &file, (done, share)).await?;
                share.take(grant, size);
                size
            } else {
                self.download_one(grant, &file, done).await?
            };
            done.add(size);
            files.insert(grant.name.clone(), file);
        }
        Ok(files)
    }

    fn is_bundle(&self, input: &InputGrant) -> bool {
        InputForm::named(&self.work.service, &input.name) == Some(InputForm::Bundle)
    }

    /// Downloads what a link of the gateway leads to.
    async fn download_one(
        &self,
        grant: &InputGrant,
        file: &Path,
        before: Downloaded,
    ) -> Result<u64, StepError> {
        let source = (grant.name.as_str(), grant.url.as_str());
        let mut link = Link::to_input(&self.shop.gateway, self.desk, source)?;
        let received = |bytes| self.received(before.percent(bytes, grant.size_bytes));
        let network = &self.shop.network;
        download::download(network, &mut link, grant, file, &received).await?;
        Ok(grant.size_bytes.unwrap_or_default())
    }

    /// Fetches what is on a host of the buyer's choice.
    async fn fetch(
        &self,
        grant: &InputGrant,
        file: &Path,
        (before, share): (Downloaded, Share),
    ) -> Result<u64, StepError> {
        let received = |bytes, all| self.received(before.percent(bytes, all));
        let fetch = Fetch {
            what: What::Input,
            network: &self.shop.network,
            grant,
            file,
            room: share.left(),
            received: &received,
        };
        fetch.run().await
    }

    /// Fetches the files of a bundle into a folder of their own.
    async fn fetch_bundle(
        &self,
        grant: &InputGrant,
        folder: &Path,
        (before, share): (Downloaded, Share),
    ) -> Result<u64, StepError> {
        let received = |bytes, all| self.received(before.percent(bytes, all));
        let bundle = Bundle {
            network: &self.shop.network,
            grant,
            folder,
            room: share.left(),
            received: &received,
        };
        bundle.run().await
    }

    fn received(&self, percent: f32) {
        self.reporter.percent(Phase::Downloading, percent);
    }

    async fn media(
        &self,
        params: ServiceParams,
        inputs: BTreeMap<String, PathBuf>,
    ) -> Result<PathBuf, StepError> {
        self.live.check()?;
        let on_progress = |progress: fencepost_media::Progress| {
            if let Some(percent) = progress.percent {
                self.reporter.percent(Phase::Running, f32::from(percent));
            }
        };
        let folder = self.workspace.path();
        let service = (self.work, params);
        self.shop
            .runner
            .run(service, (inputs, folder), self.live, &on_progress)
            .await
    }

    fn check_size(&self, digest: &Digest) -> Result<(), StepError> {
        let max_bytes = self.work.output.max_bytes;
        if digest.size_bytes > max_bytes {
            let size = digest.size_bytes;
            let message = format!("the output has {size} bytes, and at most {max_bytes} are taken");
            return Err(StepError::failed("runner_failed", message));
        }
        Ok(())
    }

    /// Sends the output; gives the key of the object that it has become.
    async fn upload(&self, output: PathBuf, size: u64) -> Result<String, StepError> {
        let granted = &self.work.output;
        let mut link = Link::to_output(&self.shop.gateway, self.desk, &granted.url)?;
        let sent = Arc::new(AtomicU64::new(0));
        let file = (output.as_path(), size);
        {
            let network = &self.shop.network;
            let upload = async {
                if granted.parts_above.is_some_and(|most| size > most) {
                    return upload::upload_in_parts(network, &mut link, file, self.live, &sent)
                        .await;
                }
                upload::upload(network, &mut link, file, self.live, &sent).await
            };
            tokio::pin!(upload);
            let mut look = tokio::time::interval(LOOK_AT_UPLOAD);
            loop {
                tokio::select! {
                    done = &mut upload => break done?,
                    _ = look.tick() => {
                        let sent = sent.load(Ordering::Relaxed);
                        self.reporter.percent(Phase::Uploading, percent(sent, size));
                    }
                }
            }
        }
        let fresh_key = link.into_object_key();
        Ok(fresh_key.unwrap_or_else(|| granted.object_key.clone()))
    }
}

/// How much of the inputs is there.
#[derive(Debug, Clone, Copy)]
struct Downloaded {
    files: u64,
    bytes: u64,
    all_files: u64,
    /// None if that is not known of each.
    all_bytes: Option<u64>,
}

impl Downloaded {
    /// Nothing of inputs that have these sizes, as far as they are known.
    fn of(mut sizes: impl ExactSizeIterator<Item = Option<u64>>) -> Self {
        Self {
            files: 0,
            bytes: 0,
            all_files: sizes.len() as u64,
            all_bytes: sizes.try_fold(0, |sum: u64, size| Some(sum.saturating_add(size?))),
        }
    }

    /// One more, of so many bytes.
    fn add(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// How much there is with `bytes` of the next one, which has `size`. Where not all sizes are known,
    /// each file counts the same.
    fn percent(self, bytes: u64, size: Option<u64>) -> f32 {
        match (self.all_bytes, size) {
            (Some(all), _) => percent(self.bytes.saturating_add(bytes), all),
            (None, Some(size)) => {
                let whole = size.max(1);
                let part = whole
                    .saturating_mul(self.files)
                    .saturating_add(bytes.min(whole));
                percent(part, whole.saturating_mul(self.all_files))
            }
            (None, None) => percent(self.files, self.all_files),
        }
    }
}

fn outcome(done: Result<OutputDeclaration, StepError>) -> JobOutcome {
    match done {
        Ok(output) => JobOutcome::Uploaded(output),
        Err(StepError::Stopped) => JobOutcome::Stopped,
        Err(StepError::Failed { code, message }) => JobOutcome::Failed { code, message },
    }
}

/// In whole percents, which is as much as anybody wants to know.
fn percent(part: u64, whole: u64) -> f32 {
    let hundredths = u128::from(part) * 100 / u128::from(whole.max(1));
    f32::from(u8::try_from(hundredths.min(100)).unwrap_or(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(percent: f32) -> String {
        format!("{percent}")
    }

    #[test]
    fn bytes_are_counted_where_all_sizes_are_known_and_files_elsewhere() {
        let mut known = Downloaded::of([Some(30), Some(70)].into_iter());
        assert_eq!(shown(known.percent(15, Some(30))), "15");
        known.add(30);
        assert_eq!(shown(known.percent(35, Some(70))), "65");
        let mut unknown = Downloaded::of([Some(30), None].into_iter());
        assert_eq!(shown(unknown.percent(15, Some(30))), "25");
        unknown.add(30);
        assert_eq!(shown(unknown.percent(35, Some(70))), "75");
        assert_eq!(shown(unknown.percent(35, None)), "50");
        assert_eq!(shown(unknown.percent(71, Some(70))), "100");
    }
}
