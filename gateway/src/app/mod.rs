//! One gateway: how its parts are put together, and in what order they stop.
//!
//! Everything that can be wrong is found before the first connection is taken: configuration,
//! schema, folders, addresses. Stopping goes the other way round: no new connections, then the
//! actors (no more offers, live leases renewed once, sockets closed with 1012), then the requests
//! that are still running, then the database.

mod servers;
mod signals;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fencepost_actors::announcer::WatchLimits;
use fencepost_actors::webhooks::Webhooks;
use fencepost_actors::{ActorSettings, ActorSystem, Dependencies};
use fencepost_egress::{Guard, Guarded};
use fencepost_media::{Overrides, Tools};
use fencepost_protocol::Intervals;
use fencepost_store::artifacts::{ArtifactError, ArtifactStore, Bucket, LinkSigner, Links};
use fencepost_store::identity::GatewayIdentity;
use fencepost_store::tx::begin_gateway::Stranger;
use fencepost_store::{Store, StoreError, StoreSettings};

pub use signals::until_told_to_stop;

use crate::config::{ArtifactsKind, Config, ConfigError, LeasesConfig, VerifierConfig};
use crate::http::limit::Limits;
use crate::http::state::AppState;
use servers::{Running, listen, start_admin, start_api};

/// Why a gateway cannot run.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The configuration is refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The database is away, or its schema is another one.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The place for artifacts cannot be used.
    #[error("artifacts: {0}")]
    Artifacts(#[from] ArtifactError),
    /// There is no TLS to send webhooks with.
    #[error("webhooks cannot be sent: {0}")]
    Client(#[source] reqwest::Error),
    /// An address cannot be listened on.
    #[error("{key}: cannot listen on {address}: {error}")]
    Listen {
        /// The configuration key of the address.
        key: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the system says.
        error: std::io::Error,
    },
    /// Another gateway runs on the same database with other keys, or another store.
    #[error(
        "{0}: links of one would lead nowhere at the other. Start this one with what the others have; \
         to change it, stop all gateways first (one that was killed counts for 15 more seconds)"
    )]
    Stranger(Stranger),
    /// A server or the actors ended by themselves.
    #[error("{0} ended unexpectedly")]
    Ended(&'static str),
}

/// A running gateway.
pub struct Gateway {
    state: AppState,
    api: Running,
    admin: Running,
}

impl Gateway {
    /// Starts a gateway. Needs a running actix system, which it lives in.
    pub async fn start(config: Config) -> Result<Self, AppError> {
        let store = open_store(&config)?.of_new_gateway();
        Self::start_on(config, store).await
    }

    /// The same on a store that was opened already.
    pub async fn start_on(config: Config, store: Store) -> Result<Self, AppError> {
        let api = listen("http.bind", config.http.bind)?;
        let admin = listen("admin.bind", config.admin.bind)?;
        let metrics = crate::telemetry::metrics()?;
        store.check_schema().await?;
        let (artifacts, links) = open_artifacts(&config)?;
        let tools = find_tools(&config.verifier).await;
        let can_verify = tools.is_some();
        let webhooks = webhooks(&config)?;
        begin(&config, &store, &artifacts).await?;
        let actors = ActorSystem::start(Dependencies {
            store: store.clone(),
            artifacts: artifacts.clone(),
            links: links.clone(),
            tools,
            webhooks: webhooks.clone(),
            settings: actor_settings(&config),
        });
        let http = &config.http;
        let limits = Limits::new(http.requests_per_second, http.request_burst);
        let state = AppState {
            store,
            artifacts,
            links,
            config: Arc::new(config),
            actors,
            can_verify,
            limits: Arc::new(limits),
            webhooks,
            pairing: Arc::default(),
            readings: Arc::default(),
        };
        let api = start_api(&state, api)?;
        let admin = start_admin(&state, admin, metrics)?;
        tracing::info!(http = %api.address(), admin = %admin.address(), "the gateway is up");
        Ok(Self { state, api, admin })
    }

    /// Where buyers and agents connect.
    pub fn http_address(&self) -> SocketAddr {
        self.api.address()
    }

    /// Where metrics and health are.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.address()
    }

    /// The store, for commands that run beside the gateway.
    pub fn store(&self) -> &Store {
        &self.state.store
    }

    /// Waits until a part of the gateway ends by itself, which it should not.
    pub async fn ended(&mut self) -> AppError {
        tokio::select! {
            () = self.api.ended() => AppError::Ended("the API's server"),
            () = self.admin.ended() => AppError::Ended("the admin server"),
        }
    }

    /// Stops in order. What takes too long is cut off.
    pub async fn stop(self) {
        tracing::info!("the gateway stops: no new connections, running requests may finish");
        self.api.pause().await;
        self.state.actors.shut_down().await;
        self.api.stop().await;
        self.admin.stop().await;
        if let Err(error) = self.state.store.end_gateway().await {
            tracing::warn!(%error, "others take this gateway for a running one for some seconds");
        }
        self.state.store.close().await;
        tracing::info!("the gateway has stopped");
    }
}

/// Opens the configured database; connections are made on first use.
pub fn open_store(config: &Config) -> Result<Store, AppError> {
    let url = config.database.url()?;
    let leases = &config.leases;
    let settings = StoreSettings {
        lease_ttl: leases.ttl,
        offer_accept: leases.accept,
        cancel_grace: leases.cancel_grace,
        verification_takeover: leases.verification_takeover,
        longest_transfer: config.artifacts.longest_transfer,
        grant: leases.grant,
        retention: config.retention.into(),
        quotas: config.quotas.into(),
        max_connections: config.database.max_connections,
    };
    Ok(Store::open(url.expose(), settings)?)
}

/// Where bytes are, and how links to them are made.
fn open_artifacts(config: &Config) -> Result<(ArtifactStore, Links), AppError> {
    let artifacts = &config.artifacts;
    Ok(match artifacts.kind {
        ArtifactsKind::Disk => {
            let signer = LinkSigner::new(artifacts.signing_key()?);
            let store = ArtifactStore::on_disk(&artifacts.dir)?;
            (store, Links::Gateway(signer))
        }
        ArtifactsKind::S3 => {
            let bucket = Bucket::open(artifacts.s3.settings(config.leases.grant)?)?;
            (
                ArtifactStore::in_bucket(bucket.clone()),
                Links::Bucket(bucket),
            )
        }
    })
}

/// Begins among the gateways of the database, or is refused.
async fn begin(config: &Config, store: &Store, artifacts: &ArtifactStore) -> Result<(), AppError> {
    let (link_key, webhook_key) = config.fingerprints()?;
    let identity = GatewayIdentity {
        link_key,
        webhook_key,
        object_store: artifacts.identity().await?,
    };
    store
        .begin_gateway(identity)
        .await?
        .map_err(AppError::Stranger)
}

/// The programs that check outputs. Without them the gateway runs, and says that it is not ready.
async fn find_tools(config: &VerifierConfig) -> Option<Tools> {
    let overrides = Overrides {
        ffmpeg: config.ffmpeg.clone(),
        ffprobe: config.ffprobe.clone(),
        // A verifier looks at films, it draws none.
        remotion: None,
    };
    match Tools::find(&overrides).await {
        Ok(tools) => Some(tools),
        Err(error) => {
            tracing::error!(%error, "outputs cannot be checked, so no job can succeed");
            None
        }
    }
}

/// What signs and sends webhooks.
fn webhooks(config: &Config) -> Result<Webhooks, AppError> {
    let allowed = &config.egress.allow_cidrs;
    if !allowed.is_empty() {
        tracing::warn!(
            networks = %allowed,
            "webhooks may also go to these networks, and inputs come from them, which are not public \
             (egress.allow_cidrs)"
        );
    }
    let guard = Guard::new(allowed.clone());
    let user_agent = concat!("Fencepost/", env!("CARGO_PKG_VERSION"));
    Ok(Webhooks {
        vault: config.vault()?,
        guarded: Guarded::new(guard, user_agent).map_err(AppError::Client)?,
    })
}

fn actor_settings(config: &Config) -> ActorSettings {
    let leases = &config.leases;
    ActorSettings {
        intervals: intervals(leases),
        sweep: leases.sweep.std(),
        pull: leases.pull.std(),
        verification_renewal: leases.verification_takeover.std() / 3,
        verifications: config.verifier.concurrency,
        max_output_bytes: config.artifacts.max_upload_bytes,
        watching: WatchLimits {
            streams: config.http.event_streams,
            per_org: config.http.event_streams_per_org,
        },
    }
}

/// What agents are told in `welcome`.
fn intervals(leases: &LeasesConfig) -> Intervals {
    let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    Intervals {
        lease_ttl_ms: ms(leases.ttl.std()),
        renew_ms: ms(leases.renew.std()),
        answer_ms: ms(leases.answer.std()),
        heartbeat_ms: ms(leases.heartbeat.std()),
        dead_ms: ms(leases.session_dead.std()),
        reconnect_max_ms: ms(leases.reconnect_max.std()),
    }
}
