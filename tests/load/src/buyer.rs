//! Buyers: each posts one job after the other, as long as there is room under way.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fencepost_domain::ids::JobId;
use fencepost_domain::service::ServiceName;
use fencepost_store::secrets::Credential;
use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::json;

use crate::error::LoadError;
use crate::lifecycle::Board;

/// Before a job is posted again that was refused for now.
const AGAIN: Duration = Duration::from_millis(100);

/// One buyer.
pub(crate) struct Buyer {
    /// Its connections.
    pub(crate) http: reqwest::Client,
    /// Where it posts.
    pub(crate) gateway: SocketAddr,
    /// As whom.
    pub(crate) key: Credential,
    /// Jobs that are left to post, shared by all buyers.
    pub(crate) left: Arc<AtomicU64>,
    /// Where lives are noted.
    pub(crate) board: Arc<Board>,
}

#[derive(Deserialize)]
struct Posted {
    id: JobId,
}

impl Buyer {
    /// Posts until no job is left.
    pub(crate) async fn run(self) -> Result<(), LoadError> {
        let url = format!("http://{}/v1/jobs", self.gateway);
        let body = json!({ "service": ServiceName::NoopV1.as_str(), "params": {} }).to_string();
        while self.take_one() {
            self.board.wait_for_room().await;
            let job = self.post(&url, &body).await?;
            self.board.submitted(job.0, job.1);
        }
        Ok(())
    }

    fn take_one(&self) -> bool {
        let take = |left: u64| left.checked_sub(1);
        self.left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .is_ok()
    }

    /// The job, and when it was asked for.
    async fn post(&self, url: &str, body: &str) -> Result<(JobId, Instant), LoadError> {
        loop {
            let asked = Instant::now();
            let request = self.http.post(url).bearer_auth(self.key.expose());
            let request = request.header("content-type", "application/json");
            let response = request.body(body.to_owned()).send().await?;
            match response.status() {
                StatusCode::CREATED => {
                    let posted: Posted = response.json().await?;
                    return Ok((posted.id, asked));
                }
                StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                    self.board.said_again();
                    tokio::time::sleep(AGAIN).await;
                }
                status => {
                    let said = response.text().await?;
                    let what = format!("the answer to a job was {status}: {said}");
                    return Err(LoadError::Unexpected(what));
                }
            }
        }
    }
}
