//! `/v1/provider/pair`: an enrollment code becomes a device token.

use actix_web::http::header::{CACHE_CONTROL, HeaderValue};
use actix_web::{HttpRequest, HttpResponse, web};
use fencepost_store::secrets::Credential;
use serde_json::json;

use super::body::{Fields, read_json};
use super::problem::{Problem, ProblemCode};
use super::state::AppState;

const CODE_PREFIX: &str = "fp_pair_";
const MAX_TEXT: usize = 200;

/// `POST /v1/provider/pair {code, device_name, agent_version}` → 201
/// `{device_id, provider_id, device_token}`. The token is shown this once.
pub async fn pair(
    request: HttpRequest,
    state: web::Data<AppState>,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    let mut fields = Fields::of_body(read_json(&request, payload).await?)?;
    let code: String = fields.required("code", "an enrollment code, fp_pair_…")?;
    let name = text(&mut fields, "device_name")?;
    let agent_version = text(&mut fields, "agent_version")?;
    fields.finish()?;
    if let Some(wait) = state.pairing.wait() {
        let detail = "too many codes were wrong lately: wait a little";
        return Err(Problem::new(ProblemCode::TooManyRequests, detail).after(wait));
    }
    let refused = || {
        state.pairing.failed();
        let detail = "the code is unknown, used or expired: ask for a new one";
        Problem::new(ProblemCode::InvalidRequest, detail).at("code")
    };
    if !code.starts_with(CODE_PREFIX) || code.len() > MAX_TEXT {
        return Err(refused());
    }
    let paired = state
        .store
        .pair_device(&Credential::presented(&code), &name)
        .await?;
    let paired = paired.ok_or_else(refused)?;
    tracing::info!(device.id = %paired.device, provider.id = %paired.provider, agent_version, "paired a device");
    let mut response = HttpResponse::Created();
    response.insert_header((CACHE_CONTROL, HeaderValue::from_static("no-store")));
    Ok(response.json(json!({
        "device_id": paired.device,
        "provider_id": paired.provider,
        "device_token": paired.token.expose(),
    })))
}

/// A short text, without what cannot be shown.
fn text(fields: &mut Fields, name: &'static str) -> Result<String, Problem> {
    let text: String = fields.required(name, "a text")?;
    let text = fencepost_domain::text::clean(text.trim(), MAX_TEXT);
    if text.is_empty() {
        return Err(fields.complaint(name, "must not be empty").into());
    }
    Ok(text)
}
