//! `[prices."transcode.v1"]`: what a service costs.

use fencepost_domain::ledger::PriceTerms;
use fencepost_domain::service::ServiceName;
use serde::{Deserialize, Serialize};

use super::Config;

/// The price of one service. Amounts are integer micros, a millionth of the currency unit. What is
/// left out is as it usually is for that service.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PriceConfig {
    /// For starting at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_micros: Option<i64>,
    /// For every started minute of output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_minute_micros: Option<i64>,
    /// The provider's part of what is captured, in hundredths of a percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_share_bps: Option<i32>,
}

/// What a service costs where nothing else is configured: as much as the work it is.
fn usual(service: ServiceName) -> PriceTerms {
    let (base_micros, per_minute_micros) = match service {
        // A picture has no length, and neither has a list.
        ServiceName::ThumbnailV1 | ServiceName::RemotionInspectV1 => (2_000, 0),
        ServiceName::AudioMixV1 => (10_000, 5_000),
        // A browser draws every frame.
        ServiceName::RemotionRenderV1 => (20_000, 100_000),
        ServiceName::TranscodeV1
        | ServiceName::StitchExportV1
        | ServiceName::CaptionBurnV1
        | ServiceName::AssembleV1
        | ServiceName::NoopV1 => (10_000, 20_000),
    };
    PriceTerms {
        base_micros,
        per_minute_micros,
        provider_share_bps: 7_000,
    }
}

impl Config {
    /// What a job of `service` costs that is posted now.
    pub fn price_of(&self, service: ServiceName) -> PriceTerms {
        let price = self.prices.get(service.as_str()).copied();
        let (price, usual) = (price.unwrap_or_default(), usual(service));
        PriceTerms {
            base_micros: price.base_micros.unwrap_or(usual.base_micros),
            per_minute_micros: price.per_minute_micros.unwrap_or(usual.per_minute_micros),
            provider_share_bps: price.provider_share_bps.unwrap_or(usual.provider_share_bps),
        }
    }

    /// Whether buyers can ask for `service` here. One that is for tests exists only where it has a
    /// price of its own.
    pub fn offers(&self, service: ServiceName) -> bool {
        !service.is_for_tests() || self.prices.contains_key(service.as_str())
    }
}
