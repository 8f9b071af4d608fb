//! `GET` and `DELETE /v1/uploads/{upload}`: whether a file is there, until when, and giving it up.

use actix_web::{HttpResponse, web};
use fencepost_domain::ids::UploadId;
use fencepost_store::tx::delete_upload::UploadDeleted;
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use crate::http::auth::Buyer;
use crate::http::openapi::{Operation, Tag, Time, Who};
use crate::http::path_id::path_id;
use crate::http::problem::{Problem, ProblemCode};
use crate::http::state::AppState;

/// A file that was sent, or will be.
#[derive(Debug, Serialize, JsonSchema)]
struct KeptUpload {
    /// Its id, by which a job names it.
    upload_id: Uuid,
    /// Number of its bytes, once they are there.
    size_bytes: Option<i64>,
    /// SHA-256 of its bytes, in hexadecimal, once they are there.
    sha256: Option<String>,
    /// When it was made.
    created_at: Time,
    /// When its bytes were all there.
    stored_at: Option<Time>,
    /// Until when it is kept; null while a job that has not ended reads it.
    expires_at: Option<Time>,
    /// When it was deleted; it is no input any more.
    deleted_at: Option<Time>,
}

/// `GET /v1/uploads/{upload}`.
pub(in crate::http) fn get_operation() -> Operation {
    Operation::get("/v1/uploads/{upload}", "get_upload", get)
        .says(
            "A file that you sent",
            "Whether it is there, and until when.",
        )
        .of(Tag::Files)
        .by(Who::Buyer)
        .answers::<KeptUpload>(200, "The upload.")
        .refuses(&[ProblemCode::NotFound])
}

/// `DELETE /v1/uploads/{upload}`.
pub(in crate::http) fn delete_operation() -> Operation {
    let path = "/v1/uploads/{upload}";
    Operation::delete(path, "delete_upload", delete)
        .says(
            "Delete a file that you sent",
            "It is no input any more, at once, and its bytes are deleted soon. May be repeated.",
        )
        .of(Tag::Files)
        .by(Who::Buyer)
        .answers_nothing(204, "There is no such file any more.")
        .refuses(&[ProblemCode::NotFound, ProblemCode::UploadInUse])
}

async fn get(
    buyer: Buyer,
    state: web::Data<AppState>,
    path: web::Path<String>,
) -> Result<HttpResponse, Problem> {
    let upload = state.store.upload(buyer.org, upload_id(&path)?).await?;
    let upload = upload.ok_or_else(|| Problem::not_found("upload"))?;
    Ok(HttpResponse::Ok().json(KeptUpload {
        upload_id: upload.id,
        size_bytes: upload.size_bytes,
        sha256: upload.sha256,
        created_at: Time(upload.created_at),
        stored_at: upload.stored_at.map(Time),
        expires_at: upload.expires_at.map(Time),
        deleted_at: upload.deleted_at.map(Time),
    }))
}

async fn delete(
    buyer: Buyer,
    state: web::Data<AppState>,
    path: web::Path<String>,
) -> Result<HttpResponse, Problem> {
    let upload = upload_id(&path)?;
    match state.store.delete_upload(buyer.org, upload).await? {
        UploadDeleted::Done => Ok(HttpResponse::NoContent().finish()),
        UploadDeleted::NoUpload => Err(Problem::not_found("upload")),
        UploadDeleted::InUse(job) => Err(Problem::new(
            ProblemCode::UploadInUse,
            format!("the job {job} reads it: cancel that first, or wait until it has ended"),
        )),
    }
}

/// The upload that an address names.
pub(super) fn upload_id(text: &str) -> Result<UploadId, Problem> {
    path_id("upload", text)
}
