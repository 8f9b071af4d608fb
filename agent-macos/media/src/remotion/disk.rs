//! The disk beneath a browser: what a page may make it keep, and whether there is room at all.
//!
//! A file's size is limited, but a page has databases and caches of as many files as it likes, for
//! which a browser gives it a large part of whatever disk there is. And whoever got out of the page may
//! close folders to us.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::disk::{free_bytes, used_bytes};

/// How the renderer calls the folder of a browser's profile, up to what is random.
const PROFILE: &str = "puppeteer_dev_chrome_profile-";
const EVERY: Duration = Duration::from_millis(500);
/// A disk with less room than this is full.
const FULL_BYTES: u64 = 1 << 20;

/// Ends when the profiles in a folder hold more than so many bytes.
pub(super) async fn outgrown(folder: PathBuf, most: u64) {
    loop {
        tokio::time::sleep(EVERY).await;
        let folder = folder.clone();
        let held = tokio::task::spawn_blocking(move || profile_bytes(&folder));
        if held.await.is_ok_and(|held| held > most) {
            return;
        }
    }
}

/// Whether nothing more can be written below a folder.
pub(super) fn is_full(folder: &Path) -> bool {
    free_bytes(folder).is_ok_and(|free| free < FULL_BYTES)
}

/// Removes a folder, also if some in it were closed to their owner.
pub(super) fn remove(folder: &Path) -> io::Result<()> {
    fs::remove_dir_all(folder).or_else(|_| {
        open_up(folder);
        fs::remove_dir_all(folder)
    })
}

/// As far as possible; links are not followed.
fn open_up(folder: &Path) {
    // What cannot be opened is found by the second try to remove it.
    let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    for inner in folders {
        open_up(&inner.path());
    }
}

fn profile_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let profiles = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PROFILE));
    profiles.map(|entry| used_bytes(&entry.path())).sum()
}
