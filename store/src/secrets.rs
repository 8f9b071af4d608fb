//! Secrets that are handed out once and stored as digests.

use std::fmt;

use fencepost_domain::commit_token::{CommitToken, TOKEN_BYTES};
use rand::TryRng as _;
use sha2::{Digest as _, Sha256};

/// A credential in plain text, on its way to the one who asked for it. Shows nothing in `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential(String);

impl Credential {
    /// A new credential that begins with `prefix` (such as `fp_live_`).
    pub fn mint(prefix: &str) -> Self {
        Self(format!("{prefix}{}", hex::encode(entropy::<24>())))
    }

    /// A credential that somebody presented.
    pub fn presented(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The text, to be shown once.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// How it begins, and its last four characters: enough to know it again, far too little to use.
    pub(crate) fn hint(&self) -> String {
        let kind = self.0.rfind('_').map_or("", |end| &self.0[..=end]);
        let last = self.0.len().saturating_sub(4).max(kind.len());
        format!("{kind}…{}", &self.0[last..])
    }

    /// What is stored and looked up.
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.0.as_bytes()).into()
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(..)")
    }
}

/// A new commit token.
pub(crate) fn mint_commit_token() -> CommitToken {
    CommitToken::from_entropy(entropy::<TOKEN_BYTES>())
}

/// Bytes from the operating system.
///
/// # Panics
/// When the operating system has no random numbers: then no secret may be made, and nothing that
/// needs one can go on.
pub(crate) fn entropy<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    rand::rngs::SysRng
        .try_fill_bytes(&mut bytes)
        .expect("the operating system has random numbers");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_the_kind_and_the_last_four_characters() {
        let key = Credential::mint("fp_live_");
        let last = &key.expose()[key.expose().len() - 4..];
        assert_eq!(key.hint(), format!("fp_live_…{last}"));
        assert_eq!(Credential::presented("ab").hint(), "…ab");
    }
}
