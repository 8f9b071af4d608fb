//! `[http]` and `[admin]`: where we listen.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

/// `[http]`: the API for buyers and agents.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpConfig {
    /// Address to listen on. Port 0 picks a free one.
    pub bind: SocketAddr,
    /// How others reach us, such as `https://fencepost.example`; links begin with it. Left out:
    /// links are relative to wherever the request went.
    pub public_url: Option<String>,
    /// That a proxy in front of us speaks TLS. Without it we listen on loopback only, since tokens
    /// must not travel in clear.
    pub behind_proxy: bool,
    /// Worker threads.
    pub workers: usize,
    /// How often each org may ask this gateway, in requests a second, at least 1.
    pub requests_per_second: NonZeroU32,
    /// How many requests of an org may come at once, at least 1.
    pub request_burst: NonZeroU32,
    /// How many jobs' events are streamed at once.
    pub event_streams: usize,
    /// How many of them to one org.
    pub event_streams_per_org: usize,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            bind: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            public_url: None,
            behind_proxy: false,
            workers: 2,
            requests_per_second: NonZeroU32::MIN.saturating_add(99),
            request_burst: NonZeroU32::MIN.saturating_add(199),
            event_streams: 1_000,
            event_streams_per_org: 100,
        }
    }
}

/// `[admin]`: metrics and health, on a listener of their own.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdminConfig {
    /// Address to listen on. Port 0 picks a free one.
    pub bind: SocketAddr,
}

impl Default for AdminConfig {
    fn default() -> Self {
        Self {
            bind: SocketAddr::from((Ipv4Addr::LOCALHOST, 8081)),
        }
    }
}
