//! Waiting for what must come true, with a limit: a demo that hangs shows nothing.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::error::DemoError;

const PAUSE: Duration = Duration::from_millis(100);

/// Asks again and again until `ask` has an answer. After `limit` the wait itself is the finding.
pub(super) async fn until<T>(
    what: &str,
    limit: Duration,
    mut ask: impl AsyncFnMut() -> Result<Option<T>, DemoError>,
) -> Result<T, DemoError> {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask().await? {
            return Ok(answer);
        }
        if began.elapsed() >= limit {
            let seconds = limit.as_secs();
            return Err(DemoError::untrue(format!(
                "waited {seconds} s in vain until {what}"
            )));
        }
        sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wait_ends_with_the_answer_or_with_what_did_not_come() {
        let mut asked = 0;
        let third = async || {
            asked += 1;
            Ok((asked == 3).then_some(asked))
        };
        assert_eq!(
            until("three", Duration::from_secs(5), third).await.unwrap(),
            3
        );
        let never = async || Ok(None::<()>);
        let error = until("pigs fly", Duration::ZERO, never).await.unwrap_err();
        assert!(error.to_string().contains("pigs fly"), "{error}");
    }
}
