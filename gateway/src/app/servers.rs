//! The two HTTP servers: the API, and what operators look at.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use actix_web::dev::ServerHandle;
use actix_web::middleware::from_fn;
use actix_web::{App, HttpServer, web};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::task::JoinHandle;

use super::AppError;
use crate::http::state::AppState;
use crate::http::{admin, request_id, routes};

/// The head of a request must be there within this time.
const HEAD: Duration = Duration::from_secs(10);
/// A request that runs longer than this when the gateway stops is cut off.
const LAST_REQUESTS_SECONDS: u64 = 10;

/// A server that runs.
pub(super) struct Running {
    address: SocketAddr,
    handle: ServerHandle,
    task: JoinHandle<io::Result<()>>,
}

impl Running {
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no new connections.
    pub(super) async fn pause(&self) {
        self.handle.pause().await;
    }

    /// Lets running requests finish, for a while.
    pub(super) async fn stop(self) {
        self.handle.stop(true).await;
        if let Ok(Err(error)) = self.task.await {
            tracing::warn!(%error, "a server did not stop cleanly");
        }
    }

    /// Resolves when the server has ended, whoever ended it.
    pub(super) async fn ended(&mut self) {
        match (&mut self.task).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "a server failed"),
            Err(error) => tracing::error!(%error, "a server panicked"),
        }
    }
}

/// Takes an address before anything runs that would have to be stopped again; nobody is answered yet.
/// `key` is what a refusal calls it.
pub(super) fn listen(key: &'static str, address: SocketAddr) -> Result<TcpListener, AppError> {
    TcpListener::bind(address).map_err(|error| cannot_listen(key, address, error))
}

/// Starts the API for buyers and agents.
pub(super) fn start_api(state: &AppState, listener: TcpListener) -> Result<Running, AppError> {
    let config = &state.config.http;
    let data = web::Data::new(state.clone());
    let server = HttpServer::new(move || {
        App::new()
            .app_data(data.clone())
            .wrap(from_fn(request_id::assign))
            .configure(routes)
    })
    .workers(config.workers)
    .on_connect(crate::ws::remember)
    .client_request_timeout(HEAD)
    .shutdown_timeout(LAST_REQUESTS_SECONDS)
    .disable_signals()
    .listen(listener)
    .map_err(|error| cannot_listen("http.bind", config.bind, error))?;
    let address = server.addrs().first().copied().unwrap_or(config.bind);
    let server = server.run();
    Ok(Running {
        address,
        handle: server.handle(),
        task: actix_web::rt::spawn(server),
    })
}

/// Starts the listener for operators' machines.
pub(super) fn start_admin(
    state: &AppState,
    listener: TcpListener,
    metrics: PrometheusHandle,
) -> Result<Running, AppError> {
    let bind = state.config.admin.bind;
    let (state, metrics) = (web::Data::new(state.clone()), web::Data::new(metrics));
    let server = HttpServer::new(move || {
        App::new()
            .app_data(state.clone())
            .app_data(metrics.clone())
            .configure(admin::routes)
    })
    .workers(1)
    .client_request_timeout(HEAD)
    .shutdown_timeout(1)
    .disable_signals()
    .listen(listener)
    .map_err(|error| cannot_listen("admin.bind", bind, error))?;
    let address = server.addrs().first().copied().unwrap_or(bind);
    let server = server.run();
    Ok(Running {
        address,
        handle: server.handle(),
        task: actix_web::rt::spawn(server),
    })
}

fn cannot_listen(key: &'static str, address: SocketAddr, error: io::Error) -> AppError {
    AppError::Listen {
        key,
        address,
        error,
    }
}
