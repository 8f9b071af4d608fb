//! What every request about a lease says, how its fields are read, and how it is answered.

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest, HttpResponse, web};
use fencepost_domain::commit_token::CommitToken;
use fencepost_domain::field::FieldError;
use fencepost_domain::ids::{DeviceId, RequestId};
use fencepost_domain::sha256;
use fencepost_protocol::{AgentFrame, LeaseRef};
use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;

use super::answer::answer;
use crate::http::auth::Device;
use crate::http::body::{Fields, read_agent_json};
use crate::http::problem::{Problem, ProblemCode};
use crate::http::state::AppState;

/// A device's request about a lease: the attempt in the address, the rest in the body.
pub(super) struct Asked {
    /// Who asks.
    pub(super) device: DeviceId,
    /// The lease.
    pub(super) lease: LeaseRef,
    /// What is left to read.
    pub(super) fields: Fields,
    /// What the gateway knows.
    pub(super) state: web::Data<AppState>,
}

impl FromRequest for Asked {
    type Error = Problem;
    type Future = LocalBoxFuture<'static, Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        // Who it is comes first: a stranger's body is not looked at.
        let device = Device::from_request(request, &mut Payload::None);
        let body = web::Payload::from_request(request, payload);
        let state = request.app_data::<web::Data<AppState>>().cloned();
        let request = request.clone();
        async move {
            let device = device.await?.id;
            let state = state.ok_or_else(Device::unknown)?;
            let body = body.await.map_err(|error| Problem::internal(&error))?;
            let mut fields = Fields::of_body(read_agent_json(&request, body).await?)?;
            let lease = lease(&request, &mut fields)?;
            Ok(Self {
                device,
                lease,
                fields,
                state,
            })
        }
        .boxed_local()
    }
}

fn lease(request: &HttpRequest, fields: &mut Fields) -> Result<LeaseRef, Problem> {
    let attempt = request.match_info().query("attempt");
    let attempt_id = attempt.parse().map_err(|_| {
        Problem::new(ProblemCode::InvalidRequest, "the address must hold a UUID").at("attempt")
    })?;
    let job_id = fields.required("job_id", "a UUID")?;
    let epoch = fields.integer("lease_epoch", 1..=i64::MAX)?;
    let lease_epoch =
        epoch.ok_or_else(|| fields.complaint("lease_epoch", "is missing; it must be a number"))?;
    Ok(LeaseRef {
        job_id,
        attempt_id,
        lease_epoch,
    })
}

impl Asked {
    /// Does what a frame of a session would, once under a request's id. Every field has been read.
    pub(super) async fn ask(
        self,
        id: RequestId,
        frame: AgentFrame,
    ) -> Result<HttpResponse, Problem> {
        self.fields.finish()?;
        let outside = self.state.actors.outside();
        answer(outside.ask(self.device, id, frame).await)
    }

    /// The same for what is known by what it says.
    pub(super) async fn record(self, frame: AgentFrame) -> Result<HttpResponse, Problem> {
        self.fields.finish()?;
        let outside = self.state.actors.outside();
        answer(outside.record(self.device, frame).await)
    }

    /// What the device calls the request.
    pub(super) fn request_id(&mut self) -> Result<RequestId, FieldError> {
        request_id(&mut self.fields)
    }

    /// The lease's secret; whatever else stands there is not repeated.
    pub(super) fn secret(&mut self) -> Result<CommitToken, FieldError> {
        self.fields.required("commit_token", SECRET)
    }

    /// A text; absent is empty.
    pub(super) fn text(&mut self, name: &'static str) -> Result<String, FieldError> {
        let text: Option<String> = self.fields.optional(name, "a text")?;
        Ok(text.unwrap_or_default())
    }
}

/// What a secret looks like.
pub(super) const SECRET: &str = "the lease's secret, 24 bytes in base64url";

/// What the device calls a request.
pub(super) fn request_id(fields: &mut Fields) -> Result<RequestId, FieldError> {
    fields.required("request_id", "a UUID, a new one for each request")
}

/// Refuses what is no SHA-256.
pub(super) fn check_sha256(fields: &Fields, name: &str, text: &str) -> Result<(), FieldError> {
    match sha256::parse(text) {
        Some(_) => Ok(()),
        None => Err(fields.complaint(name, format!("must be {}", sha256::EXPECTED))),
    }
}
