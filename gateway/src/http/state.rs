//! What every handler can reach.

use std::sync::Arc;

use fencepost_actors::ActorSystem;
use fencepost_actors::webhooks::Webhooks;
use fencepost_domain::artifact_key;
use fencepost_domain::ids::UploadId;
use fencepost_store::Store;
use fencepost_store::artifacts::{ArtifactStore, Direction, Grant, Holder, Links};
use time::OffsetDateTime;

use super::brake::Brake;
use super::limit::Limits;
use super::uploads::Readings;
use crate::config::Config;

/// The parts of the process that answer requests. Cheap to clone.
#[derive(Clone)]
pub struct AppState {
    /// What is remembered.
    pub store: Store,
    /// The bytes.
    pub artifacts: ArtifactStore,
    /// Makes links, to ourselves or to the bucket.
    pub links: Links,
    /// What the operator chose.
    pub config: Arc<Config>,
    /// What happens, in what order.
    pub actors: ActorSystem,
    /// What signs and sends webhooks.
    pub webhooks: Webhooks,
    /// Whether the programs that check outputs were found.
    pub can_verify: bool,
    /// How often each org may ask.
    pub limits: Arc<Limits>,
    /// Against guessing enrollment codes.
    pub pairing: Arc<Brake>,
    /// Buyers' files in the bucket that are being read.
    pub readings: Arc<Readings>,
}

impl AppState {
    /// A link with which a buyer sends a file.
    pub fn upload_link(&self, upload: UploadId, max_bytes: u64, until: OffsetDateTime) -> String {
        self.link(&Grant {
            key: match self.links {
                Links::Gateway(_) => artifact_key::upload(upload),
                Links::Bucket(_) => artifact_key::incoming_upload(upload),
            },
            direction: Direction::Put,
            expires_at_micros: micros(until),
            max_bytes,
            holder: Holder::Upload(upload),
            file_name: None,
        })
    }

    /// A link with which a buyer fetches an output or an artifact, called so when it is saved.
    pub fn output_link(&self, key: String, name: String, until: OffsetDateTime) -> String {
        self.link(&Grant {
            key,
            file_name: Some(name),
            direction: Direction::Get,
            expires_at_micros: micros(until),
            max_bytes: 0,
            holder: Holder::Buyer,
        })
    }

    /// Why this process cannot do its work at the moment; empty if it can.
    pub async fn troubles(&self) -> Vec<String> {
        let mut troubles = Vec::new();
        match self.store.ping().await {
            Ok(()) => troubles.extend(self.estranged().await),
            Err(error) => troubles.push(error.to_string()),
        }
        for round in self.actors.loops().iter().filter(|round| !round.is_good()) {
            let age = round.age().as_secs();
            troubles.push(format!("the {} has not come round for {age} s", round.name));
        }
        troubles.extend(self.actors.clock_trouble());
        if !self.can_verify {
            troubles
                .push("ffmpeg and ffprobe were not found: outputs cannot be checked".to_owned());
        }
        troubles
    }

    /// Whether gateways that began after this one work with other keys or another store.
    async fn estranged(&self) -> Option<String> {
        match self.store.estranged().await {
            Ok(stranger) => stranger.map(|stranger| stranger.to_string()),
            Err(error) => Some(error.to_string()),
        }
    }

    /// A signed link, absolute where we know how others reach us, or where it leads elsewhere.
    fn link(&self, grant: &Grant) -> String {
        let link = self.links.sign(grant);
        match &self.config.http.public_url {
            Some(base) if link.starts_with('/') => format!("{base}{link}"),
            _ => link,
        }
    }
}

/// Microseconds since 1970; the years that Postgres knows of fit.
fn micros(at: OffsetDateTime) -> i64 {
    i64::try_from(at.unix_timestamp_nanos() / 1_000).unwrap_or(i64::MAX)
}
