//! What can go wrong below a typed answer. A refusal is not an error: it is an answer.

/// A failed call. Nothing was changed, or (after [`StoreError::Unavailable`] alone) it is not known.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Postgres is away, overloaded or too slow. The same call may be made again.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// All connections were in use for too long; nothing was begun. Ask again in a moment.
    #[error("the database is busy or does not answer: no connection was free in time")]
    Busy,
    /// A statement failed for a reason that asking again will not mend.
    #[error("the database refused a statement: {0}")]
    Database(#[source] sqlx::Error),
    /// Rows contradict each other, or the pure check and the WHERE do. A mistake of ours.
    #[error("inconsistency in {table}: {what}")]
    Inconsistency {
        /// The table that it was noticed in.
        table: &'static str,
        /// What was expected and what was found; ids only.
        what: String,
    },
    /// The schema is not the one that this build needs.
    #[error("the database schema is {found}, this build needs {needed}: run `fencepost migrate`")]
    Schema {
        /// What is there.
        found: String,
        /// What is needed.
        needed: String,
    },
}

impl StoreError {
    /// An inconsistency in `table`.
    pub(crate) fn inconsistent(table: &'static str, what: impl Into<String>) -> Self {
        Self::Inconsistency {
            table,
            what: what.into(),
        }
    }

    /// What to do with a failed transaction.
    pub(crate) fn kind(&self) -> FailureKind {
        match self {
            Self::Unavailable(_) => FailureKind::Connection,
            Self::Busy => FailureKind::Busy,
            Self::Database(error) => classify(error),
            Self::Inconsistency { .. } | Self::Schema { .. } => FailureKind::Final,
        }
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match classify(&error) {
            FailureKind::Connection => Self::Unavailable(error.to_string()),
            FailureKind::Busy => Self::Busy,
            FailureKind::Conflict | FailureKind::Final => Self::Database(error),
        }
    }
}

/// How a failed transaction is to be treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// Postgres rolled it back because of others; the same transaction may succeed now.
    Conflict,
    /// There was no connection to begin with.
    Busy,
    /// The connection broke: before COMMIT nothing happened, at COMMIT nobody knows.
    Connection,
    /// It will fail again.
    Final,
}

/// SQLSTATEs after which the whole transaction is run again: serialization failure, deadlock, lock
/// not available, and our own "the lease expired before COMMIT" (the re-run then says so properly).
const CONFLICTS: [&str; 4] = ["40001", "40P01", "55P03", "FP001"];
/// SQLSTATEs of a server that goes away: admin shutdown, crash shutdown, cannot connect now, too
/// many connections, idle transaction timeout, out of resources.
const AWAY: [&str; 7] = [
    "57P01", "57P02", "57P03", "53300", "25P03", "53200", "57014",
];

fn classify(error: &sqlx::Error) -> FailureKind {
    match error {
        sqlx::Error::Database(error) => match error.code().as_deref() {
            Some(code) if CONFLICTS.contains(&code) => FailureKind::Conflict,
            Some(code) if AWAY.contains(&code) || code.starts_with("08") => FailureKind::Connection,
            _ => FailureKind::Final,
        },
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed => FailureKind::Connection,
        sqlx::Error::PoolTimedOut => FailureKind::Busy,
        _ => FailureKind::Final,
    }
}
