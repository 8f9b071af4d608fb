//! `/v1/provider/pair`: an enrollment code becomes a device token.

use actix_web::http::header::{CACHE_CONTROL, HeaderValue};
use actix_web::{HttpRequest, HttpResponse, web};
use fencepost_domain::ids::{DeviceId, ProviderId};
use fencepost_store::secrets::Credential;
use schemars::JsonSchema;
use serde::Serialize;

use super::body::{Fields, read_json};
use super::openapi::{Operation, Tag, Who};
use super::problem::{Problem, ProblemCode};
use super::state::AppState;

const CODE_PREFIX: &str = "fp_pair_";
const MAX_TEXT: usize = 200;

/// A Mac that becomes a device.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewPairing {
    /// The enrollment code that an operator made; good once.
    #[schemars(regex(pattern = "^fp_pair_"))]
    code: &'static str,
    /// What to call the Mac.
    #[schemars(regex(pattern = r"\S"))]
    device_name: &'static str,
    /// The version of the agent.
    #[schemars(regex(pattern = r"\S"))]
    agent_version: &'static str,
}

/// A device, and the token by which it is known from now on.
#[derive(Serialize, JsonSchema)]
struct Pairing {
    /// The device.
    device_id: DeviceId,
    /// Whose it is.
    provider_id: ProviderId,
    /// Its token, shown this once: `fp_device_…`.
    device_token: String,
}

/// `POST /v1/provider/pair`.
pub(super) fn operation() -> Operation {
    Operation::post("/v1/provider/pair", "pair_device", pair)
        .says(
            "Turn an enrollment code into a device",
            "The code (`fp_pair_…`, good once and for minutes) is the credential, and stands in the \
             body. An older token of the same device is void from then on. Many wrong codes make \
             everybody wait.",
        )
        .of(Tag::Provider)
        .by(Who::Bearer)
        .takes(&NewPairing {
            code: "fp_pair_0123456789abcdefghijkl",
            device_name: "studio-mac-1",
            agent_version: env!("CARGO_PKG_VERSION"),
        })
        .answers::<Pairing>(201, "The device, and its token this once.")
        .refuses(&[ProblemCode::TooManyRequests])
}

async fn pair(
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
    Ok(response.json(Pairing {
        device_id: paired.device,
        provider_id: paired.provider,
        device_token: paired.token.expose().to_owned(),
    }))
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
