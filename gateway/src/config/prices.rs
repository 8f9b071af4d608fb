//! `[prices."transcode.v1"]`: what a service costs.

use fencepost_domain::ledger::PriceTerms;
use fencepost_domain::service::ServiceName;
use serde::{Deserialize, Serialize};

use super::Config;

/// The price of one service. Amounts are integer micros, a millionth of the currency unit.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PriceConfig {
    /// For starting at all.
    pub base_micros: i64,
    /// For every started minute of output.
    pub per_minute_micros: i64,
    /// The provider's part of what is captured, in hundredths of a percent.
    pub provider_share_bps: i32,
}

impl Default for PriceConfig {
    fn default() -> Self {
        Self {
            base_micros: 10_000,
            per_minute_micros: 20_000,
            provider_share_bps: 7_000,
        }
    }
}

impl Config {
    /// What a job of `service` costs that is posted now.
    pub fn price_of(&self, service: ServiceName) -> PriceTerms {
        let price = self.prices.get(service.as_str()).copied();
        let price = price.unwrap_or_default();
        PriceTerms {
            base_micros: price.base_micros,
            per_minute_micros: price.per_minute_micros,
            provider_share_bps: price.provider_share_bps,
        }
    }

    /// Whether buyers can ask for `service` here. One that is for tests exists only where it has a
    /// price of its own.
    pub fn offers(&self, service: ServiceName) -> bool {
        !service.is_for_tests() || self.prices.contains_key(service.as_str())
    }
}
