//! The words in which it is said what was fetched.

/// What is fetched, for the words in which it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What<'a> {
    /// An input that is one file.
    Input,
    /// The manifest of an input that is a bundle.
    Manifest,
    /// The file of a bundle that is called so, in words that can be shown.
    BundleFile(&'a str),
}

impl What<'_> {
    /// A problem of it, as a part of the input of this name.
    pub(in crate::transfer) fn says(self, input: &str, problem: &str) -> String {
        match self {
            Self::Input => format!("input {input:?}: {problem}"),
            Self::Manifest => format!("input {input:?}, its manifest: {problem}"),
            Self::BundleFile(path) => format!("input {input:?}, file {path:?}: {problem}"),
        }
    }

    /// What says of it how large it is, and its digest.
    pub(super) fn promised_by(self) -> &'static str {
        match self {
            Self::Input | Self::Manifest => "the order",
            Self::BundleFile(_) => "the manifest",
        }
    }

    /// The limit that it is above when it is larger than anybody takes it.
    pub(super) fn limit(self) -> &'static str {
        match self {
            Self::Input | Self::BundleFile(_) => "the most that an input may have here (max_bytes)",
            Self::Manifest => "the most that a manifest may have",
        }
    }
}
