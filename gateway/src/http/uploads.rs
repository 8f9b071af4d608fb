//! `/v1/uploads`: a place for a buyer's file, and the link to send it to.

use actix_web::{HttpRequest, HttpResponse, web};
use fencepost_domain::ids::UploadId;
use serde_json::json;
use time::format_description::well_known::Rfc3339;

use super::auth::Buyer;
use super::body::{Fields, read_json};
use super::problem::Problem;
use super::state::AppState;

/// `POST /v1/uploads {size_bytes?}` → 201 `{upload_id, url, max_bytes, expires_at}`. The file is
/// PUT to the link, once, before it expires.
pub async fn create(
    request: HttpRequest,
    buyer: Buyer,
    state: web::Data<AppState>,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    let mut fields = Fields::of_body(read_json(&request, payload).await?)?;
    let limit = i64::try_from(state.config.artifacts.max_upload_bytes).unwrap_or(i64::MAX);
    let max_bytes = fields.integer("size_bytes", 1..=limit)?.unwrap_or(limit);
    fields.finish()?;
    let upload = UploadId::new();
    let until = state
        .store
        .create_upload(buyer.org, upload, max_bytes)
        .await?;
    let expires_at = until
        .format(&Rfc3339)
        .map_err(|error| Problem::internal(&error))?;
    Ok(HttpResponse::Created().json(json!({
        "upload_id": upload,
        "url": state.upload_link(upload, max_bytes.unsigned_abs(), until),
        "max_bytes": max_bytes,
        "expires_at": expires_at,
    })))
}
