//! Asking again: what may be asked again, when, and for how long.

use std::error::Error as _;
use std::future::Future;
use std::time::{Duration, Instant};

use reqwest::header::RETRY_AFTER;
use reqwest::{Response, StatusCode};
use tokio::time::sleep;

use super::JobError;
use super::error::Problem;

const FIRST_PAUSE: Duration = Duration::from_millis(300);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Why a try gave nothing.
#[derive(Debug)]
pub(super) enum Try {
    /// Another one may.
    Again {
        why: String,
        after: Option<Duration>,
    },
    /// Another one would not.
    Final(JobError),
}

impl Try {
    /// What went wrong.
    pub(super) fn why(self) -> String {
        match self {
            Self::Again { why, .. } => why,
            Self::Final(error) => error.to_string(),
        }
    }

    /// The connection was cut, or there was none.
    pub(super) fn cut(error: &reqwest::Error) -> Self {
        // Without the address, which may be a link that is a secret; the host alone is none.
        let url = error.url();
        let host = url.and_then(|url| Some((url.host_str()?, url.port_or_known_default()?)));
        let mut why = error
            .source()
            .map_or_else(|| error.to_string(), ToString::to_string);
        let mut cause = error.source();
        while let Some(next) = cause.and_then(std::error::Error::source) {
            why = format!("{why}: {next}");
            cause = Some(next);
        }
        if let Some((host, port)) = host {
            why = format!("{host}:{port}: {why}");
        }
        Self::Again { why, after: None }
    }
}

/// How long to go on trying. Begins anew whenever something was gained.
pub(super) struct Patience {
    limit: Duration,
    since: Instant,
    pause: Duration,
}

impl Patience {
    pub(super) fn new(limit: Duration) -> Self {
        Self {
            limit,
            since: Instant::now(),
            pause: FIRST_PAUSE,
        }
    }

    /// Something was gained.
    pub(super) fn renew(&mut self) {
        *self = Self::new(self.limit);
    }

    /// Waits before the next try, or gives up.
    pub(super) async fn wait(
        &mut self,
        why: String,
        after: Option<Duration>,
    ) -> Result<(), JobError> {
        let pause = after.unwrap_or(self.pause);
        if self.since.elapsed() + pause > self.limit {
            return Err(JobError::Unreachable(why));
        }
        sleep(pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }
}

/// Tries until there is an answer or patience is over.
pub(super) async fn patiently<T, F>(
    limit: Duration,
    mut once: impl FnMut() -> F,
) -> Result<T, JobError>
where
    F: Future<Output = Result<T, Try>>,
{
    let mut patience = Patience::new(limit);
    loop {
        match once().await {
            Ok(answer) => return Ok(answer),
            Err(Try::Final(error)) => return Err(error),
            Err(Try::Again { why, after }) => patience.wait(why, after).await?,
        }
    }
}

/// The answer, if it is a success.
pub(super) async fn success(answer: Response) -> Result<Response, Try> {
    let status = answer.status();
    if status.is_success() || status == StatusCode::FOUND {
        return Ok(answer);
    }
    let after = answer.headers().get(RETRY_AFTER);
    let after = after.and_then(|seconds| seconds.to_str().ok()?.parse().ok());
    let is_temporary = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
    let body = answer.bytes().await.unwrap_or_default();
    let mut problem: Problem = serde_json::from_slice(&body).unwrap_or_default();
    problem.status = status.as_u16();
    Err(if is_temporary {
        Try::Again {
            why: problem.to_string(),
            after: after.map(Duration::from_secs),
        }
    } else {
        Try::Final(JobError::Refused(problem))
    })
}
