//! One way to say what is wrong with a value that somebody sent us.

use std::fmt;

/// A value that breaks a rule: which one, what is wrong, and what to do instead.
///
/// `field` is a path as the sender wrote it (`params.height`, `max_attempts`), so that the answer
/// can point at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// Path of the offending field.
    pub field: String,
    /// The rule it breaks and how to meet it, as one readable sentence without the field's name.
    pub problem: String,
}

impl FieldError {
    /// A complaint about `field`.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
        }
    }

    /// The same complaint, seen from one level further out (`height` → `params.height`).
    pub fn within(self, outer: &str) -> Self {
        Self {
            field: format!("{outer}.{}", self.field),
            problem: self.problem,
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

impl std::error::Error for FieldError {}
