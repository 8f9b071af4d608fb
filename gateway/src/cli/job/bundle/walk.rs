//! Finds the files of a folder that a manifest can list, and says which one it cannot.

use std::fs;
use std::path::{Path, PathBuf};

use fencepost_domain::bundle::{INDEX, MAX_FILES, check_path};

/// What is in a folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// The files by their paths in a manifest, in the order of these.
    pub(super) files: Vec<(String, PathBuf)>,
    /// How many bytes they have together.
    pub(super) bytes: u64,
    /// What was left out, because its name begins with a dot.
    pub(super) left_out: Vec<String>,
}

/// Everything in `folder` but `manifest`, which is being written, and what begins with a dot.
///
/// # Errors
/// Which file cannot be listed, why, and what to do.
pub(super) fn walk(folder: &Path, manifest: &Path) -> Result<Found, String> {
    let shown = folder.display();
    let root = folder.canonicalize();
    let root = root.map_err(|error| format!("{shown} cannot be read: {error}"))?;
    if !root.is_dir() {
        return Err(format!(
            "{shown} is no folder: name the one with {INDEX} in it"
        ));
    }
    let mut walk = Walk {
        manifest: in_full(manifest),
        root: &root,
        found: Found::default(),
    };
    walk.enter(&root, "", std::slice::from_ref(&root))?;
    let mut found = walk.found;
    if !found.files.iter().any(|(path, _)| path == INDEX) {
        return Err(format!(
            "{shown} has no {INDEX} at its top, the page that is opened: name the folder that a bundler wrote"
        ));
    }
    found.files.sort();
    found.left_out.sort();
    Ok(found)
}

/// A file's address on this machine, also if it is not there yet.
fn in_full(file: &Path) -> Option<PathBuf> {
    let folder = super::folder_of(file).canonicalize().ok()?;
    Some(folder.join(file.file_name()?))
}

struct Walk<'a> {
    root: &'a Path,
    manifest: Option<PathBuf>,
    found: Found,
}

impl Walk<'_> {
    /// Goes through a folder, whose path in the manifest is `path`; `around` are the folders that it is in
    /// and itself, so that a link to one of them is not followed for ever.
    fn enter(&mut self, folder: &Path, path: &str, around: &[PathBuf]) -> Result<(), String> {
        let unreadable = |error| format!("{} cannot be read: {error}", folder.display());
        let entries = fs::read_dir(folder).map_err(unreadable)?;
        for entry in entries {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name();
            let name = name.to_str().ok_or_else(|| {
                let shown = entry.path();
                let shown = shown.display();
                format!("{shown} has a name that is no text (UTF-8): give it another one")
            })?;
            let path = match path {
                "" => name.to_owned(),
                outer => format!("{outer}/{name}"),
            };
            if name.starts_with('.') {
                self.found.left_out.push(path);
            } else if self.manifest.as_deref() != Some(&entry.path()) {
                self.take(&entry.path(), path, around)?;
            }
        }
        Ok(())
    }

    fn take(&mut self, place: &Path, path: String, around: &[PathBuf]) -> Result<(), String> {
        check_path(&path).map_err(|problem| format!("{path:?}: its path {problem}"))?;
        let real = place.canonicalize();
        let real = real.map_err(|error| format!("{path:?} leads nowhere: {error}"))?;
        if !real.starts_with(self.root) {
            return Err(format!(
                "{path:?} is a link that leads out of the folder: put a copy of the file in its place"
            ));
        }
        if self.manifest.as_deref() == Some(&real) {
            return Err(format!(
                "{path:?} is a link to the manifest, which cannot list itself: remove it"
            ));
        }
        let facts = fs::metadata(&real).map_err(|error| format!("{path:?}: {error}"))?;
        if facts.is_dir() {
            if around.contains(&real) {
                return Err(format!(
                    "{path:?} is a link to a folder that it is in, which would never end: remove it"
                ));
            }
            let within = [around, std::slice::from_ref(&real)].concat();
            return self.enter(&real, &path, &within);
        }
        if !facts.is_file() {
            return Err(format!(
                "{path:?} is neither a file nor a folder: remove it"
            ));
        }
        if self.found.files.len() == MAX_FILES {
            return Err(format!(
                "the folder has more than {MAX_FILES} files, the most of a bundle: leave some out, or pack \
                 them together"
            ));
        }
        self.found.bytes = self.found.bytes.saturating_add(facts.len());
        self.found.files.push((path, real));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(INDEX), "<!doctype html>").unwrap();
        folder
    }

    fn put(folder: &Path, path: &str) {
        let file = folder.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, path).unwrap();
    }

    fn walked(folder: &Path) -> Result<Found, String> {
        walk(folder, &folder.join("fencepost.json"))
    }

    fn paths(found: &Found) -> Vec<&str> {
        found.files.iter().map(|(path, _)| path.as_str()).collect()
    }

    #[test]
    fn everything_is_listed_but_the_manifest_and_what_begins_with_a_dot() {
        let temp = folder();
        for path in [
            "js/main.js",
            "js/main.js.map",
            "empty/deep/a",
            "fencepost.json",
            "js/fencepost.json",
            ".git/a",
            "js/.DS_Store",
            "ä b",
        ] {
            put(temp.path(), path);
        }
        symlink("main.js", temp.path().join("js/alias.js")).unwrap();
        symlink("js", temp.path().join("again")).unwrap();
        let found = walked(temp.path()).unwrap();
        let expected = [
            "again/alias.js",
            "again/fencepost.json",
            "again/main.js",
            "again/main.js.map",
            "empty/deep/a",
            INDEX,
            "js/alias.js",
            "js/fencepost.json",
            "js/main.js",
            "js/main.js.map",
            "ä b",
        ];
        assert_eq!(paths(&found), expected);
        assert_eq!(found.left_out, [".git", "again/.DS_Store", "js/.DS_Store"]);
        let bytes: u64 = found
            .files
            .iter()
            .map(|(_, file)| fs::metadata(file).unwrap().len())
            .sum();
        assert_eq!(found.bytes, bytes);
        // Written elsewhere, there is nothing in the folder that is the manifest.
        let elsewhere = walk(temp.path(), Path::new("fencepost.json")).unwrap();
        assert_eq!(elsewhere.files.len(), found.files.len() + 1);
    }

    /// A name, what makes something in its place, and what is said of it.
    type Odd<'a> = (&'a str, &'a dyn Fn(&Path), &'a str);

    #[test]
    fn what_cannot_be_listed_is_named() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "x").unwrap();
        let odd: [Odd<'_>; 8] = [
            (
                "out.js",
                &|path| symlink(outside.path().join("secret"), path).unwrap(),
                "leads out",
            ),
            (
                "out",
                &|path| symlink(outside.path(), path).unwrap(),
                "leads out",
            ),
            (
                "self.json",
                &|path| {
                    fs::write(path.with_file_name("fencepost.json"), "{}").unwrap();
                    symlink("fencepost.json", path).unwrap();
                },
                "cannot list itself",
            ),
            (
                "gone.js",
                &|path| symlink("nowhere", path).unwrap(),
                "leads nowhere",
            ),
            ("loop", &|path| symlink(".", path).unwrap(), "never end"),
            (
                "a\\\\b.js",
                &|path| fs::write(path.with_file_name("a\\b.js"), "").unwrap(),
                "backslash",
            ),
            (
                "a\\nb.js",
                &|path| fs::write(path.with_file_name("a\nb.js"), "").unwrap(),
                "control",
            ),
            (
                "pipe",
                &|path| drop(std::os::unix::net::UnixListener::bind(path).unwrap()),
                "neither a file nor a folder",
            ),
        ];
        for (name, make, says) in odd {
            let temp = folder();
            make(&temp.path().join(name));
            let refused = walked(temp.path()).unwrap_err();
            assert!(refused.contains(says), "{name}: {refused}");
            assert!(
                refused.starts_with(&format!("\"{name}\"")),
                "{name}: {refused}"
            );
        }
    }

    #[test]
    fn a_folder_is_one_with_a_page_and_not_too_many_files() {
        let temp = folder();
        for number in 1..MAX_FILES {
            fs::write(temp.path().join(number.to_string()), "").unwrap();
        }
        assert_eq!(walked(temp.path()).unwrap().files.len(), MAX_FILES);
        fs::write(temp.path().join("more"), "").unwrap();
        let refused = walked(temp.path()).unwrap_err();
        assert!(refused.contains("more than 5000 files"), "{refused}");
        let page = temp.path().join(INDEX);
        let refused = walked(&page).unwrap_err();
        assert!(refused.contains("is no folder"), "{refused}");
        fs::remove_file(page).unwrap();
        let refused = walked(temp.path()).unwrap_err();
        assert!(refused.contains("no index.html at its top"), "{refused}");
        assert!(walked(&temp.path().join("nowhere")).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_name_that_is_no_text_is_refused() {
        use std::os::unix::ffi::OsStrExt as _;
        let temp = folder();
        let name = std::ffi::OsStr::from_bytes(b"a\xff.js");
        fs::write(temp.path().join(name), "").unwrap();
        let refused = walked(temp.path()).unwrap_err();
        assert!(refused.contains("no text (UTF-8)"), "{refused}");
    }
}
