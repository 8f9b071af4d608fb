//! `GET /v1/provider/ws`: a device's token opens a session.
//!
//! The session's number is minted before the upgrade is answered, so that of two sockets of one
//! device it is known which is newer, whichever comes to speak first.

use std::time::Duration;

use actix_web::http::header::UPGRADE;
use actix_web::{HttpRequest, HttpResponse, web};
use actix_web_actors::ws::WsResponseBuilder;
use fencepost_protocol::MAX_MESSAGE_BYTES;

use super::connection::Cutter;
use super::intake::{Intake, Level};
use super::transport::{OpenSession, Transport};
use crate::http::auth::{Device, bearer};
use crate::http::openapi::{Operation, Tag, Who};
use crate::http::problem::{Problem, ProblemCode};
use crate::http::state::AppState;

/// How long Postgres has to give a session its number.
const MINT_WITHIN: Duration = Duration::from_secs(5);

/// `GET /v1/provider/ws`.
pub fn operation() -> Operation {
    Operation::get("/v1/provider/ws", "open_session", upgrade)
        .says(
            "Open a device's session",
            "A WebSocket of JSON texts, each a frame with a `type`; the agent speaks first, with \
             `hello`. `fencepost-agent` does all of it.",
        )
        .of(Tag::Provider)
        .by(Who::Device)
        .answers_nothing(101, "The socket is open.")
        .refuses(&[ProblemCode::UpgradeRequired])
}

/// Authenticates, mints the session's number, and hands the socket to a new session.
async fn upgrade(
    request: HttpRequest,
    state: web::Data<AppState>,
    payload: web::Payload,
) -> Result<HttpResponse, Problem> {
    if !request.headers().contains_key(UPGRADE) {
        let detail = "agents connect here with a WebSocket";
        return Err(Problem::new(ProblemCode::UpgradeRequired, detail));
    }
    let token = bearer(&request, &["fp_device_"]).ok_or_else(Device::unknown)?;
    // A dialler that is told nothing for long would take us for dead.
    let minting = state.store.mint_session(&token);
    let minted = tokio::time::timeout(MINT_WITHIN, minting).await;
    let minted = minted.map_err(|_| {
        Problem::new(
            ProblemCode::Unavailable,
            "the database does not answer in time; dial again",
        )
    })??;
    let (device, session) = minted.ok_or_else(Device::unknown)?;
    tracing::info!(device.id = %device, session = %session, "an agent connects");
    let actors = state.actors.clone();
    let open: OpenSession =
        Box::new(move |socket| Some(actors.open_session(device, session, socket)));
    let level = Level::default();
    let transport = Transport::new(open, level.clone(), Cutter::of(&request));
    WsResponseBuilder::new(transport, &request, Intake::new(payload, level))
        .frame_size(MAX_MESSAGE_BYTES)
        .start()
        .map_err(|error| Problem::new(ProblemCode::UpgradeRequired, error.to_string()))
}
