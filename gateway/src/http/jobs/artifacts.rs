//! `GET /v1/jobs/{job}/artifacts`: what its attempts left besides the output.

use actix_web::{HttpResponse, web};
use fencepost_store::views::ArtifactView;
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use super::job_id;
use crate::http::auth::Buyer;
use crate::http::openapi::{Operation, Tag, Time, Who};
use crate::http::problem::{Problem, ProblemCode};
use crate::http::state::AppState;

/// The artifacts of a job.
#[derive(Debug, Serialize, JsonSchema)]
struct Artifacts {
    /// In order.
    artifacts: Vec<Artifact>,
}

/// A file that an attempt named besides its output.
#[derive(Debug, Serialize, JsonSchema)]
struct Artifact {
    /// Its place among all that happened to the job.
    seq: i64,
    /// Its name, such as `encoder.log`.
    name: String,
    /// The attempt that wrote it.
    attempt_id: Uuid,
    /// That attempt's number.
    attempt_number: i32,
    /// SHA-256 of its bytes, as the Mac declared it.
    sha256: String,
    /// Number of its bytes, as the Mac declared it.
    size_bytes: i64,
    /// When it was written.
    at: Time,
    /// Where its bytes are, while they are kept.
    url: Option<String>,
}

/// `GET /v1/jobs/{job}/artifacts`.
pub(in crate::http) fn operation() -> Operation {
    Operation::get("/v1/jobs/{job}/artifacts", "list_artifacts", artifacts)
        .says(
            "What a job left besides its output",
            "Files that its attempts named (logs, for example), with links while they are kept. \
             Fencepost has not looked at what they say.",
        )
        .of(Tag::Jobs)
        .by(Who::Buyer)
        .answers::<Artifacts>(200, "The artifacts.")
        .refuses(&[ProblemCode::NotFound])
}

/// All artifacts of a job, in order, each with a link while its bytes are kept.
async fn artifacts(
    buyer: Buyer,
    state: web::Data<AppState>,
    path: web::Path<String>,
) -> Result<HttpResponse, Problem> {
    let artifacts = state.store.artifacts(buyer.org, job_id(&path)?).await?;
    let artifacts = artifacts.ok_or_else(|| Problem::not_found("job"))?;
    let shown = artifacts.into_iter().map(|artifact| {
        let link = artifact.is_kept.then(|| link(&state, &artifact));
        Artifact::of(artifact, link)
    });
    Ok(HttpResponse::Ok().json(Artifacts {
        artifacts: shown.collect(),
    }))
}

fn link(state: &AppState, artifact: &ArtifactView) -> String {
    let (key, name) = (artifact.object_key.clone(), artifact.name.clone());
    state.output_link(key, name, artifact.link_expires_at)
}

impl Artifact {
    fn of(artifact: ArtifactView, url: Option<String>) -> Self {
        Self {
            seq: artifact.job_seq,
            name: artifact.name,
            attempt_id: artifact.attempt_id,
            attempt_number: artifact.attempt_number,
            sha256: artifact.sha256,
            size_bytes: artifact.size_bytes,
            at: Time(artifact.recorded_at),
            url,
        }
    }
}
