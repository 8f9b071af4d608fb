//! Where the files of a bundle may be: within their folder, each in a place of its own.

use unicode_normalization::UnicodeNormalization as _;

/// The longest path of a file, in bytes.
pub const MAX_PATH_BYTES: usize = 200;

/// Whether a path is one that leads to a file within a folder. The problem does not repeat it.
///
/// # Errors
/// The rule that it breaks, and what to do, without the field's name.
pub fn check_path(path: &str) -> Result<(), String> {
    let bytes = path.len();
    if !(1..=MAX_PATH_BYTES).contains(&bytes) {
        return Err(format!(
            "must have 1 to {MAX_PATH_BYTES} bytes, has {bytes}"
        ));
    }
    if path.contains(char::is_control) {
        return Err("must have no control characters: give the file another name".to_owned());
    }
    if path.contains('\\') {
        return Err("must have no backslash: folders are written with /".to_owned());
    }
    if path.starts_with('/') {
        return Err(
            "must not begin with /: it is where the file is within the bundle's folder".to_owned(),
        );
    }
    match path
        .split('/')
        .find(|name| matches!(*name, "" | "." | ".."))
    {
        Some("") => Err("must have a name before and after each /".to_owned()),
        Some(dots) => Err(format!(
            "must not have {dots} for a name: write where the file is within the bundle's folder"
        )),
        None => Ok(()),
    }
}

/// The path in the form that is equal for all paths which a Mac's file system takes for the same: it
/// ignores letters' case, and in how many characters an accent is written.
pub(super) fn folded(path: &str) -> String {
    // Up and down again, for letters that have two small forms (ſ and s, ς and σ) or become two (ß).
    let decomposed: String = path.nfd().collect();
    let plain = decomposed.to_uppercase().to_lowercase();
    plain.nfc().collect()
}
