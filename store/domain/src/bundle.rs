//! Bundles: inputs of many files, which a manifest lists.
//!
//! An order says the SHA-256 of the manifest, and the manifest those of the files, so the order fixes
//! every byte. What may be in a manifest is decided here alone: whoever writes one, and the Mac that
//! fetches its files, read it with the same rules, so that no path of an accepted manifest leads out
//! of the folder into which its files are put.

mod path;

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::field::FieldError;
use crate::secret_url::{MAX_URL_BYTES, SecretUrl};
use crate::service::read;
use crate::sha256;
use crate::text::clean;

pub use path::{MAX_PATH_BYTES, check_path};

/// The most bytes of a manifest.
pub const MAX_MANIFEST_BYTES: u64 = 1 << 20;
/// The most files of a bundle.
pub const MAX_FILES: usize = 5_000;
/// The most folders that its files are in. They take room that no size of a file says.
pub const MAX_FOLDERS: usize = 5_000;
/// The file that every bundle has: the page that is opened.
pub const INDEX: &str = "index.html";
/// How the manifest of a folder is called that is written without another name.
pub const MANIFEST_NAME: &str = "fencepost.json";

/// The longest complaint about a manifest, in bytes.
const MAX_PROBLEM_BYTES: usize = 500;

/// A list of files that keeps all rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    files: Vec<BundleFile>,
    total_bytes: u64,
}

/// One file of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleFile {
    /// Where it is in the folder, with `/` between the names.
    pub path: String,
    /// SHA-256 of its bytes.
    pub sha256: [u8; 32],
    /// Number of its bytes, which may be none.
    pub size_bytes: u64,
    /// Where it is fetched from; without it, from beside the manifest.
    pub url: Option<SecretUrl>,
}

/// A manifest as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    files: Vec<WrittenFile>,
}

/// A file as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFile {
    path: String,
    sha256: String,
    size_bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

impl Manifest {
    /// Reads a manifest. The sum of its files' sizes is for the caller to judge.
    ///
    /// # Errors
    /// What is wrong, by its field as seen from the manifest (`files[3].path`; `manifest` for all of
    /// it). Neither field nor problem repeats an address.
    pub fn read(bytes: &[u8]) -> Result<Self, FieldError> {
        check_length(bytes.len())?;
        let value: Value = serde_json::from_slice(bytes).map_err(|error| {
            let problem = format!("is no JSON: {error}; `fencepost bundle manifest` writes one");
            FieldError::new("manifest", problem)
        })?;
        let written: Written = read::typed(&value).map_err(presentable)?;
        let files = written.files.into_iter().enumerate();
        let files: Result<Vec<_>, _> = files.map(|(at, file)| file.checked(at)).collect();
        Self::of(files?)
    }

    /// The manifest of these files.
    ///
    /// # Errors
    /// The rule that they break, by its field as seen from the manifest.
    pub fn of(files: Vec<BundleFile>) -> Result<Self, FieldError> {
        if !(1..=MAX_FILES).contains(&files.len()) {
            let problem = format!("must be 1 to {MAX_FILES} files, are {}", files.len());
            return Err(FieldError::new("files", problem));
        }
        for (at, file) in files.iter().enumerate() {
            check_path(&file.path).map_err(|problem| at_file(at, "path", problem))?;
        }
        check_places(&files)?;
        if !files.iter().any(|file| file.path == INDEX) {
            let problem = format!("must have {INDEX} at the top: it is the page that is opened");
            return Err(FieldError::new("files", problem));
        }
        let mut sizes = files.iter().map(|file| file.size_bytes);
        let total_bytes = sizes.try_fold(0_u64, u64::checked_add);
        let total_bytes = total_bytes.ok_or_else(|| {
            let problem = format!("have more than {} bytes together", u64::MAX);
            FieldError::new("files", problem)
        })?;
        Ok(Self { files, total_bytes })
    }

    /// Its files, in its own order.
    pub fn files(&self) -> &[BundleFile] {
        &self.files
    }

    /// How many bytes they have together.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// The manifest as JSON, one file in each line.
    ///
    /// # Errors
    /// If it were longer than a manifest may be.
    pub fn to_json(&self) -> Result<String, FieldError> {
        let lines = self.files.iter().map(|file| {
            let written = WrittenFile {
                path: file.path.clone(),
                sha256: hex::encode(file.sha256),
                size_bytes: file.size_bytes,
                url: file.url.as_ref().map(|url| url.expose().to_owned()),
            };
            serde_json::to_string(&written)
        });
        // Texts and numbers are always written.
        let lines: Vec<_> = lines.filter_map(Result::ok).collect();
        let text = format!("{{\"files\":[\n{}\n]}}\n", lines.join(",\n"));
        check_length(text.len())?;
        Ok(text)
    }
}

impl WrittenFile {
    fn checked(self, at: usize) -> Result<BundleFile, FieldError> {
        let digest = sha256::parse(&self.sha256).ok_or_else(|| {
            let problem = format!("must be {}", sha256::EXPECTED);
            at_file(at, "sha256", problem)
        })?;
        if let Some(url) = &self.url {
            check_url(url).map_err(|problem| at_file(at, "url", problem))?;
        }
        Ok(BundleFile {
            path: self.path,
            sha256: digest,
            size_bytes: self.size_bytes,
            url: self.url.map(SecretUrl::new),
        })
    }
}

/// No two files in one place, and none where another one needs a folder. Names that Macs take for the
/// same are the same here.
fn check_places(files: &[BundleFile]) -> Result<(), FieldError> {
    let mut places = HashMap::new();
    for (at, file) in files.iter().enumerate() {
        if let Some(other) = places.insert(path::folded(&file.path), at) {
            let problem = format!(
                "must be of one file alone, also where letters' case is ignored, as on a Mac; it is that \
                 of files[{other}] too"
            );
            return Err(at_file(at, "path", problem));
        }
    }
    let mut folders = HashSet::new();
    for (at, file) in files.iter().enumerate() {
        let folded = path::folded(&file.path);
        for (end, _) in folded.match_indices('/') {
            if !folders.insert(folded[..end].to_owned()) {
                continue;
            }
            if folders.len() > MAX_FOLDERS {
                let problem = format!("must be in at most {MAX_FOLDERS} folders");
                return Err(FieldError::new("files", problem));
            }
            if let Some(other) = places.get(&folded[..end]) {
                let problem =
                    format!("must not lead through files[{other}], which is a file and no folder");
                return Err(at_file(at, "path", problem));
            }
        }
    }
    Ok(())
}

/// Whether it looks like the address of a file. Where it leads is judged when it is fetched.
fn check_url(url: &str) -> Result<(), String> {
    let rest = url.strip_prefix("https://");
    let rest = rest.or_else(|| url.strip_prefix("http://"));
    let has_host = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['/', '?', '\\']));
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || c == '#';
    if !has_host || url.contains(is_odd) {
        return Err(
            "must be an address that begins with https://, without blanks and without a fragment (#); \
             leave it out for a file that is beside the manifest"
                .to_owned(),
        );
    }
    if url.len() > MAX_URL_BYTES {
        return Err(format!("must have at most {MAX_URL_BYTES} bytes"));
    }
    Ok(())
}

fn check_length(bytes: usize) -> Result<(), FieldError> {
    if u64::try_from(bytes).is_ok_and(|bytes| bytes <= MAX_MANIFEST_BYTES) {
        return Ok(());
    }
    let problem = format!(
        "must have at most {MAX_MANIFEST_BYTES} bytes, has {bytes}: list fewer files, or shorter paths"
    );
    Err(FieldError::new("manifest", problem))
}

fn at_file(at: usize, field: &str, problem: impl Into<String>) -> FieldError {
    FieldError::new(format!("files[{at}].{field}"), problem)
}

/// A complaint of the reader's, which may quote what it did not expect: without an address, which may
/// be a secret, and not longer than anybody reads.
fn presentable(error: FieldError) -> FieldError {
    let mut field = error.field;
    if field.is_empty() {
        "manifest".clone_into(&mut field);
    }
    let mut problem = error.problem;
    if field.contains("://") {
        "manifest".clone_into(&mut field);
    }
    if problem.contains("://") {
        "has an address where none is expected".clone_into(&mut problem);
    }
    FieldError::new(
        clean(&field, MAX_PROBLEM_BYTES),
        clean(&problem, MAX_PROBLEM_BYTES),
    )
}

#[cfg(test)]
#[path = "bundle_tests.rs"]
mod tests;
