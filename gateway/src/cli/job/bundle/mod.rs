//! `fencepost bundle manifest`: writes down what is in a folder, so that an order can say every byte of
//! it.

mod walk;

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use fencepost_domain::bundle::{BundleFile, MANIFEST_NAME, MAX_MANIFEST_BYTES, Manifest};
use fencepost_domain::field::FieldError;
use fencepost_domain::sha256;
use indicatif::ProgressBar;
use serde_json::json;

use super::JobError;
use super::file::{blocking, digest};
use super::screen::Screen;
use crate::cli::table::facts;
use walk::{Found, walk};

/// A folder with more bytes takes long enough to read for a bar.
const MANY_BYTES: u64 = 256 << 20;
/// How many of the names that were left out a person is told.
const SHOWN_NAMES: usize = 10;
/// What the buyer has to put in the place of, in the words of an order.
const PLACE: &str = "https://HOST/PATH";

const EXAMPLES: &str = "\
Examples:
  fencepost bundle manifest dist
  sha256=$(fencepost bundle manifest dist --json | jq -r .sha256)

Put the folder on a host of yours as it is, the manifest in it, and order with its address:
  fencepost job submit --service remotion.render.v1 --param composition=Main \\
      --param encode.codec=h264 --output film.mp4 \\
      --input \"bundle=https://files.example/dist/fencepost.json#sha256=$sha256\"

The digest is the manifest's: when a file changes, write it anew. Nothing is sent, and no key is needed.";

/// Inputs of many files.
#[derive(Debug, Args)]
pub(in crate::cli) struct BundleArgs {
    #[command(subcommand)]
    command: BundleCommand,
}

#[derive(Debug, Subcommand)]
enum BundleCommand {
    /// Write the manifest of a folder, and print its digest and the words to order with.
    Manifest(ManifestArgs),
}

/// The manifest of a folder.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct ManifestArgs {
    /// The folder, with index.html at its top. What begins with a dot is left out.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Where to write the manifest; without it, fencepost.json in the folder. It does not list itself.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(super) async fn run(screen: &Screen, args: &BundleArgs) -> Result<(), JobError> {
    let BundleCommand::Manifest(args) = &args.command;
    screen.leaves("no manifest was written");
    let folder = args.folder.clone();
    let out = args.out.clone();
    let out = out.unwrap_or_else(|| folder.join(MANIFEST_NAME));
    let (walked, target) = (folder.clone(), out.clone());
    let found = blocking(move || {
        let checked = check_out(&target, &walked);
        Ok(checked.and_then(|()| walk(&walked, &target)))
    });
    let found = found.await?.map_err(JobError::Usage)?;
    let manifest = read(screen, &found).await?;
    let text = manifest
        .to_json()
        .map_err(|error| JobError::Usage(error.to_string()))?;
    let (bytes, target) = (text.clone(), out.clone());
    blocking(move || write(&target, bytes.as_bytes())).await?;
    show(screen, &out, &text, (&manifest, &found))
}

/// What is there already is replaced only if it is a manifest.
fn check_out(out: &Path, listed: &Path) -> Result<(), String> {
    let shown = out.display();
    let folder = folder_of(out);
    // Of the folder that is listed, the walk has more to say.
    if folder != listed && !folder.is_dir() {
        return Err(format!("there is no folder {}", folder.display()));
    }
    let Ok(facts) = std::fs::metadata(out) else {
        return Ok(());
    };
    let is_short = facts.is_file() && facts.len() <= MAX_MANIFEST_BYTES;
    let is_manifest =
        is_short && std::fs::read(out).is_ok_and(|text| Manifest::read(&text).is_ok());
    if !is_manifest {
        return Err(format!(
            "{shown} exists already and is no manifest: name another file with --out, or remove it"
        ));
    }
    Ok(())
}

fn folder_of(file: &Path) -> &Path {
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Reads every file; the manifest of them.
async fn read(screen: &Screen, found: &Found) -> Result<Manifest, JobError> {
    let bar = if found.bytes > MANY_BYTES {
        screen.bytes_bar("reading", found.bytes)
    } else {
        ProgressBar::hidden()
    };
    let mut files = Vec::new();
    for (path, file) in &found.files {
        let (digest, size_bytes) = digest(file, &ProgressBar::hidden()).await?;
        bar.inc(size_bytes);
        files.push(BundleFile {
            path: path.clone(),
            // It is a digest, in the one way in which they are written.
            sha256: sha256::parse(&digest).unwrap_or_default(),
            size_bytes,
            url: None,
        });
    }
    bar.finish_and_clear();
    Manifest::of(files).map_err(|error| JobError::Usage(in_words_of_files(&error, found)))
}

/// A complaint of the manifest's fields, with the files that they are about.
fn in_words_of_files(error: &FieldError, found: &Found) -> String {
    let (mut field, mut problem) = (error.field.clone(), error.problem.clone());
    for (at, (path, _)) in found.files.iter().enumerate() {
        let numbered = format!("files[{at}]");
        if problem.contains(&numbered) {
            problem = problem.replace(&numbered, &format!("{path:?}"));
        }
        if field.starts_with(&numbered) {
            field = format!("{path:?}: its path");
        }
    }
    format!("{field} {problem}")
}

/// Writes it whole or not at all, for whoever serves the folder to read.
fn write(out: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = tempfile::Builder::new()
        .prefix(".fencepost-")
        .permissions(std::fs::Permissions::from_mode(0o644))
        .tempfile_in(folder_of(out))?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(out).map_err(|error| error.error)?;
    Ok(())
}

fn show(
    screen: &Screen,
    out: &Path,
    text: &str,
    (manifest, found): (&Manifest, &Found),
) -> Result<(), JobError> {
    let digest = hex::encode(<sha2::Sha256 as sha2::Digest>::digest(text));
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    let input = format!("bundle={PLACE}/{name}#sha256={digest}");
    let (files, bytes) = (manifest.files().len(), manifest.total_bytes());
    let value = json!({
        "type": "bundle_manifest",
        "file": out,
        "sha256": digest,
        "size_bytes": text.len(),
        "files": files,
        "total_bytes": bytes,
        "left_out": found.left_out,
        "input": input,
    });
    let told = facts(&[
        ("manifest", Some(out.display().to_string())),
        ("lists", Some(format!("{files} files of {bytes} bytes"))),
        ("left out", left_out(&found.left_out)),
        ("sha256", Some(digest)),
        ("order with", Some(format!("--input '{input}'"))),
        (
            "",
            Some(format!(
                "where {PLACE} is where the folder is, the manifest in it"
            )),
        ),
    ]);
    Ok(screen.result(&told, &value)?)
}

fn left_out(names: &[String]) -> Option<String> {
    if names.is_empty() {
        return None;
    }
    let shown = names[..names.len().min(SHOWN_NAMES)].join(", ");
    let more = match names.len().saturating_sub(SHOWN_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!("{shown}{more} (names with a dot in front)"))
}
