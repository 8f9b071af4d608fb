//! Tests of the real gateway, and of the real agent, over HTTP and WebSockets: what travels, in what
//! order, and what becomes of it when somebody does not behave.

mod attack;
mod auth;
mod blobs;
mod bundle_orders;
mod bundles;
mod cancel;
mod clock;
mod commit;
mod config;
mod deleting;
mod docs;
mod events;
mod examples;
mod fail;
mod frames;
mod gateways;
mod hang_ups;
mod health;
mod idempotency;
mod input_url_orders;
mod input_urls;
mod journal;
mod keeping;
mod lease_requests;
mod lease_strangers;
mod leases;
mod leasing;
mod money;
mod odd_peers;
mod openapi;
mod payloads;
mod progress;
mod rate;
mod real_agent;
mod remotion;
mod retention;
mod rival_gateways;
mod s3;
mod s3_links;
mod s3_outages;
mod s3_parts;
mod secrets;
mod services;
mod sessions;
mod slots;
mod stale;
mod taken_away;
mod terminal;
mod verification;
mod webhook_endpoints;
mod webhook_library;
mod webhook_retries;
mod webhooks;
mod zones;

use fencepost_protocol::{Code, Disposition, GatewayFrame};

/// The code of a refusal that says "not yours".
fn refused(frame: &GatewayFrame) -> Code {
    match frame {
        GatewayFrame::Rejected {
            code,
            disposition: Disposition::Stop,
            ..
        } => *code,
        other => panic!("not refused: {other:?}"),
    }
}
