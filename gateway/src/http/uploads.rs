//! `/v1/uploads`: a place for a buyer's file, and the link to send it to.

use actix_web::{HttpRequest, HttpResponse, web};
use fencepost_domain::ids::UploadId;
use schemars::JsonSchema;
use serde::Serialize;

use super::auth::Buyer;
use super::body::{Fields, read_json};
use super::openapi::{Operation, Tag, Time, Who};
use super::problem::{Problem, ProblemCode};
use super::state::AppState;

/// A file that a buyer is going to send.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewUpload {
    /// The most bytes that will be sent; left out: as many as are taken at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    size_bytes: Option<u64>,
}

/// A place for a file.
#[derive(Debug, Serialize, JsonSchema)]
struct Upload {
    /// Its id, by which a job names it.
    upload_id: UploadId,
    /// Where to PUT the file, once; absolute, or relative to this gateway.
    #[schemars(extend("format" = "uri-reference"))]
    url: String,
    /// The most bytes that are taken.
    max_bytes: i64,
    /// Until when a transfer may begin.
    expires_at: Time,
}

/// `POST /v1/uploads`.
pub(super) fn operation() -> Operation {
    Operation::post("/v1/uploads", "create_upload", create)
        .says(
            "Make a place for a file",
            "The file is PUT to the link of the answer, once, before it expires. An upload that is \
             never used costs nothing.",
        )
        .of(Tag::Files)
        .by(Who::Buyer)
        .takes(&NewUpload { size_bytes: None })
        .answers::<Upload>(201, "The upload and its link.")
        .refuses(&[ProblemCode::QuotaExceeded])
}

async fn create(
    request: HttpRequest,
    buyer: Buyer,
    state: web::Data<AppState>,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    let mut fields = Fields::of_body(read_json(&request, payload).await?)?;
    let limit = i64::try_from(state.config.artifacts.max_upload_bytes).unwrap_or(i64::MAX);
    let size_bytes = fields.integer("size_bytes", 1..=limit)?;
    let max_bytes = size_bytes.unwrap_or(limit);
    fields.finish()?;
    // What comes is measured again when it is here.
    let full = state
        .store
        .is_full(buyer.org, size_bytes.unwrap_or(1))
        .await?;
    if let Some(full) = full {
        return Err(Problem::quota(&full));
    }
    let upload = UploadId::new();
    let until = state
        .store
        .create_upload(buyer.org, upload, max_bytes)
        .await?;
    Ok(HttpResponse::Created().json(Upload {
        upload_id: upload,
        url: state.upload_link(upload, max_bytes.unsigned_abs(), until),
        max_bytes,
        expires_at: Time(until),
    }))
}
