//! How a buyer's command can end otherwise than well.

use std::io;

use serde::Deserialize;
use serde_json::{Value, json};

/// Why a command did not do what was asked, each with its exit code.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The command does not make sense here.
    #[error("{0}")]
    Usage(String),
    /// The gateway said no.
    #[error("{0}")]
    Refused(Problem),
    /// The job failed.
    #[error("the job {id} failed: {why}")]
    Failed {
        /// The job.
        id: String,
        /// Why.
        why: String,
    },
    /// The job was cancelled.
    #[error("the job {id} was cancelled")]
    Cancelled {
        /// The job.
        id: String,
    },
    /// The gateway, or the place where a file is, does not answer or is in trouble.
    #[error("gave up trying (--patience makes it try for longer): {0}")]
    Unreachable(String),
    /// A signal came; what stands now, and what can be done.
    #[error("interrupted{0}")]
    Interrupted(String),
    /// Something on this machine, or bytes that are not what was promised.
    #[error("{0}")]
    Local(String),
    /// A file or stdout cannot be used.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl JobError {
    /// What a shell says of whom a signal ended.
    pub(in crate::cli) const INTERRUPTED: u8 = 130;

    /// The exit code.
    pub(in crate::cli) fn code(&self) -> u8 {
        match self {
            Self::Local(_) | Self::Io(_) => 1,
            Self::Usage(_) | Self::Refused(_) => 2,
            Self::Failed { .. } => 3,
            Self::Cancelled { .. } => 4,
            Self::Unreachable(_) => 5,
            Self::Interrupted(_) => Self::INTERRUPTED,
        }
    }

    /// The same for a program.
    pub(in crate::cli) fn json(&self) -> Value {
        let mut error = json!({ "message": self.to_string(), "exit_code": self.code() });
        if let Self::Refused(problem) = self {
            error["code"] = json!(problem.code);
            error["detail"] = json!(problem.detail);
            error["field"] = json!(problem.field);
            error["request_id"] = json!(problem.request_id);
        }
        error
    }
}

/// A refusal, as the gateway words it (RFC 9457).
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Problem {
    /// The HTTP status.
    #[serde(default)]
    pub status: u16,
    /// The machine-readable reason.
    pub code: Option<String>,
    /// What is wrong.
    pub detail: Option<String>,
    /// Where.
    pub field: Option<String>,
    /// By which the operators find it.
    pub request_id: Option<String>,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(field) = &self.field {
            write!(f, "{field}: ")?;
        }
        match &self.detail {
            Some(detail) => f.write_str(detail)?,
            None => write!(f, "the gateway answered {}", self.status)?,
        }
        let marks = [("", &self.code), ("request ", &self.request_id)];
        let marks: Vec<_> = marks
            .iter()
            .filter_map(|(what, mark)| Some(format!("{what}{}", mark.as_ref()?)))
            .collect();
        if marks.is_empty() {
            return Ok(());
        }
        write!(f, " ({})", marks.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_field_what_is_wrong_and_the_request() {
        let problem = Problem {
            status: 400,
            code: Some("invalid_request".to_owned()),
            detail: Some("must be even".to_owned()),
            field: Some("params.height".to_owned()),
            request_id: Some("42".to_owned()),
        };
        let error = JobError::Refused(problem);
        assert_eq!(
            error.to_string(),
            "params.height: must be even (invalid_request, request 42)"
        );
        assert_eq!(error.json()["field"], "params.height");
        let bare = Problem {
            status: 418,
            ..Problem::default()
        };
        assert_eq!(bare.to_string(), "the gateway answered 418");
    }
}
