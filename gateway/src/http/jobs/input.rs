//! One input of an order: an upload, or what is on a host of the buyer's choice.

use std::collections::HashSet;

use fencepost_domain::bundle::MAX_MANIFEST_BYTES;
use fencepost_domain::field::FieldError;
use fencepost_domain::ids::{JobId, UploadId};
use fencepost_domain::secret_url::{MAX_URL_BYTES, MAX_URLS_BYTES, SecretUrl};
use fencepost_domain::service::InputForm;
use fencepost_domain::sha256;
use fencepost_egress::Guard;
use fencepost_store::tx::submit_job::{Elsewhere, NewInput};
use fencepost_store::vault::Vault;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use url::Url;

use crate::http::address;
use crate::http::body::Fields;

const EXAMPLE: &str = "https://files.example/film.mp4";
const BUNDLE_EXAMPLE: &str = "https://files.example/site/fencepost.json";
/// How many names are looked up at once for one order.
const LOOKUPS_AT_ONCE: usize = 8;

/// An input as it is ordered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// With us.
    Upload(UploadId),
    /// Elsewhere.
    Url(UrlInput),
}

/// What is on a host of the buyer's choice.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UrlInput {
    url: SecretUrl,
    sha256: Option<String>,
    size_bytes: Option<i64>,
}

/// Reads an input that is given in this form; nothing is asked of anybody.
pub(super) fn read(fields: Fields, form: InputForm, max_bytes: u64) -> Result<Input, FieldError> {
    match form {
        InputForm::File => read_file(fields, max_bytes),
        InputForm::Bundle => read_bundle(fields, max_bytes.min(MAX_MANIFEST_BYTES)),
    }
}

fn read_file(mut fields: Fields, max_bytes: u64) -> Result<Input, FieldError> {
    let upload = fields.optional("upload_id", "the id of an upload of your org")?;
    let expected = format!("an address like {EXAMPLE}");
    let url = fields.optional::<String>("url", &expected)?;
    let sha256 = read_sha256(&mut fields)?;
    let size_bytes = read_size(&mut fields, max_bytes)?;
    let input = match (upload, url) {
        (None, None) => {
            let problem =
                "is missing; give this, the id of an upload of your org, or url, an address";
            return Err(fields.complaint("upload_id", problem));
        }
        (Some(_), Some(_)) => {
            return Err(fields.complaint("url", "is given beside upload_id; give one of them"));
        }
        (Some(upload), None) => {
            let extra = [
                ("sha256", sha256.is_some()),
                ("size_bytes", size_bytes.is_some()),
            ];
            if let Some((name, _)) = extra.into_iter().find(|(_, is_given)| *is_given) {
                let problem = "goes with a url; what an upload holds was said when it was made";
                return Err(fields.complaint(name, problem));
            }
            Input::Upload(upload)
        }
        (None, Some(text)) => Input::Url(UrlInput {
            url: read_url(&text, EXAMPLE).map_err(|problem| fields.complaint("url", problem))?,
            sha256,
            size_bytes,
        }),
    };
    fields.finish()?;
    Ok(input)
}

/// A bundle: its manifest's address and digest, and nothing else, so that the order fixes every byte.
fn read_bundle(mut fields: Fields, max_bytes: u64) -> Result<Input, FieldError> {
    if fields.has_foreign("upload_id") {
        let problem = "is not for a bundle, which is many files; give url, the address of its manifest, and \
                       sha256, the manifest's SHA-256 (`fencepost bundle manifest` makes one and says both)";
        return Err(fields.complaint("upload_id", problem));
    }
    let expected = format!("the address of a bundle's manifest, like {BUNDLE_EXAMPLE}");
    let url: String = fields.required("url", &expected)?;
    let url = read_url(&url, BUNDLE_EXAMPLE).map_err(|problem| fields.complaint("url", problem))?;
    let Some(sha256) = read_sha256(&mut fields)? else {
        let problem = format!(
            "is missing; a bundle needs the SHA-256 of its manifest, {}, so that the order says every byte \
             of it (`fencepost bundle manifest` prints it)",
            sha256::EXPECTED
        );
        return Err(fields.complaint("sha256", problem));
    };
    let size_bytes = read_size(&mut fields, max_bytes)?;
    fields.finish()?;
    Ok(Input::Url(UrlInput {
        url,
        sha256: Some(sha256),
        size_bytes,
    }))
}

fn read_size(fields: &mut Fields, max_bytes: u64) -> Result<Option<i64>, FieldError> {
    let most = i64::try_from(max_bytes).unwrap_or(i64::MAX);
    fields.integer("size_bytes", 1..=most)
}

fn read_url(text: &str, example: &str) -> Result<SecretUrl, String> {
    let url = address::parse(text, MAX_URL_BYTES, example)?;
    if url.fragment().is_some() {
        return Err(
            "must not have a fragment (# and what follows), which no server sees".to_owned(),
        );
    }
    Ok(SecretUrl::new(url))
}

fn read_sha256(fields: &mut Fields) -> Result<Option<String>, FieldError> {
    let text = fields.optional::<String>("sha256", sha256::EXPECTED)?;
    let is_right = |text: &String| sha256::parse(text).is_some();
    if text.as_ref().is_none_or(is_right) {
        return Ok(text);
    }
    Err(fields.complaint("sha256", format!("must be {}", sha256::EXPECTED)))
}

/// Whether there is room for all addresses of one job.
pub(super) fn check_room(inputs: &[(String, Input)]) -> Result<(), FieldError> {
    let addresses = inputs.iter().filter_map(|(_, input)| input.url());
    let all: usize = addresses.map(|url| url.expose().len()).sum();
    if all <= MAX_URLS_BYTES {
        return Ok(());
    }
    let problem = format!("must have addresses of at most {MAX_URLS_BYTES} characters together");
    Err(FieldError::new("inputs", problem))
}

/// Judges every address: its form, and where its name leads now. The device that fetches it judges it
/// again.
pub(super) async fn admit<'a>(
    inputs: impl IntoIterator<Item = &'a (String, Input)>,
    guard: &Guard,
) -> Result<(), FieldError> {
    let mut seen = HashSet::new();
    let addresses = inputs.into_iter().filter_map(|(name, input)| {
        let url = Url::parse(input.url()?.expose()).ok()?;
        let is_bare = url.username().is_empty() && url.password().is_none();
        let host = (url.scheme().to_owned(), url.host_str()?.to_owned());
        // One answer is enough for all addresses of a host.
        (!is_bare || seen.insert(host)).then_some((name, url))
    });
    let addresses: Vec<_> = addresses.collect();
    let judging = addresses.into_iter().map(|(name, url)| async move {
        guard
            .admit(&url)
            .await
            .map_err(|refused| FieldError::new(format!("inputs.{name}.url"), refused.to_string()))
    });
    stream::iter(judging)
        .buffered(LOOKUPS_AT_ONCE)
        .try_collect()
        .await
}

impl Input {
    /// Its address, if it has one of its own.
    pub(super) fn url(&self) -> Option<&SecretUrl> {
        match self {
            Self::Upload(_) => None,
            Self::Url(input) => Some(&input.url),
        }
    }

    /// As it is kept with `job`, under this name.
    pub(super) fn of(self, job: JobId, name: &str, vault: &Vault) -> NewInput {
        match self {
            Self::Upload(upload) => NewInput::Upload(upload),
            Self::Url(input) => NewInput::Elsewhere(Elsewhere {
                url: vault.seal_url(job, name, &input.url),
                host: input.url.host().to_owned(),
                sha256: input.sha256,
                size_bytes: input.size_bytes,
            }),
        }
    }
}

#[cfg(test)]
#[path = "input_tests.rs"]
mod tests;
