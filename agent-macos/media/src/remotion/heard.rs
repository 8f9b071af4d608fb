//! Listens to the script, and says how its run is to be taken.

use std::path::Path;

use serde_json::Value;

use super::events::{Failed, Line, Place, blame, told};
use crate::child::{Ended, Finished, LimitKind};
use crate::exit::require_success;
use crate::work::invalid;
use crate::{FailureCode, Limits, MediaFailure};

/// What is heard while a browser works.
pub(crate) trait Listener: Send {
    /// What is going to be drawn, as the bundle describes it. An error ends the work with that.
    fn composition(&mut self, described: Value) -> Result<(), MediaFailure>;
    /// So many frames are drawn.
    fn drawn(&mut self, frames: u32);
}

/// Why a session has no result.
pub(super) enum Trouble {
    /// The browser did not open: nothing of the bundle has run yet.
    Unopened(String),
    /// The work failed.
    Failed(MediaFailure),
}

impl From<MediaFailure> for Trouble {
    fn from(failure: MediaFailure) -> Self {
        Self::Failed(failure)
    }
}

/// What the script has said so far.
#[derive(Debug, Default)]
pub(super) struct Heard {
    opened: bool,
    described: bool,
    drawn: u32,
    written: u32,
    done: bool,
    failed: Option<Failed>,
    refused: Option<MediaFailure>,
}

impl Heard {
    /// Takes one line; says whether anything moved.
    pub(super) fn take(&mut self, line: &str, listener: &mut dyn Listener) -> bool {
        let Ok(line) = serde_json::from_str::<Line>(line) else {
            return false;
        };
        let drawn = line.drawn.unwrap_or(0);
        let written = line.written.unwrap_or(0);
        // Who says it again may want to say something else.
        let described = line.composition.filter(|_| !self.described);
        let has_moved = (line.opened && !self.opened)
            || described.is_some()
            || (line.done && !self.done)
            || drawn > self.drawn
            || written > self.written;
        if drawn > self.drawn {
            listener.drawn(drawn);
        }
        self.opened |= line.opened;
        self.done |= line.done;
        self.drawn = self.drawn.max(drawn);
        self.written = self.written.max(written);
        if let Some(described) = described {
            self.described = true;
            self.refused = listener.composition(described).err();
        } else if drawn > 0 && !self.described {
            // A description that was too long to be heard, or that somebody kept from us.
            self.refused = Some(invalid(
                "frames are drawn of a composition that was not described",
            ));
        }
        self.failed = line.failed.or(self.failed.take());
        has_moved
    }

    /// Whether the work is not worth going on with.
    pub(super) fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// What the script's end means, with the limits that it had and in its folder.
    pub(super) fn judge(
        mut self,
        finished: &Finished,
        (limits, folder): (&Limits, &Path),
    ) -> Result<(), Trouble> {
        if let Some(refused) = self.refused.take() {
            return Err(refused.into());
        }
        match finished.ended {
            Ended::Success if self.done => Ok(()),
            Ended::Stopped => Err(MediaFailure::Stopped.into()),
            Ended::LimitHit(
                kind @ (LimitKind::Start | LimitKind::NoProgress | LimitKind::RunTime),
            ) => Err(self.over(kind, limits)),
            _ if !self.opened => Err(self.unopened(finished, folder)),
            _ => Err(self.failure(finished, folder).into()),
        }
    }

    fn over(&self, kind: LimitKind, limits: &Limits) -> Trouble {
        let (start, frame) = (
            limits.browser_start.as_secs_f64(),
            limits.frame.as_secs_f64(),
        );
        let stalled = |what: String| {
            let message = format!("{what} within {frame} s (the limit per frame)");
            MediaFailure::new(FailureCode::Stalled, message).into()
        };
        match kind {
            LimitKind::Start => Trouble::Unopened(format!(
                "the browser did not open within {start} s (the limit of the start)"
            )),
            LimitKind::NoProgress if !self.described => {
                stalled("the bundle's page was not ready".to_owned())
            }
            LimitKind::NoProgress if self.written > 0 || self.drawn > 0 => {
                let drawn = self.drawn;
                stalled(format!("{drawn} frames were drawn, and nothing followed"))
            }
            LimitKind::NoProgress => stalled("the first frame was not drawn".to_owned()),
            LimitKind::RunTime | LimitKind::FileSize => {
                let whole = limits.run_time.as_secs_f64();
                let message = format!(
                    "{} frames were drawn, and the film was not finished within {whole} s (the limit of \
                     the whole)",
                    self.drawn
                );
                MediaFailure::new(FailureCode::RuntimeExceeded, message).into()
            }
        }
    }

    fn unopened(self, finished: &Finished, folder: &Path) -> Trouble {
        let said = match &self.failed {
            Some(failed) => &failed.message,
            None => &finished.stderr,
        };
        let failure = MediaFailure::quoting(
            FailureCode::DeviceFault,
            "the browser did not open",
            said,
            folder,
        );
        match failure {
            MediaFailure::Failed { message, .. } => Trouble::Unopened(message),
            MediaFailure::Stopped => failure.into(),
        }
    }

    fn failure(self, finished: &Finished, folder: &Path) -> MediaFailure {
        if let Some(failed) = self.failed.filter(|failed| failed.place == Place::Bundle) {
            let (what, said) = told(&failed.message);
            return MediaFailure::quoting(blame(&failed), what, &said, folder);
        }
        let failure = |what: &str| {
            let code = FailureCode::RunnerFailed;
            MediaFailure::quoting(code, what, &finished.stderr, folder)
        };
        match finished.ended {
            // The bundle has run, which can end Node and choose its last words: they blame nobody.
            Ended::Failed(status) => failure(&format!("the renderer failed (status {status})")),
            Ended::Success => failure("the renderer ended without a result"),
            _ => require_success("the renderer", finished, folder)
                .err()
                .unwrap_or_else(|| failure("the renderer failed")),
        }
    }
}
