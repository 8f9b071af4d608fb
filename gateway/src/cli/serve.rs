//! `fencepost serve`

use super::{CliError, Global};
use crate::app::{Gateway, until_told_to_stop};
use crate::telemetry;

pub(super) async fn serve(global: &Global) -> Result<(), CliError> {
    let config = global.load()?;
    telemetry::init_logs(&config.telemetry)?;
    run_until_stopped(Gateway::start(config).await?).await
}

/// Runs a gateway until a signal, or until a part of it fails.
pub(super) async fn run_until_stopped(mut gateway: Gateway) -> Result<(), CliError> {
    let failure = tokio::select! {
        () = until_told_to_stop() => None,
        failure = gateway.ended() => Some(failure),
    };
    match failure {
        None => {
            gateway.stop().await;
            Ok(())
        }
        Some(failure) => Err(failure.into()),
    }
}
