//! One attempt's work on this machine, from download to upload.
//!
//! ```text
//! workspace ─> download + check ─> media ─> digest ─> lease still ours? ─> upload ─> gone
//! ```
//!
//! It never sees the secret of its lease, and it cannot commit: it only says how it ended.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::service::ServiceParams;
use fencepost_protocol::OutputDeclaration;

use crate::address::Gateway;
use crate::core::{JobOutcome, Work};
use crate::reporter::Reporter;
use crate::runner::{Runner, check_order};
use crate::transfer::digest::{self, Digest};
use crate::transfer::link::{Link, LinkDesk};
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

    /// Fetches every input, one after the other; gives the files by the inputs' names.
    async fn download(&self) -> Result<BTreeMap<String, PathBuf>, StepError> {
        let sizes = self.work.inputs.iter().map(|input| input.size_bytes);
        let total = sizes.fold(0, u64::saturating_add);
        let mut before: u64 = 0;
        let mut files = BTreeMap::new();
        for (index, grant) in self.work.inputs.iter().enumerate() {
            // Never named by what the buyer or the gateway calls it.
            let file = self.workspace.path().join(format!("input-{index}"));
            let source = (grant.name.as_str(), grant.url.as_str());
            let mut link = Link::to_input(&self.shop.gateway, self.desk, source)?;
            let received = |bytes| {
                self.reporter.percent(
                    Phase::Downloading,
                    percent(before.saturating_add(bytes), total),
                );
            };
            download::download(&self.shop.network, &mut link, grant, &file, &received).await?;
            before = before.saturating_add(grant.size_bytes);
            files.insert(grant.name.clone(), file);
        }
        Ok(files)
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
