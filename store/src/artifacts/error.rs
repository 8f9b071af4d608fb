//! What can go wrong with bytes.

/// Why an object could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// There is no such object.
    #[error("there is no object {0}")]
    NotFound(String),
    /// More bytes came than may come. Nothing of them is kept.
    #[error("more than {max_bytes} bytes were sent")]
    TooLarge {
        /// The limit that was passed.
        max_bytes: u64,
    },
    /// Other than the declared number of bytes came. Nothing of them is kept.
    #[error("{declared} bytes were declared, {received} came")]
    WrongLength {
        /// What the sender said.
        declared: u64,
        /// What came.
        received: u64,
    },
    /// The sender broke off or sent something unreadable. Nothing is kept.
    #[error("the sender broke off: {0}")]
    Sender(String),
    /// The range is not within the object.
    #[error("the range is not within the object's {size_bytes} bytes")]
    OutOfRange {
        /// The object's size.
        size_bytes: u64,
    },
    /// The name cannot be one of an object.
    #[error("not an object's name: {0}")]
    BadKey(String),
    /// The store has no such request.
    #[error("the object store cannot do {0}")]
    Unsupported(&'static str),
    /// The store itself failed: disk full, permission, network.
    #[error("the object store failed: {0}")]
    Io(String),
}

impl From<object_store::Error> for ArtifactError {
    fn from(error: object_store::Error) -> Self {
        match error {
            object_store::Error::NotFound { path, .. } => Self::NotFound(path),
            object_store::Error::InvalidPath { source } => Self::BadKey(source.to_string()),
            other => Self::Io(other.to_string()),
        }
    }
}

impl From<std::io::Error> for ArtifactError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error.to_string())
    }
}

impl From<tokio::task::JoinError> for ArtifactError {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::Io(format!("reading was cut off: {error}"))
    }
}
