//! Objects in a bucket that speaks S3: links that the bucket itself judges, copies that no link ever
//! reached, and uploads in parts.
//!
//! A signed link cannot be taken back, so nothing that one covers is ever served: [`Bucket::seal`]
//! copies it to a key of its own first, and every try to a new one, because a request that we have
//! given up may still be carried out later.

mod ask;
mod copy;
mod parts;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fencepost_domain::disposition::attachment;
use futures_util::FutureExt as _;
use http::{HeaderName, HeaderValue, Method};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::client::{HttpClient, HttpConnector as _, ReqwestConnector};
use object_store::path::Path as ObjectPath;
use object_store::signer::{SignedUrlOptions, Signer as _};
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use url::Url;

pub use parts::OpenUpload;

use super::{ArtifactError, Direction, Grant, Holder, object_path};

/// A request that has not been answered by the time that a bucket is called unreachable.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// The longest that a transfer may stand still.
const IDLE_TIME: Duration = Duration::from_mins(2);
/// For how long our own requests are repeated. What is still in vain then is tried again by whoever
/// wants it, later.
const PATIENCE: Duration = Duration::from_secs(20);
const MOST_RETRIES: usize = 6;

/// Which bucket, and how it is reached.
#[derive(Clone)]
pub struct BucketSettings {
    /// Its name.
    pub bucket: String,
    /// Its region.
    pub region: String,
    /// Where it is, unless it is Amazon's own.
    pub endpoint: Option<String>,
    /// Whether the bucket stands in the path of an address instead of in its host name.
    pub path_style: bool,
    /// Whose requests ours are.
    pub access_key_id: String,
    /// The secret that belongs to it.
    pub secret_access_key: String,
    /// How long links last.
    pub link_time: Duration,
    /// Larger files are sent in parts, each of this size.
    pub part_bytes: u64,
    /// Larger objects are copied in parts; S3 copies at most 5 GiB at once.
    pub copy_at_once_bytes: u64,
}

impl fmt::Debug for BucketSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BucketSettings({:?}, ..)", self.bucket)
    }
}

/// A bucket. Cheap to clone.
#[derive(Clone)]
pub struct Bucket {
    objects: AmazonS3,
    http: HttpClient,
    settings: Arc<BucketSettings>,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bucket({:?}, ..)", self.settings.bucket)
    }
}

impl Bucket {
    /// A bucket by its settings. Nothing is asked of it yet.
    pub fn open(settings: BucketSettings) -> Result<Self, ArtifactError> {
        let in_clear = settings
            .endpoint
            .as_deref()
            .is_some_and(|endpoint| endpoint.starts_with("http://"));
        let client = ClientOptions::new()
            .with_allow_http(in_clear)
            .with_connect_timeout(CONNECT_TIME)
            .with_timeout_disabled()
            .with_read_timeout(IDLE_TIME);
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&settings.bucket)
            .with_region(&settings.region)
            .with_access_key_id(&settings.access_key_id)
            .with_secret_access_key(&settings.secret_access_key)
            .with_virtual_hosted_style_request(!settings.path_style)
            // One request for each object is what every server understands.
            .with_disable_bulk_delete(true)
            .with_client_options(client.clone())
            .with_retry(retries());
        if let Some(endpoint) = &settings.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        let bucket = Self {
            objects: builder.build()?,
            http: ReqwestConnector::default().connect(&client)?,
            settings: Arc::new(settings),
        };
        // Every later link differs from this one in nothing that could fail.
        bucket.sign(
            Method::GET,
            &object_path("a")?,
            Duration::from_secs(1),
            &SignedUrlOptions::default(),
        )?;
        Ok(bucket)
    }

    /// The same bucket as a plain store.
    pub(super) fn objects(&self) -> Arc<dyn ObjectStore> {
        Arc::new(self.objects.clone())
    }

    /// Files of more bytes than this are sent in parts of so many.
    pub fn part_bytes(&self) -> u64 {
        self.settings.part_bytes
    }

    /// The link that stands for `grant`. How long it lasts is our own setting: the bucket's clock
    /// is not Postgres's.
    pub(super) fn link(&self, grant: &Grant) -> Result<String, ArtifactError> {
        let method = match grant.direction {
            Direction::Get => Method::GET,
            Direction::Put => Method::PUT,
        };
        let mut options = SignedUrlOptions::default();
        if (grant.holder, grant.direction) == (Holder::Buyer, Direction::Get) {
            // Bytes of strangers: to be saved, never to be shown or run by a browser.
            options = options.with_query([
                ("response-cache-control", "private, no-store"),
                (
                    "response-content-disposition",
                    &attachment(grant.file_name.as_deref()),
                ),
                ("response-content-type", "application/octet-stream"),
            ]);
        }
        let path = object_path(&grant.key)?;
        let url = self.sign(method, &path, self.settings.link_time, &options)?;
        Ok(url.into())
    }

    /// A link to send exactly the bytes with this digest: whoever uses it must send
    /// `x-amz-checksum-sha256` with it (see [`checksum_header`]), and the bucket compares.
    pub fn link_for_bytes(&self, key: &str, sha256: &[u8; 32]) -> Result<String, ArtifactError> {
        let (name, value) = checksum_header(sha256);
        let value =
            HeaderValue::from_str(&value).map_err(|error| ArtifactError::Io(error.to_string()))?;
        let options =
            SignedUrlOptions::default().with_signed_header(HeaderName::from_static(name), value);
        let path = object_path(key)?;
        let url = self.sign(Method::PUT, &path, self.settings.link_time, &options)?;
        Ok(url.into())
    }

    fn sign(
        &self,
        method: Method,
        path: &ObjectPath,
        time: Duration,
        options: &SignedUrlOptions,
    ) -> Result<Url, ArtifactError> {
        // Our keys are given in the configuration, so there is nothing to wait for.
        let signed = self.objects.signed_url_opts(method, path, time, options);
        let signed = signed.now_or_never();
        let waits = || ArtifactError::Io("a link cannot be signed at once".to_owned());
        Ok(signed.ok_or_else(waits)??)
    }
}

/// The header that must be sent with a link for certain bytes.
pub fn checksum_header(sha256: &[u8; 32]) -> (&'static str, String) {
    use base64::Engine as _;
    let value = base64::engine::general_purpose::STANDARD.encode(sha256);
    ("x-amz-checksum-sha256", value)
}

fn retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(200),
            max_backoff: Duration::from_secs(5),
            base: 2.0,
        },
        max_retries: MOST_RETRIES,
        retry_timeout: PATIENCE,
    }
}
