//! `[artifacts.s3]`: a bucket for the bytes.

use std::path::PathBuf;

use fencepost_domain::duration::LeaseDuration;
use fencepost_store::artifacts::BucketSettings;
use serde::{Deserialize, Serialize};
use url::{Host, Url};

use super::{ConfigError, Secret};

const MIB: u64 = 1024 * 1024;
const GIB: u64 = 1024 * MIB;
/// What S3 takes as a part that is not the last, what it takes at once, and how many parts.
const SMALLEST_PART: u64 = 5 * MIB;
const LARGEST_PART: u64 = 5 * GIB;
const MOST_PARTS: u64 = 10_000;
/// Larger objects are copied in parts; at most 5 GiB can be copied at once.
const COPY_AT_ONCE: u64 = 4 * GIB;

/// `[artifacts.s3]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct S3Config {
    /// The bucket's name. It is ours alone.
    pub bucket: Option<String>,
    /// Its region, such as `eu-central-1`.
    pub region: Option<String>,
    /// Where it is, unless it is Amazon's own: `https://s3.example.com`. Buyers and Macs must reach
    /// it too.
    pub endpoint: Option<String>,
    /// Whether the bucket's name stands in the path of addresses and not in the host name.
    pub path_style: bool,
    /// Whose requests ours are; better in the file or in `FENCEPOST_ARTIFACTS__S3__ACCESS_KEY_ID`.
    pub access_key_id: Option<Secret>,
    /// A file with the same.
    pub access_key_id_file: Option<PathBuf>,
    /// The secret that belongs to it; better in the file or in
    /// `FENCEPOST_ARTIFACTS__S3__SECRET_ACCESS_KEY`.
    pub secret_access_key: Option<Secret>,
    /// A file with the same.
    pub secret_access_key_file: Option<PathBuf>,
    /// Larger outputs are sent in parts, each of this size.
    pub part_bytes: u64,
}

impl Default for S3Config {
    fn default() -> Self {
        Self {
            bucket: None,
            region: None,
            endpoint: None,
            path_style: false,
            access_key_id: None,
            access_key_id_file: None,
            secret_access_key: None,
            secret_access_key_file: None,
            part_bytes: 64 * MIB,
        }
    }
}

impl S3Config {
    /// Checks everything but what is in files. `max_upload_bytes` is the most of one object.
    pub(super) fn validate(&self, max_upload_bytes: u64) -> Result<(), ConfigError> {
        for (key, given) in [("bucket", &self.bucket), ("region", &self.region)] {
            if given.as_deref().is_none_or(str::is_empty) {
                return Err(ConfigError::about(
                    &path(key),
                    "is needed for artifacts.kind = \"s3\"",
                ));
            }
        }
        if let Some(endpoint) = &self.endpoint {
            check_endpoint(endpoint)?;
        }
        for (key, value, file) in self.keys() {
            one_of(key, value.is_some(), file.is_some())?;
        }
        let part_bytes = self.part_bytes;
        if !(SMALLEST_PART..=LARGEST_PART).contains(&part_bytes) {
            let problem = format!("must be between {SMALLEST_PART} and {LARGEST_PART}");
            return Err(ConfigError::about(&path("part_bytes"), problem));
        }
        if max_upload_bytes.div_ceil(part_bytes) > MOST_PARTS {
            let problem = format!(
                "is too small for artifacts.max_upload_bytes = {max_upload_bytes}: an object has \
                 at most {MOST_PARTS} parts"
            );
            return Err(ConfigError::about(&path("part_bytes"), problem));
        }
        Ok(())
    }

    /// What the bucket is opened with. Links last for `grant`.
    pub fn settings(&self, grant: LeaseDuration) -> Result<BucketSettings, ConfigError> {
        let [id, secret] = self.keys().map(|(key, value, file)| {
            let secret = match (value, file) {
                (Some(secret), None) => secret.clone(),
                (None, Some(file)) => Secret::from_file(&path(&format!("{key}_file")), file)?,
                (given, both) => {
                    one_of(key, given.is_some(), both.is_some())?;
                    Secret::new("")
                }
            };
            if secret.expose().is_empty() {
                return Err(ConfigError::about(&path(key), "is empty"));
            }
            Ok(secret)
        });
        Ok(BucketSettings {
            bucket: self.bucket.clone().unwrap_or_default(),
            region: self.region.clone().unwrap_or_default(),
            endpoint: self.endpoint.clone(),
            path_style: self.path_style,
            access_key_id: id?.expose().to_owned(),
            secret_access_key: secret?.expose().to_owned(),
            link_time: grant.std(),
            part_bytes: self.part_bytes,
            copy_at_once_bytes: COPY_AT_ONCE,
        })
    }

    fn keys(&self) -> [(&'static str, Option<&Secret>, Option<&PathBuf>); 2] {
        [
            (
                "access_key_id",
                self.access_key_id.as_ref(),
                self.access_key_id_file.as_ref(),
            ),
            (
                "secret_access_key",
                self.secret_access_key.as_ref(),
                self.secret_access_key_file.as_ref(),
            ),
        ]
    }
}

fn path(key: &str) -> String {
    format!("artifacts.s3.{key}")
}

fn one_of(key: &str, given: bool, in_file: bool) -> Result<(), ConfigError> {
    let file = path(&format!("{key}_file"));
    match (given, in_file) {
        (true, true) => {
            let problem = format!("give either this or {}, not both", path(key));
            Err(ConfigError::about(&file, problem))
        }
        (false, false) => {
            let variable = format!("FENCEPOST_ARTIFACTS__S3__{}", key.to_uppercase());
            let problem = format!("is needed for artifacts.kind = \"s3\"; set it or {variable}");
            Err(ConfigError::about(&file, problem))
        }
        _ => Ok(()),
    }
}

/// Signatures travel in addresses, so plain http goes to this machine only.
fn check_endpoint(endpoint: &str) -> Result<(), ConfigError> {
    let problem = "must be like https://s3.example.com, without a path or a slash at the end; http \
                   is for a server on this machine";
    let refused = || ConfigError::about(&path("endpoint"), problem);
    let url = Url::parse(endpoint).map_err(|_| refused())?;
    let is_local = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    let is_plain = url.path() == "/"
        && url.query().is_none()
        && url.username().is_empty()
        && url.password().is_none()
        && !endpoint.ends_with('/');
    match url.scheme() {
        "https" if is_plain => Ok(()),
        "http" if is_plain && is_local => Ok(()),
        _ => Err(refused()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_key_is_refused_by_its_name() {
        let grant = LeaseDuration::seconds(900);
        let with = |id: &str, secret: &str| S3Config {
            access_key_id: Some(Secret::new(id)),
            secret_access_key: Some(Secret::new(secret)),
            ..S3Config::default()
        };
        assert!(with("id", "secret").settings(grant).is_ok());
        for (id, secret, key) in [
            ("", "secret", "artifacts.s3.access_key_id"),
            ("id", "", "artifacts.s3.secret_access_key"),
        ] {
            let refused = with(id, secret).settings(grant);
            let refused = refused.map(drop).expect_err("it is empty").to_string();
            assert!(refused.contains(key), "{refused}");
        }
    }
}
