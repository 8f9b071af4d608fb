//! Sockets come and go; this decides when the next one is dialled.

use std::time::Duration;

use super::{Agent, RunError};
use crate::backoff::Redial;
use crate::clock::Moment;
use crate::closing::{AfterClose, Farewell, after_close};
use crate::connection::{Connection, DialError};

/// A token that is refused this often in a row is not accepted for good. Once may be a proxy.
const UNAUTHORIZED_LIMIT: u32 = 3;

impl Agent {
    pub(super) fn dial(&mut self, wait: Duration) {
        let dialling = Connection::dial(self.session_url.clone(), self.token.clone(), wait);
        self.dialling = Some(Box::pin(dialling));
    }

    pub(super) fn on_dialled(
        &mut self,
        dialled: Result<Connection, DialError>,
        now: Moment,
    ) -> Result<(), RunError> {
        self.dialling = None;
        let error = match dialled {
            Ok(connection) => {
                self.unauthorized = 0;
                self.link = Some(connection);
                self.core.on_connected(now);
                return Ok(());
            }
            Err(error) => error,
        };
        tracing::warn!(%error, "not connected");
        self.board.now.last_error = Some(error.to_string());
        let why = match error {
            DialError::Unauthorized => {
                self.unauthorized += 1;
                if self.unauthorized >= UNAUTHORIZED_LIMIT {
                    return Err(Farewell::Unauthorized.into());
                }
                Redial::Failed
            }
            DialError::TryLater(_) => Redial::Asked,
            DialError::Outdated => {
                self.core.on_outdated();
                Redial::Asked
            }
            DialError::Unreachable(_) => Redial::Failed,
        };
        self.redial(why);
        Ok(())
    }

    /// Our latest socket has ended.
    pub(super) fn on_closed(
        &mut self,
        code: Option<u16>,
        why: &str,
        now: Moment,
    ) -> Result<(), RunError> {
        let Some(link) = self.link.take() else {
            return Ok(());
        };
        tracing::warn!(code, why, "the socket was closed");
        let opened = link.opened();
        drop(link);
        let redial = match after_close(code) {
            AfterClose::Stop(farewell) => {
                self.core.on_disconnected();
                return Err(farewell.into());
            }
            AfterClose::Redial(redial) => redial,
            AfterClose::TooLarge => {
                self.core.on_too_large();
                Redial::Broken
            }
            AfterClose::Outdated => {
                self.core.on_outdated();
                Redial::Asked
            }
        };
        let code = code
            .map(|code| format!(" with code {code}"))
            .unwrap_or_default();
        self.board.now.last_error = Some(format!("the socket was closed{code}: {why}"));
        self.after_session(opened, redial, now);
        Ok(())
    }

    pub(super) fn after_session(&mut self, opened: Moment, redial: Redial, now: Moment) {
        let welcomed = self.core.session().is_some();
        self.core.on_disconnected();
        self.writing.forget_kept_back();
        self.backoff.session_lasted(now.millis_since(opened));
        // A session that never began is no reason to hurry.
        self.redial(if welcomed { redial } else { redial.patient() });
    }

    fn redial(&mut self, why: Redial) {
        let wait = self
            .backoff
            .next(why, self.core.holding_max_ms(), rand::random());
        tracing::debug!(?wait, "dialling again");
        self.dial(wait);
    }
}
