//! The buyer API, as far as the terminal needs it. Every call is tried again while that makes sense.

use std::time::Duration;

use fencepost_domain::ids::{JobId, UploadId};
use reqwest::header::{ACCEPT, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use url::Url;

use super::JobError;
use super::asking::{Try, patiently, success};
use super::connection::is_loopback;
use crate::config::Secret;

/// A gateway that takes longer to take a connection is not there.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// An answer in which nothing comes for so long has been cut. Longer than a stream's silences.
const SILENCE: Duration = Duration::from_secs(40);

/// A gateway, and who asks.
pub(super) struct Api {
    http: Client,
    /// For bodies that take long to send.
    patient_http: Client,
    base: Url,
    key: Secret,
    pub(super) patience: Duration,
}

/// A place for a file.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct NewUpload {
    pub(super) upload_id: UploadId,
    pub(super) url: String,
}

impl Api {
    pub(super) fn new(base: Url, key: Secret, patience: Duration) -> Result<Self, JobError> {
        let client = || {
            let client = Client::builder()
                .redirect(Policy::none())
                .connect_timeout(CONNECT_WITHIN)
                .user_agent(concat!("fencepost/", env!("CARGO_PKG_VERSION")));
            if is_loopback(&base) {
                client.no_proxy()
            } else {
                client
            }
        };
        let failed = |error: reqwest::Error| JobError::Local(error.to_string());
        Ok(Self {
            http: client().read_timeout(SILENCE).build().map_err(failed)?,
            patient_http: client().build().map_err(failed)?,
            base,
            key,
            patience,
        })
    }

    pub(super) async fn new_upload(&self, size_bytes: u64) -> Result<NewUpload, JobError> {
        let body = json!({ "size_bytes": size_bytes });
        self.json(|| self.request(Method::POST, "v1/uploads").json(&body))
            .await
    }

    /// Completes an upload; whether it is complete, or still being read.
    pub(super) async fn complete(&self, upload: UploadId) -> Result<bool, JobError> {
        let path = format!("v1/uploads/{upload}/complete");
        let request = || self.request(Method::POST, &path).json(&json!({}));
        let answer: Value = self.json(request).await?;
        Ok(answer["status"] != "reading")
    }

    /// Orders a job. The key makes another try the same job.
    pub(super) async fn submit(&self, order: &Value, key: &str) -> Result<Value, JobError> {
        let request = || {
            let request = self.request(Method::POST, "v1/jobs").json(order);
            request.header("Idempotency-Key", key)
        };
        self.json(request).await
    }

    pub(super) async fn job(&self, job: JobId) -> Result<Value, JobError> {
        self.json(|| self.request(Method::GET, &format!("v1/jobs/{job}")))
            .await
    }

    pub(super) async fn cancel(&self, job: JobId) -> Result<Value, JobError> {
        let path = format!("v1/jobs/{job}/cancel");
        self.post(&path, &json!({})).await
    }

    /// What an order would cost; what it says of the inputs named in `unsent` is not looked for.
    pub(super) async fn quote(&self, order: &Value, unsent: &[&str]) -> Result<Value, JobError> {
        let query = [("unsent", unsent.join(","))];
        let query = &query[..usize::from(!unsent.is_empty())];
        let request = || self.request(Method::POST, "v1/quotes").query(query);
        self.json(|| request().json(order)).await
    }

    pub(super) async fn get(
        &self,
        path: &str,
        query: &[(String, String)],
    ) -> Result<Value, JobError> {
        self.json(|| self.request(Method::GET, path).query(query))
            .await
    }

    /// A change that may be asked for again and again.
    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Value, JobError> {
        self.json(|| self.request(Method::POST, path).json(body))
            .await
    }

    pub(super) async fn patch(&self, path: &str, body: &Value) -> Result<Value, JobError> {
        self.json(|| self.request(Method::PATCH, path).json(body))
            .await
    }

    /// A change that is made anew each time it is asked for: not asked again when it may have been made,
    /// which `lost` says how to find out.
    pub(super) async fn post_once(
        &self,
        path: &str,
        body: &Value,
        lost: &str,
    ) -> Result<Value, JobError> {
        let maybe = |why: String| Try::Final(JobError::Unreachable(format!("{why}; {lost}")));
        patiently(self.patience, || async {
            let sent = self.request(Method::POST, path).json(body).send().await;
            let answer = match sent {
                Ok(answer) => answer,
                Err(error) if error.is_connect() => return Err(Try::cut(&error)),
                Err(error) => return Err(maybe(Try::cut(&error).why())),
            };
            let was_refused = answer.status() == StatusCode::TOO_MANY_REQUESTS;
            match success(answer).await {
                Ok(answer) => {
                    let answer = answer.json().await;
                    answer.map_err(|error| maybe(Try::cut(&error).why()))
                }
                Err(Try::Again { why, .. }) if !was_refused => Err(maybe(why)),
                Err(other) => Err(other),
            }
        })
        .await
    }

    pub(super) async fn delete(&self, path: &str) -> Result<(), JobError> {
        patiently(self.patience, || async {
            let answer = send(self.request(Method::DELETE, path)).await?;
            success(answer).await.map(drop)
        })
        .await
    }

    /// One try at a job's stream of events; `None` if its end is known already.
    pub(super) async fn events(
        &self,
        job: JobId,
        last_id: Option<&str>,
    ) -> Result<Option<Response>, Try> {
        let mut request = self.request(Method::GET, &format!("v1/jobs/{job}/events"));
        request = request.header(ACCEPT, "text/event-stream");
        if let Some(id) = last_id {
            request = request.header("Last-Event-ID", id);
        }
        let answer = success(send(request).await?).await?;
        Ok(Some(answer).filter(|answer| answer.status() != StatusCode::NO_CONTENT))
    }

    /// One try at the bytes of an output from `from` on. The key goes to the gateway, not to the link.
    pub(super) async fn output(&self, job: JobId, from: u64) -> Result<Response, Try> {
        let answer = self.request(Method::GET, &format!("v1/jobs/{job}/output"));
        let answer = success(send(answer).await?).await?;
        if answer.status() != StatusCode::FOUND {
            return Ok(answer);
        }
        let link = answer
            .headers()
            .get(LOCATION)
            .and_then(|link| link.to_str().ok());
        let link = link.and_then(|link| self.address(link).ok());
        let link = link.ok_or_else(|| {
            Try::Final(JobError::Local(
                "the gateway's link to the output is no link".to_owned(),
            ))
        })?;
        let mut request = self.http.get(link);
        if from > 0 {
            request = request.header("Range", format!("bytes={from}-"));
        }
        success(send(request).await?).await
    }

    /// A PUT to a link; not yet sent.
    pub(super) fn put(&self, link: &str) -> Result<RequestBuilder, JobError> {
        Ok(self.patient_http.put(self.address(link)?))
    }

    /// Where a link leads: absolute, or relative to the gateway.
    fn address(&self, link: &str) -> Result<Url, JobError> {
        let address = self.base.join(link).ok();
        address.ok_or_else(|| JobError::Local("the gateway's link is no link".to_owned()))
    }

    async fn json<T: DeserializeOwned>(
        &self,
        request: impl Fn() -> RequestBuilder,
    ) -> Result<T, JobError> {
        patiently(self.patience, || async {
            let answer = success(send(request()).await?).await?;
            answer.json().await.map_err(|error| Try::cut(&error))
        })
        .await
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        // The base ends with a slash and the paths are ours, so the two always make an address.
        let address = self.base.join(path).unwrap_or_else(|_| self.base.clone());
        self.http
            .request(method, address)
            .bearer_auth(self.key.expose())
    }
}

pub(super) async fn send(request: RequestBuilder) -> Result<Response, Try> {
    request.send().await.map_err(|error| Try::cut(&error))
}
