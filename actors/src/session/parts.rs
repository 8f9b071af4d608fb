//! Links to the parts of a large output.

use fencepost_domain::fencing::{LeaseClaim, Operation};
use fencepost_protocol::{Code, GatewayFrame, PartLinks};
use fencepost_store::Store;
use fencepost_store::artifacts::{ArtifactError, Bucket, OpenUpload};
use fencepost_store::tx::grant_parts::PartsGranted;

use super::answers::{refused, rejected, trouble};
use super::offers::OfferLinks;

/// Links in one answer: a frame stays far below its limit.
const LINKS_AT_ONCE: u32 = 32;
/// An object has no more parts.
const MOST_PARTS: u32 = 10_000;

impl OfferLinks {
    /// Adds links to parts to the answer, if they were asked for and a bucket takes them. Without
    /// one the answer stays as it is: then all bytes go to its link.
    pub(super) async fn with_parts(
        &self,
        store: &Store,
        claim: LeaseClaim,
        first_part: Option<u32>,
        mut frame: GatewayFrame,
    ) -> GatewayFrame {
        let (Some(bucket), Some(first)) = (self.bucket(), first_part) else {
            return frame;
        };
        let GatewayFrame::Granted {
            object_key, parts, ..
        } = &mut frame
        else {
            return frame;
        };
        if !(1..=MOST_PARTS).contains(&first) {
            let what = "first_part: a number from 1 to 10000";
            return rejected(Code::InvalidRequest, Some(what));
        }
        let granted = match open(store, bucket, claim).await {
            Ok(granted) if granted.output_key == *object_key => granted,
            Ok(_) => {
                let what = "first_part: only the output comes in parts";
                return rejected(Code::InvalidRequest, Some(what));
            }
            Err(frame) => return *frame,
        };
        let last = MOST_PARTS.min(first + LINKS_AT_ONCE - 1);
        let upload = granted.upload_id.unwrap_or_default();
        match bucket.part_links(object_key, &upload, first..=last) {
            Ok(urls) => {
                *parts = Some(PartLinks {
                    part_bytes: granted.part_bytes,
                    first_part: first,
                    urls,
                });
                frame
            }
            Err(error) => out_of_reach(&error),
        }
    }
}

/// The upload that the parts belong to, begun if it was not.
async fn open(
    store: &Store,
    bucket: &Bucket,
    claim: LeaseClaim,
) -> Result<PartsGranted, Box<GatewayFrame>> {
    let no = |refusal| Box::new(refused(Operation::Grant, refusal));
    let granted = store.grant_parts(claim, bucket.part_bytes()).await;
    let granted = granted.map_err(|_| Box::new(trouble()))?.map_err(no)?;
    if granted.upload_id.is_some() {
        return Ok(granted);
    }
    let key = granted.output_key;
    let id = bucket.begin_parts(&key).await;
    let id = id.map_err(|error| Box::new(out_of_reach(&error)))?;
    let upload = OpenUpload {
        id: id.clone(),
        part_bytes: granted.part_bytes,
    };
    // Unanswered, it may be written down all the same; otherwise a clean-up finds it.
    let begun = store.parts_begun(claim, upload).await;
    let begun = begun.map_err(|_| Box::new(trouble()))?;
    let is_ours = begun
        .as_ref()
        .is_ok_and(|begun| begun.upload_id.as_ref() == Some(&id));
    if !is_ours && let Err(error) = bucket.abandon_parts(&key, &id).await {
        tracing::warn!(%error, "a useless upload stays until it is cleaned up");
    }
    begun.map_err(no)
}

fn out_of_reach(error: &ArtifactError) -> GatewayFrame {
    tracing::warn!(%error, "no links to parts");
    trouble()
}
