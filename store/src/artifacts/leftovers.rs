//! Bytes that a killed process left aside.
//!
//! Several gateways may share the folder, so only what nobody can still be writing is removed: a
//! file that was last written long before a file that is written now. Both times are the file
//! system's own; no clock is asked.

use std::io;
use std::path::Path;
use std::time::Duration;

/// A transfer that is still going on writes more often than this.
const SURELY_DEAD: Duration = Duration::from_hours(24);

/// Removes what is surely left over in `folder`; how many files that were.
pub(super) fn remove(folder: &Path) -> io::Result<usize> {
    let now = tempfile::NamedTempFile::new_in(folder)?
        .as_file()
        .metadata()?
        .modified()?;
    let mut removed = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        // Another gateway may remove it, or put it in place, at the same time.
        let Ok(written) = entry.metadata().and_then(|metadata| metadata.modified()) else {
            continue;
        };
        let dead = now
            .duration_since(written)
            .is_ok_and(|age| age > SURELY_DEAD);
        if dead && std::fs::remove_file(entry.path()).is_ok() {
            removed += 1;
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_a_day_ago_goes_and_what_may_be_in_use_stays() {
        let folder = tempfile::TempDir::new().unwrap();
        for (name, hours) in [("dead", 25), ("slow", 23), ("new", 0)] {
            let file = std::fs::File::create(folder.path().join(name)).unwrap();
            let written = file.metadata().unwrap().modified().unwrap();
            file.set_modified(written - Duration::from_hours(hours))
                .unwrap();
        }
        assert_eq!(remove(folder.path()).unwrap(), 1);
        let mut left: Vec<_> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["new", "slow"]);
    }
}
