//! TERM and Ctrl-C: the first one stops in order, a second one at once.

use tokio::signal::unix::{SignalKind, signal};

/// Resolves at the first signal to stop. From then on, another one ends the process at once.
pub async fn until_told_to_stop() {
    match (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) {
        (Ok(mut terminate), Ok(mut interrupt)) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            actix_web::rt::spawn(async move {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                tracing::warn!("told to stop twice: stopping at once");
                std::process::exit(130);
            });
        }
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(%error, "signals cannot be heard: stopping");
        }
    }
}
