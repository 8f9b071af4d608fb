//! `fencepost job delete`, `delete-output` and `delete-upload`: what is not needed any more.

use clap::Args;
use fencepost_domain::ids::{JobId, UploadId};
use serde_json::json;

use super::api::Api;
use super::screen::Screen;
use super::{JobError, SHOWN_BY};
use crate::cli::ids::id;

/// A job that has ended, or its output alone.
#[derive(Debug, Args)]
pub(super) struct DeleteArgs {
    /// The job's id.
    #[arg(value_parser = id::<JobId>(SHOWN_BY))]
    job: JobId,
}

/// A file that was sent.
#[derive(Debug, Args)]
pub(super) struct UploadArgs {
    /// The upload's id, as `fencepost job upload` printed it.
    #[arg(value_parser = id::<UploadId>("fencepost job get JOB"))]
    upload: UploadId,
}

pub(super) async fn job(api: &Api, screen: &Screen, args: &DeleteArgs) -> Result<(), JobError> {
    let job = args.job;
    api.delete(&format!("v1/jobs/{job}")).await?;
    let text = format!("job {job} is deleted with all that was said in it; its money stays");
    let json = json!({ "type": "deleted", "job_id": job });
    Ok(screen.result(&text, &json)?)
}

pub(super) async fn output(api: &Api, screen: &Screen, args: &DeleteArgs) -> Result<(), JobError> {
    let job = args.job;
    api.delete(&format!("v1/jobs/{job}/output")).await?;
    let text = format!("the output and the artifacts of job {job} are deleted");
    let json = json!({ "type": "deleted", "job_id": job });
    Ok(screen.result(&text, &json)?)
}

pub(super) async fn upload(api: &Api, screen: &Screen, args: &UploadArgs) -> Result<(), JobError> {
    let upload = args.upload;
    api.delete(&format!("v1/uploads/{upload}")).await?;
    let text = format!("the upload {upload} is deleted");
    let json = json!({ "type": "deleted", "upload_id": upload });
    Ok(screen.result(&text, &json)?)
}
