//! What the verifier found out about a committed output.

/// A SHA-256 digest of an object's bytes.
pub type Sha256 = [u8; 32];

/// The verdict on the copy of an output.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Size, digest and media are right.
    Good {
        /// Duration of the output in seconds, which decides the price.
        duration_seconds: f64,
    },
    /// The bytes are as declared but the media is not what the service promises.
    MediaRejected {
        /// What is wrong, in a sentence for the buyer.
        reason: String,
    },
    /// Size or digest are not as declared.
    BytesDiffer {
        /// What differs.
        reason: String,
    },
    /// We could not read or check it.
    Trouble {
        /// What went wrong, for the operator.
        reason: String,
    },
}
