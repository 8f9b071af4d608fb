//! The places of a bundle's files, each made here for the first time.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use fencepost_domain::bundle::BundleFile;
use rustix::io::Errno;

/// How many empty files are made before something else may go on.
const PLACES_AT_ONCE: usize = 16;

/// Makes a private folder with empty files, none of which was there before. Says with an error which file
/// it was.
///
/// Not in a thread of its own, which would go on making files after the end of the lease, while the folder
/// around them is removed.
pub(super) async fn make_places(
    folder: &Path,
    files: &[BundleFile],
) -> Result<Vec<PathBuf>, (Option<usize>, io::Error)> {
    let mut private = DirBuilder::new();
    private.mode(0o700);
    private.create(folder).map_err(|error| (None, error))?;
    private.recursive(true);
    let mut places = Vec::new();
    for (at, file) in files.iter().enumerate() {
        if at % PLACES_AT_ONCE == 0 {
            tokio::task::yield_now().await;
        }
        let place = folder.join(&file.path);
        let outer = place.parent().map_or(Ok(()), |outer| private.create(outer));
        let made =
            outer.and_then(|()| OpenOptions::new().write(true).create_new(true).open(&place));
        made.map_err(|error| (Some(at), error))?;
        places.push(place);
    }
    Ok(places)
}

/// Whether it is the name that the file system does not take, which no other device would take either.
pub(super) fn is_about_the_name(error: &io::Error) -> bool {
    let kinds = [
        io::ErrorKind::AlreadyExists,
        io::ErrorKind::NotADirectory,
        io::ErrorKind::InvalidFilename,
        io::ErrorKind::InvalidInput,
    ];
    kinds.contains(&error.kind()) || Errno::from_io_error(error) == Some(Errno::ILSEQ)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::super::tests::file;
    use super::*;

    #[tokio::test]
    async fn places_are_private_and_made_once() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("bundle");
        let paths = ["index.html", "a/b/c", "a/d"];
        let files = paths.map(|path| file(path, None));
        let places = make_places(&folder, &files).await.unwrap();
        assert_eq!(places, paths.map(|path| folder.join(path)));
        for made in [&folder, &folder.join("a"), &folder.join("a/b")] {
            let mode = std::fs::metadata(made).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{}", made.display());
        }
        let (at, error) = make_places(&folder, &[]).await.unwrap_err();
        assert_eq!((at, error.kind()), (None, io::ErrorKind::AlreadyExists));
        let twice = ["b", "b"].map(|path| file(path, None));
        let made = make_places(&temp.path().join("other"), &twice).await;
        let (at, error) = made.unwrap_err();
        assert!(at == Some(1) && is_about_the_name(&error), "{at:?} {error}");
    }

    #[tokio::test]
    async fn no_place_is_made_after_the_end_of_the_lease() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("bundle");
        let files: Vec<_> = (0..2_000).map(|n| file(n.to_string(), None)).collect();
        let mut polls = 0;
        {
            let making = make_places(&folder, &files);
            tokio::pin!(making);
            while polls < 3 {
                tokio::select! {
                    biased;
                    made = &mut making => panic!("all at once: {made:?}"),
                    () = tokio::task::yield_now() => polls += 1,
                }
            }
        }
        let made = || std::fs::read_dir(&folder).unwrap().count();
        let at_the_end = made();
        assert!((1..files.len()).contains(&at_the_end), "{at_the_end}");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        assert_eq!(made(), at_the_end);
    }

    #[tokio::test]
    async fn nothing_is_written_through_a_link() {
        let temp = tempfile::tempdir().unwrap();
        let (target, link) = (temp.path().join("target"), temp.path().join("link"));
        std::fs::write(&target, "kept").unwrap();
        symlink(&target, &link).unwrap();
        assert!(make_places(&link, &[]).await.is_err());
        assert_eq!(std::fs::read(&target).unwrap(), b"kept");
    }
}
