//! Fetches a bundle: its manifest, as any input from a host of the buyer's choice, and then each file that
//! the manifest lists, in the same way, into a folder that was not there before.
//!
//! Nothing of a file is asked for before all of them are known to be allowed and to have room. Their paths
//! keep within the folder by the rules of [`fencepost_domain::bundle`], and places are made here, each for
//! the first time, so there is no link through which something could be written elsewhere.

mod places;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use fencepost_domain::bundle::{BundleFile, MAX_MANIFEST_BYTES, MAX_PATH_BYTES, Manifest};
use fencepost_domain::text::clean;
use fencepost_protocol::InputGrant;
use futures_util::{TryStreamExt as _, stream};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use url::Url;

use self::places::{is_about_the_name, make_places};
use super::fetch::{Fetch, OnFetched, What};
use super::{Network, StepError};

/// How many files are fetched at once: many small ones would take minutes one after the other.
const FILES_AT_ONCE: usize = 4;
/// What a path's segment has in an address besides letters and digits. All else is written as `%xx`, also
/// what could stand for itself: some hosts read a `+` as a blank.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

const INVALID: &str = "input_invalid";

/// One bundle to fetch.
pub struct Bundle<'a> {
    /// The network.
    pub network: &'a Network,
    /// What was offered: the address and the digest of the manifest.
    pub grant: &'a InputGrant,
    /// The folder that is made for its files; it must not be there.
    pub folder: &'a Path,
    /// Bytes that there is room for; none if that is not known.
    pub room: Option<u64>,
    /// Is told how far all files together are.
    pub received: OnFetched<'a>,
}

impl Bundle<'_> {
    /// Fetches all of it; gives the size of its files together, in bytes. The first file that fails ends
    /// it, and what is there by then stays, for whoever owns the place of the folder to remove.
    ///
    /// # Errors
    /// `input_invalid` if the buyer has to change something, `download_failed` if it may pass or another
    /// device has more room. A file is named by its path, never by an address.
    pub async fn run(&self) -> Result<u64, StepError> {
        let base = Url::parse(&self.grant.url);
        let base = base.map_err(|_| self.invalid("there is no address to fetch it from"))?;
        let manifest = self.manifest().await?;
        self.check_room(manifest.total_bytes())?;
        let places = self.make_places(&manifest).await?;
        let all = Tally {
            bytes: AtomicU64::new(0),
            total: manifest.total_bytes(),
            received: self.received,
        };
        let files = manifest.files().iter().zip(&places).map(Ok);
        let fetching = stream::iter(files)
            .try_for_each_concurrent(FILES_AT_ONCE, |(file, place)| {
                self.fetch(&base, (file, place), &all)
            });
        fetching.await?;
        Ok(manifest.total_bytes())
    }

    /// The manifest, which is the one that the order says.
    async fn manifest(&self) -> Result<Manifest, StepError> {
        let max_bytes = self
            .grant
            .max_bytes
            .map(|most| most.min(MAX_MANIFEST_BYTES));
        let grant = InputGrant {
            max_bytes,
            ..self.grant.clone()
        };
        let file = self.folder.with_added_extension("manifest");
        let fetch = Fetch {
            what: What::Manifest,
            network: self.network,
            grant: &grant,
            file: &file,
            room: self.room,
            received: &|_, _| (),
        };
        fetch.run().await?;
        let unreadable = |error| StepError::device("the manifest cannot be read", &error);
        let bytes = tokio::fs::read(&file).await.map_err(unreadable)?;
        // The folder is to hold what it lists, and nothing else is needed of it.
        tokio::fs::remove_file(&file).await.map_err(unreadable)?;
        Manifest::read(&bytes).map_err(|error| {
            let problem = match error.field.as_str() {
                // All of it, which is named already.
                "manifest" => error.problem,
                _ => error.to_string(),
            };
            let message = What::Manifest.says(&self.grant.name, &problem);
            StepError::failed(INVALID, message)
        })
    }

    /// Whether so many bytes may be fetched, and kept.
    fn check_room(&self, total: u64) -> Result<(), StepError> {
        let most = self.grant.max_bytes.unwrap_or(0);
        if total > most {
            return Err(self.invalid(&format!(
                "its files have {total} bytes together, and {most} are the most that an input may have here \
                 (max_bytes): leave some out, or make them smaller"
            )));
        }
        if self.room.is_some_and(|room| total > room) {
            let message = format!(
                "its files have {total} bytes together, for which there is too little room on this device"
            );
            let message = What::Input.says(&self.grant.name, &message);
            return Err(StepError::failed("download_failed", message));
        }
        Ok(())
    }

    /// Makes the folder with an empty file in the place of each that will come; gives the places.
    async fn make_places(&self, manifest: &Manifest) -> Result<Vec<PathBuf>, StepError> {
        let made = make_places(self.folder, manifest.files()).await;
        made.map_err(|(at, error)| {
            let file = at.and_then(|at| manifest.files().get(at));
            match file {
                Some(file) if is_about_the_name(&error) => {
                    let problem = format!(
                        "a file of this name cannot be kept beside the others ({error}): give it another one"
                    );
                    self.invalid_file(file, &problem)
                }
                _ => StepError::device("the bundle cannot be kept", &error),
            }
        })
    }

    /// Fetches one file into its place.
    async fn fetch(
        &self,
        base: &Url,
        (file, place): (&BundleFile, &Path),
        all: &Tally<'_>,
    ) -> Result<(), StepError> {
        let grant = InputGrant {
            name: self.grant.name.clone(),
            url: address(base, file),
            sha256: Some(hex::encode(file.sha256)),
            size_bytes: Some(file.size_bytes),
            max_bytes: self.grant.max_bytes,
        };
        let before = AtomicU64::new(0);
        let fetch = Fetch {
            what: What::BundleFile(&shown(file)),
            network: self.network,
            grant: &grant,
            file: place,
            room: self.room,
            received: &|bytes, _| all.note(&before, bytes),
        };
        fetch.run().await.map(|_| ())
    }

    fn invalid(&self, problem: &str) -> StepError {
        StepError::failed(INVALID, What::Input.says(&self.grant.name, problem))
    }

    fn invalid_file(&self, file: &BundleFile, problem: &str) -> StepError {
        let what = What::BundleFile(&shown(file));
        StepError::failed(INVALID, what.says(&self.grant.name, problem))
    }
}

/// How much there is of all files.
struct Tally<'a> {
    bytes: AtomicU64,
    total: u64,
    received: OnFetched<'a>,
}

impl Tally<'_> {
    /// A file of which there were `before` bytes has so many now; fewer, if it was begun anew.
    fn note(&self, before: &AtomicU64, bytes: u64) {
        let more = bytes.wrapping_sub(before.swap(bytes, Ordering::Relaxed));
        let was = self.bytes.fetch_add(more, Ordering::Relaxed);
        (self.received)(was.wrapping_add(more), Some(self.total));
    }
}

/// Where a file is fetched from: where the manifest says, or beside the manifest. What is asked of the
/// manifest (`?…`) may be a signature of it alone, and is asked of no other file.
fn address(base: &Url, file: &BundleFile) -> String {
    if let Some(url) = &file.url {
        return url.expose().to_owned();
    }
    let folder = base
        .path()
        .rsplit_once('/')
        .map_or("", |(folder, _)| folder);
    let names = file.path.split('/');
    let names: Vec<_> = names
        .map(|name| utf8_percent_encode(name, SEGMENT).to_string())
        .collect();
    let mut url = base.clone();
    url.set_query(None);
    url.set_fragment(None);
    url.set_path(&format!("{folder}/{}", names.join("/")));
    url.into()
}

/// The path of a file, for a message.
fn shown(file: &BundleFile) -> String {
    clean(&file.path, MAX_PATH_BYTES)
}

#[cfg(test)]
pub(crate) mod tests {
    use fencepost_domain::secret_url::SecretUrl;

    use super::*;

    pub(crate) fn file(path: impl Into<String>, url: Option<&str>) -> BundleFile {
        BundleFile {
            path: path.into(),
            sha256: [0; 32],
            size_bytes: 0,
            url: url.map(SecretUrl::new),
        }
    }

    fn at(base: &str, path: &str, url: Option<&str>) -> String {
        address(&Url::parse(base).unwrap(), &file(path, url))
    }

    #[test]
    fn a_file_is_beside_its_manifest_under_its_own_name() {
        let base = "https://files.example/site/v1/fencepost.json?sig=s3cret#x";
        for (path, expected) in [
            ("index.html", "https://files.example/site/v1/index.html"),
            ("a/b-c_d~e.js", "https://files.example/site/v1/a/b-c_d~e.js"),
            ("a b+c", "https://files.example/site/v1/a%20b%2Bc"),
            ("a?b#c", "https://files.example/site/v1/a%3Fb%23c"),
            ("%2e%2e/x", "https://files.example/site/v1/%252e%252e/x"),
            ("ä/;:@", "https://files.example/site/v1/%C3%A4/%3B%3A%40"),
            ("...", "https://files.example/site/v1/..."),
        ] {
            assert_eq!(at(base, path, None), expected);
        }
        assert_eq!(at("https://x.example", "a", None), "https://x.example/a");
        assert_eq!(
            at("https://x.example/b/", "a", None),
            "https://x.example/b/a"
        );
        assert_eq!(
            at("https://x.example/%2F/m", "a", None),
            "https://x.example/%2F/a"
        );
        let elsewhere = "https://other.example/a?sig=1";
        assert_eq!(at(base, "a", Some(elsewhere)), elsewhere);
    }
}
