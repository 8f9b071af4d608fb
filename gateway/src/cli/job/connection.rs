//! Which gateway, with which key.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fencepost_domain::duration::LeaseDuration;
use url::{Host, Url};

use super::JobError;
use super::api::Api;
use crate::config::Secret;

const KEY_VARIABLE: &str = "FENCEPOST_KEY";

/// Where the gateway is, and who asks.
#[derive(Debug, Args)]
pub(super) struct Connection {
    /// The gateway.
    #[arg(
        long,
        global = true,
        env = "FENCEPOST_API",
        default_value = "http://127.0.0.1:8080",
        value_name = "URL"
    )]
    api: String,
    /// A file with the API key; without it, the key is taken from FENCEPOST_KEY.
    #[arg(long, global = true, env = "FENCEPOST_KEY_FILE", value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// How long to go on trying when the gateway, or the place where a file is, does not answer (ms,
    /// s, m, h).
    #[arg(long, global = true, default_value = "3m", value_name = "TIME")]
    patience: LeaseDuration,
}

impl Connection {
    /// A client, if the address is safe and there is a key.
    pub(super) fn open(&self) -> Result<Api, JobError> {
        let base = address(&self.api)?;
        let patience: Duration = self.patience.std();
        Api::new(base, self.key()?, patience)
    }

    fn key(&self) -> Result<Secret, JobError> {
        let text = match &self.key_file {
            Some(file) => std::fs::read_to_string(file).map_err(|error| {
                JobError::Usage(format!("the key file {}: {error}", file.display()))
            })?,
            None => std::env::var(KEY_VARIABLE).map_err(|_| {
                JobError::Usage(format!(
                    "there is no API key: set {KEY_VARIABLE}, or name a file with --key-file"
                ))
            })?,
        };
        let key = text.trim();
        let is_plain = key.bytes().all(|byte| byte.is_ascii_graphic());
        if key.is_empty() || !is_plain {
            return Err(JobError::Usage(
                "the API key is no key: it begins with fp_live_ or fp_test_".to_owned(),
            ));
        }
        Ok(Secret::new(key))
    }
}

/// An address to which a key may be sent: https, or this same machine.
fn address(text: &str) -> Result<Url, JobError> {
    let hint = "--api must be like https://fencepost.example";
    let mut url = Url::parse(text).map_err(|_| JobError::Usage(hint.to_owned()))?;
    if !url.username().is_empty() || url.password().is_some() || url.host().is_none() {
        return Err(JobError::Usage(hint.to_owned()));
    }
    match url.scheme() {
        "https" => {}
        "http" if is_loopback(&url) => {}
        "http" => {
            return Err(JobError::Usage(
                "plain http would send the API key in clear to another host: use https".to_owned(),
            ));
        }
        _ => return Err(JobError::Usage(hint.to_owned())),
    }
    if !url.path().ends_with('/') {
        url.set_path(&format!("{}/", url.path()));
    }
    url.set_query(None);
    url.set_fragment(None);
    Ok(url)
}

/// Whether it is this machine, where nobody listens in and no proxy must come between.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_sent_over_https_or_to_this_machine_alone() {
        for good in [
            "https://a.example",
            "http://127.0.0.1:8080",
            "http://localhost/x",
            "http://[::1]:1",
        ] {
            assert!(address(good).unwrap().path().ends_with('/'), "{good}");
        }
        for bad in [
            "http://a.example",
            "ftp://127.0.0.1",
            "a.example",
            "https://u:p@a.example",
            "http://127.0.0.1.example",
        ] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}
