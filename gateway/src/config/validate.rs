//! What must hold between keys. Each complaint names the keys and says which way to turn them.

use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::service::ServiceName;

use super::{ArtifactsKind, Config, ConfigError, LeasesConfig, PriceConfig, S3Config};

/// What must remain of a lease after a renewal that had to be repeated on a new socket.
const RESERVE: LeaseDuration = LeaseDuration::seconds(5);

impl Config {
    /// Checks every relation.
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        self.leases.validate()?;
        self.retention.validate()?;
        self.quotas.validate()?;
        self.validate_http()?;
        for (service, price) in &self.prices {
            price.validate(service)?;
        }
        if self.database.max_connections < 4 {
            return Err(ConfigError::about(
                "database.max_connections",
                "must be at least 4: renewals must not wait behind reads",
            ));
        }
        at_least_one("http.workers", self.http.workers)?;
        at_least_one("http.event_streams", self.http.event_streams)?;
        at_least_one(
            "http.event_streams_per_org",
            self.http.event_streams_per_org,
        )?;
        at_least_one("verifier.concurrency", self.verifier.concurrency)?;
        if self.artifacts.max_upload_bytes == 0
            || i64::try_from(self.artifacts.max_upload_bytes).is_err()
        {
            return Err(ConfigError::about(
                "artifacts.max_upload_bytes",
                "must be at least 1 and fit into 63 bits",
            ));
        }
        match self.artifacts.kind {
            ArtifactsKind::S3 => self.artifacts.s3.validate(self.artifacts.max_upload_bytes),
            ArtifactsKind::Disk if self.artifacts.s3 == S3Config::default() => Ok(()),
            ArtifactsKind::Disk => Err(ConfigError::about(
                "artifacts.kind",
                "must be \"s3\" for artifacts.s3 to mean anything",
            )),
        }
    }

    fn validate_http(&self) -> Result<(), ConfigError> {
        if !self.http.bind.ip().is_loopback() && !self.http.behind_proxy {
            return Err(ConfigError::about(
                "http.bind",
                format!(
                    "{} is not loopback, and tokens would travel in clear: put a proxy that \
                     speaks TLS in front and set http.behind_proxy = true",
                    self.http.bind
                ),
            ));
        }
        let Some(url) = &self.http.public_url else {
            return Ok(());
        };
        match url::Url::parse(url) {
            Ok(parsed) if matches!(parsed.scheme(), "http" | "https") && !url.ends_with('/') => {
                Ok(())
            }
            _ => Err(ConfigError::about(
                "http.public_url",
                "must be like https://fencepost.example, without a slash at the end",
            )),
        }
    }
}

impl LeasesConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        longer(
            ("leases.ttl", self.ttl),
            ("leases.session_dead", self.session_dead),
        )?;
        longer(
            ("leases.session_dead", self.session_dead),
            ("leases.heartbeat", self.heartbeat),
        )?;
        longer(("leases.run_time", self.run_time), ("leases.ttl", self.ttl))?;
        let needed = [self.renew, self.answer, self.reconnect_max, RESERVE];
        let needed: i64 = needed.into_iter().map(LeaseDuration::micros).sum();
        if needed >= self.ttl.micros() {
            return Err(ConfigError::about(
                "leases.ttl",
                format!(
                    "{} is too short for one renewal that gets lost: it must be longer than \
                     leases.renew + leases.answer + leases.reconnect_max + {RESERVE} \
                     ({} + {} + {} + {RESERVE})",
                    self.ttl, self.renew, self.answer, self.reconnect_max
                ),
            ));
        }
        if !(1..=10).contains(&self.max_attempts) {
            return Err(ConfigError::about(
                "leases.max_attempts",
                "must be between 1 and 10",
            ));
        }
        Ok(())
    }
}

impl PriceConfig {
    fn validate(&self, service: &str) -> Result<(), ConfigError> {
        let key = |name: &str| format!("prices.\"{service}\".{name}");
        if ServiceName::parse(service).is_none() {
            let known: Vec<_> = ServiceName::ALL
                .iter()
                .map(|known| known.as_str())
                .collect();
            return Err(ConfigError::about(
                &format!("prices.\"{service}\""),
                format!("there is no such service; there are: {}", known.join(", ")),
            ));
        }
        if self.base_micros.is_some_and(|micros| micros < 0) {
            return Err(ConfigError::about(
                &key("base_micros"),
                "must not be negative",
            ));
        }
        if self.per_minute_micros.is_some_and(|micros| micros < 0) {
            return Err(ConfigError::about(
                &key("per_minute_micros"),
                "must not be negative",
            ));
        }
        let share = self.provider_share_bps;
        if share.is_some_and(|share| !(0..=10_000).contains(&share)) {
            return Err(ConfigError::about(
                &key("provider_share_bps"),
                "must be between 0 and 10000 (hundredths of a percent)",
            ));
        }
        Ok(())
    }
}

fn at_least_one(key: &str, number: usize) -> Result<(), ConfigError> {
    if number == 0 {
        return Err(ConfigError::about(key, "must be at least 1"));
    }
    Ok(())
}

fn longer(
    (long_key, long): (&str, LeaseDuration),
    (short_key, short): (&str, LeaseDuration),
) -> Result<(), ConfigError> {
    if long > short {
        return Ok(());
    }
    Err(ConfigError::about(
        long_key,
        format!("{long} must be longer than {short_key} = {short}"),
    ))
}
