//! Ctrl-C, TERM and a closed terminal. The first one ends the demo, which takes its things down;
//! impatient ones after it must not keep it from doing so, and are not listened to.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// From its making on, none of these signals ends the process by itself.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Resolves when the demo is to stop, also if it was told so before.
    pub(super) async fn stop(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}
