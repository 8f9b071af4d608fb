//! What operators' machines ask: `/live`, `/ready`, `/actors`, `/metrics`, on a listener of their own.

use actix_web::http::header::CONTENT_TYPE;
use actix_web::web::{self, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse};
use metrics_exporter_prometheus::PrometheusHandle;
use serde_json::json;

use super::gauges;
use super::state::AppState;

/// The addresses of the admin listener.
pub fn routes(config: &mut ServiceConfig) {
    config
        .route("/live", web::get().to(live))
        .route("/ready", web::get().to(ready))
        .route("/actors", web::get().to(actors))
        .route("/metrics", web::get().to(metrics));
}

/// The process runs.
async fn live() -> HttpResponse {
    HttpResponse::Ok().json(json!({ "live": true }))
}

/// The process can do its work: Postgres answers, and every loop of ours goes round.
async fn ready(state: web::Data<AppState>) -> HttpResponse {
    let troubles = state.troubles().await;
    let answer = json!({ "ready": troubles.is_empty(), "troubles": troubles });
    if troubles.is_empty() {
        HttpResponse::Ok().json(answer)
    } else {
        HttpResponse::ServiceUnavailable().json(answer)
    }
}

/// How each actor is.
async fn actors(state: web::Data<AppState>) -> HttpResponse {
    HttpResponse::Ok().json(state.actors.snapshot().await)
}

async fn metrics(request: HttpRequest, state: web::Data<AppState>) -> HttpResponse {
    let Some(handle) = request.app_data::<web::Data<PrometheusHandle>>() else {
        return HttpResponse::NotFound().finish();
    };
    gauges::refresh(&state.store).await;
    HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, "text/plain; version=0.0.4"))
        .body(handle.render())
}
