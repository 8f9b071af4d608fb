//! `/v1/uploads`: a place for a buyer's file, and the link to send it to.

pub(super) mod complete;
mod readings;

use std::collections::BTreeMap;

use actix_web::{HttpRequest, HttpResponse, web};
use fencepost_domain::ids::UploadId;
use fencepost_domain::sha256;
use fencepost_store::admin::NewUpload;
use fencepost_store::artifacts::checksum_header;
use schemars::JsonSchema;
use serde::Serialize;
use time::OffsetDateTime;

use super::auth::Buyer;
use super::body::{Fields, read_json};
use super::openapi::{Operation, Tag, Time, Who};
use super::problem::{Problem, ProblemCode};
use super::state::AppState;

pub use readings::Readings;

/// What a bucket takes at once.
const MOST_AT_ONCE: u64 = 5 * 1024 * 1024 * 1024;

/// A file that a buyer is going to send.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewUpload")]
struct Announced {
    /// The most bytes that will be sent; left out: as many as are taken at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    size_bytes: Option<u64>,
    /// SHA-256 of the file, 64 hexadecimal digits in lower case; then no other bytes are taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    sha256: Option<String>,
}

/// A place for a file.
#[derive(Debug, Serialize, JsonSchema)]
struct Upload {
    /// Its id, by which a job names it.
    upload_id: UploadId,
    /// Where to PUT the file; absolute, or relative to this gateway.
    #[schemars(extend("format" = "uri-reference"))]
    url: String,
    /// Headers that must be sent with it.
    headers: BTreeMap<String, String>,
    /// The most bytes that are taken.
    max_bytes: i64,
    /// Until when a transfer may begin.
    expires_at: Time,
    /// Where to complete it afterwards.
    #[schemars(extend("format" = "uri-reference"))]
    complete_url: String,
}

/// `POST /v1/uploads`.
pub(super) fn operation() -> Operation {
    Operation::post("/v1/uploads", "create_upload", create)
        .says(
            "Make a place for a file",
            "The file is PUT to the link of the answer, with its headers, before it expires, and then \
             completed. The link may lead past this gateway. An upload that is never used costs \
             nothing.",
        )
        .of(Tag::Files)
        .by(Who::Buyer)
        .takes(&Announced {
            size_bytes: None,
            sha256: None,
        })
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
    let in_bucket = state.links.bucket().is_some();
    let most = state.config.artifacts.max_upload_bytes;
    let most = if in_bucket {
        most.min(MOST_AT_ONCE)
    } else {
        most
    };
    let limit = i64::try_from(most).unwrap_or(i64::MAX);
    let size_bytes = fields.integer("size_bytes", 1..=limit)?;
    let max_bytes = size_bytes.unwrap_or(limit);
    let sha256 = digest(&mut fields)?;
    fields.finish()?;
    // What comes is measured again when it is here.
    let full = state
        .store
        .is_full(buyer.org, size_bytes.unwrap_or(1))
        .await?;
    if let Some(full) = full {
        return Err(Problem::quota(&full));
    }
    let new = NewUpload {
        id: UploadId::new(),
        max_bytes,
        sha256,
        in_bucket,
    };
    let until = state
        .store
        .create_declared_upload(buyer.org, new.clone())
        .await?;
    let (url, headers) = link(&state, &new, until)?;
    Ok(HttpResponse::Created().json(Upload {
        upload_id: new.id,
        url,
        headers,
        max_bytes,
        expires_at: Time(until),
        complete_url: format!("/v1/uploads/{}/complete", new.id),
    }))
}

fn digest(fields: &mut Fields) -> Result<Option<[u8; 32]>, Problem> {
    let Some(text) = fields.optional::<String>("sha256", sha256::EXPECTED)? else {
        return Ok(None);
    };
    let digest = sha256::parse(&text);
    let problem = || fields.complaint("sha256", format!("must be {}", sha256::EXPECTED));
    Ok(Some(digest.ok_or_else(problem)?))
}

/// The link, and the headers that must be sent with it.
fn link(
    state: &AppState,
    new: &NewUpload,
    until: OffsetDateTime,
) -> Result<(String, BTreeMap<String, String>), Problem> {
    let mut headers = BTreeMap::new();
    let plain = state.upload_link(new.id, new.max_bytes.unsigned_abs(), until);
    let (Some(bucket), Some(sha256)) = (state.links.bucket(), &new.sha256) else {
        return Ok((plain, headers));
    };
    let key = fencepost_domain::artifact_key::incoming_upload(new.id);
    let url = bucket
        .link_for_bytes(&key, sha256)
        .map_err(|error| Problem::internal(&error))?;
    let (name, value) = checksum_header(sha256);
    headers.insert(name.to_owned(), value);
    Ok((url, headers))
}
