//! Uploads a file as the output of a lease and commits it, renewing the lease while that takes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::ids::RequestId;
use fencepost_egress::AllowList;
use fencepost_media::StopSignal;
use fencepost_protocol::{Directive, OutputDeclaration};
use tokio::sync::{mpsc, watch};

use super::desk::{AskError, Desk};
use super::lease::{EndError, Lease};
use crate::clock::{self, Moment};
use crate::core::{FreshLink, LinkAnswer, Wanted};
use crate::http::IDLE_TIME;
use crate::transfer::digest::{self, Digest};
use crate::transfer::link::{Link, LinkDesk, LinkWish};
use crate::transfer::upload::{upload, upload_in_parts};
use crate::transfer::{LeaseWatch, Network, StepError};

/// A larger file is sent in parts, where the gateway knows such.
const LARGE_FILE: u64 = 64 * 1024 * 1024;

/// Why a file was not published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The gateway says so. The lease is inside if it may be asked again.
    #[error(transparent)]
    End(#[from] EndError),
    /// The job is being cancelled: stop.
    #[error("the job is being cancelled")]
    Stopped,
    /// The file cannot be read, or was not taken.
    #[error("{0}")]
    File(String),
}

/// Renews a lease for as long as a transfer takes.
struct Keeper {
    stop: StopSignal,
    deadline: watch::Sender<Moment>,
    /// Why it was stopped.
    refused: Option<AskError>,
    cancelled: bool,
}

/// Uploads and commits; says the same commit again until there is a verdict, for as long as
/// `patience`.
pub async fn publish(
    lease: Lease,
    desk: &Desk,
    file: &Path,
    patience: Duration,
) -> Result<(), PublishError> {
    let (deadline, seen) = watch::channel(clock::now().after(IDLE_TIME));
    let live = LeaseWatch {
        stop: StopSignal::new(),
        deadline: seen,
    };
    let mut keeper = Keeper {
        stop: live.stop.clone(),
        deadline,
        refused: None,
        cancelled: false,
    };
    let uploaded = send(&lease, desk, file, &live, &mut keeper).await;
    let output = match (uploaded, keeper.refused) {
        (Ok(output), _) => output,
        (Err(_), Some(why @ AskError::Retry { .. })) => {
            return Err(EndError::Retry { lease, why }.into());
        }
        (Err(_), Some(why)) => return Err(EndError::Final(why).into()),
        (Err(StepError::Stopped), None) if keeper.cancelled => return Err(PublishError::Stopped),
        (Err(StepError::Stopped), None) => return Err(EndError::Final(ran_out()).into()),
        (Err(StepError::Failed { message, .. }), None) => return Err(PublishError::File(message)),
    };
    commit(lease, desk, &output, patience)
        .await
        .map_err(Into::into)
}

/// One commit, said until its verdict.
async fn commit(
    mut lease: Lease,
    desk: &Desk,
    output: &OutputDeclaration,
    patience: Duration,
) -> Result<(), EndError> {
    let (request, began) = (RequestId::new(), clock::now());
    loop {
        match lease.commit(desk, request, output).await {
            Err(EndError::Retry {
                lease: again,
                why: AskError::Retry { after, .. },
            }) if clock::now().after(after) < began.after(patience) => {
                tokio::time::sleep(after).await;
                lease = again;
            }
            answer => return answer,
        }
    }
}

async fn send(
    lease: &Lease,
    desk: &Desk,
    file: &Path,
    live: &LeaseWatch,
    keeper: &mut Keeper,
) -> Result<OutputDeclaration, StepError> {
    keeper.renew(lease, desk, None).await?;
    let digest = {
        let reading = digest::of_file(file, live);
        kept(lease, desk, keeper, reading, || None).await?
    };
    let output = Wanted {
        name: "output".to_owned(),
        direction: "put",
        first_part: None,
    };
    let linked = match lease.link(desk, &output).await {
        Ok(linked) => linked,
        Err(why) => return Err(keeper.give_up(why)),
    };
    let (wishes, mut wished) = mpsc::channel(1);
    let link_desk = LinkDesk::new(lease.reference().attempt_id, wishes);
    let mut link = Link::to_output(desk.gateway(), &link_desk, &linked.url)?;
    let network = Network::new(desk.gateway(), desk.client().clone(), AllowList::default())
        .map_err(|error| StepError::failed("internal_error", error.to_string()))?;
    let Digest { sha256, size_bytes } = digest;
    let sent = Arc::new(AtomicU64::new(0));
    let percent = || Some(percent(sent.load(Ordering::Relaxed), size_bytes));
    {
        let what = (file, size_bytes);
        let sending = async {
            if size_bytes > LARGE_FILE {
                upload_in_parts(&network, &mut link, what, live, &sent).await
            } else {
                upload(&network, &mut link, what, live, &sent).await
            }
        };
        let linking = async {
            while let Some(wish) = wished.recv().await {
                answer(lease, desk, wish).await;
            }
            // The transfer's desk is gone: the transfer is about to end.
            std::future::pending::<()>().await;
        };
        let sending = async {
            tokio::select! {
                done = sending => done,
                () = linking => Err(StepError::Stopped),
            }
        };
        kept(lease, desk, keeper, sending, percent).await?;
    }
    Ok(OutputDeclaration {
        sha256,
        size_bytes,
        object_key: link.into_object_key().unwrap_or(linked.object_key),
    })
}

/// Runs a step, renewing the lease meanwhile.
async fn kept<T>(
    lease: &Lease,
    desk: &Desk,
    keeper: &mut Keeper,
    step: impl Future<Output = Result<T, StepError>>,
    percent: impl Fn() -> Option<f32>,
) -> Result<T, StepError> {
    tokio::pin!(step);
    loop {
        let left = keeper.deadline.borrow().millis_since(clock::now());
        tokio::select! {
            biased;
            done = &mut step => return done,
            () = tokio::time::sleep(Duration::from_millis(left / 3)) => {
                keeper.renew(lease, desk, percent()).await?;
            }
        }
    }
}

impl Keeper {
    async fn renew(
        &mut self,
        lease: &Lease,
        desk: &Desk,
        percent: Option<f32>,
    ) -> Result<(), StepError> {
        let sent = clock::now();
        match lease
            .progress(desk, (Phase::Uploading, percent, None))
            .await
        {
            Ok(told) if told.directive == Directive::Continue => {
                self.deadline
                    .send_replace(sent.after_millis(told.lease_remaining_ms));
                Ok(())
            }
            Ok(_) => {
                self.cancelled = true;
                self.stop.cancel();
                Err(StepError::Stopped)
            }
            // While the lease lives there is time to say it again.
            Err(AskError::Retry { after, .. })
                if sent.after(after * 2) < *self.deadline.borrow() =>
            {
                tokio::time::sleep(after).await;
                Ok(())
            }
            Err(why) => Err(self.give_up(why)),
        }
    }

    fn give_up(&mut self, why: AskError) -> StepError {
        self.refused = Some(why);
        self.stop.cancel();
        StepError::Stopped
    }
}

async fn answer(lease: &Lease, desk: &Desk, wish: LinkWish) {
    let link = match lease.link(desk, &wish.wanted).await {
        Ok(linked) => LinkAnswer::Fresh(FreshLink {
            url: linked.url,
            object_key: linked.object_key,
            parts: linked.parts,
        }),
        Err(AskError::Retry { .. }) => LinkAnswer::NotNow,
        Err(_) => LinkAnswer::Refused,
    };
    // A transfer that has ended needs none.
    let _ = wish.answer.send(link);
}

fn ran_out() -> AskError {
    AskError::Refused {
        code: "lease_expired".to_owned(),
        message: "the lease ran out before the file was sent".to_owned(),
    }
}

fn percent(part: u64, whole: u64) -> f32 {
    let hundredths = u128::from(part) * 100 / u128::from(whole.max(1));
    f32::from(u8::try_from(hundredths.min(100)).unwrap_or(100))
}
