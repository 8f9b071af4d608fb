//! Waiting for a condition, never for a time.

use std::future::Future;
use std::time::{Duration, Instant};

/// How long a test waits for what must come. Far more than it takes, so that a busy machine fails
/// no test.
pub const PATIENCE: Duration = Duration::from_mins(1);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Looks until there is something to see, and gives it.
pub async fn until_some<T, F>(what: &str, look: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    until_some_within(PATIENCE, what, look).await
}

/// The same with another patience, for what takes long by itself.
pub async fn until_some_within<T, F>(
    patience: Duration,
    what: &str,
    mut look: impl FnMut() -> F,
) -> T
where
    F: Future<Output = Option<T>>,
{
    let deadline = Instant::now() + patience;
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(Instant::now() < deadline, "waited in vain for: {what}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Looks until it is so.
pub async fn until<F: Future<Output = bool>>(what: &str, mut look: impl FnMut() -> F) {
    until_some(what, || {
        let looking = look();
        async move { looking.await.then_some(()) }
    })
    .await;
}
