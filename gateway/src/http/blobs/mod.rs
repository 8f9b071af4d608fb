//! `/v1/blobs/{link}`: the bytes behind signed links, streamed both ways.

pub(super) mod get;
pub(super) mod put;
mod range;

use std::time::Duration;

use fencepost_store::artifacts::{ArtifactError, Direction, Grant, Holder, Links};

use super::problem::{Problem, ProblemCode};
use super::state::AppState;

/// Opens a link for one direction. Whether it has expired is judged by Postgres's clock, now that
/// the transfer starts; how long the transfer then takes does not matter.
async fn open(state: &AppState, link: &str, direction: Direction) -> Result<Grant, Problem> {
    let invalid = || Problem::new(ProblemCode::LinkInvalid, "the link was not made by us");
    let Links::Gateway(signer) = &state.links else {
        return Err(invalid());
    };
    let grant = signer.open(link).map_err(|_| invalid())?;
    if grant.direction != direction {
        let detail = "the link is for the other direction";
        return Err(Problem::new(ProblemCode::LinkInvalid, detail));
    }
    let clock = state.actors.shared().clock.call(()).await?;
    if let (Holder::Attempt(_), Direction::Put, Some(by)) =
        (grant.holder, direction, clock.regressed_by())
    {
        return Err(clock_regressed(by));
    }
    if grant.is_expired(clock.now) {
        let detail = "the link has expired: ask for a new one";
        return Err(Problem::new(ProblemCode::LinkExpired, detail));
    }
    Ok(grant)
}

/// The clock is behind its mark, so it is not known whether an attempt may still write.
fn clock_regressed(by: Duration) -> Problem {
    let detail = "the clock has gone back: send the bytes again when it has caught up";
    Problem::new(ProblemCode::ClockRegressed, detail).after(by)
}

/// What went wrong with bytes, as an answer.
pub(super) fn refuse(error: &ArtifactError) -> Problem {
    let (code, detail) = match error {
        ArtifactError::NotFound(_) => (
            ProblemCode::NotFound,
            "there are no bytes behind this link".to_owned(),
        ),
        ArtifactError::TooLarge { .. } => (ProblemCode::TooLarge, error.to_string()),
        ArtifactError::WrongLength { .. } => (ProblemCode::LengthMismatch, error.to_string()),
        ArtifactError::Sender(_) => (ProblemCode::BrokenOff, error.to_string()),
        ArtifactError::OutOfRange { .. } => (ProblemCode::RangeNotSatisfiable, error.to_string()),
        ArtifactError::BadKey(_) => (
            ProblemCode::LinkInvalid,
            "the link names no object".to_owned(),
        ),
        ArtifactError::Io(_) | ArtifactError::Unsupported(_) => {
            tracing::error!(%error, "the object store failed");
            return Problem::new(
                ProblemCode::Unavailable,
                "the bytes cannot be reached; ask again",
            );
        }
    };
    Problem::new(code, detail)
}
