//! A buyer: nothing but HTTP and an API key, as any program of a buyer would do it.

use std::path::Path;
use std::time::Duration;

use fencepost_domain::ids::{AttemptId, JobId, UploadId};
use reqwest::{Method, RequestBuilder, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;

use super::error::DemoError;

/// One buyer of one org.
#[derive(Debug, Clone)]
pub(super) struct Buyer {
    http: reqwest::Client,
    base: String,
    key: String,
}

/// What `GET /v1/jobs/{id}` says, as far as we look at it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Job {
    pub(super) id: JobId,
    pub(super) status: String,
    pub(super) phase: Option<String>,
    pub(super) percent: Option<f64>,
    pub(super) money: Money,
    pub(super) failure: Option<Value>,
    pub(super) output: Option<Output>,
}

/// What a job costs, in millionths of the currency unit.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Money {
    #[serde(rename = "held_micros")]
    pub(super) held: i64,
    #[serde(rename = "captured_micros")]
    pub(super) captured: i64,
    #[serde(rename = "released_micros")]
    pub(super) released: i64,
}

/// An output: its bytes' digest and number.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Output {
    pub(super) sha256: String,
    pub(super) size_bytes: u64,
}

/// One attempt of a job.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Attempt {
    pub(super) id: AttemptId,
    #[serde(rename = "attempt_number")]
    pub(super) number: i32,
    pub(super) device: Device,
    pub(super) lease_epoch: i64,
    pub(super) status: String,
    pub(super) percent: Option<f64>,
    pub(super) failure: Option<Value>,
}

/// Where an attempt runs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Device {
    pub(super) name: String,
}

#[derive(Deserialize)]
struct Upload {
    upload_id: UploadId,
    url: String,
}

#[derive(Deserialize)]
struct Attempts {
    attempts: Vec<Attempt>,
}

#[derive(Deserialize)]
struct Balance {
    available_micros: i64,
    held_micros: i64,
}

impl Buyer {
    pub(super) fn new(base: &str, key: &str) -> Result<Self, DemoError> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .connect_timeout(Duration::from_secs(5))
            .read_timeout(Duration::from_mins(1))
            .build()?;
        Ok(Self {
            http,
            base: base.to_owned(),
            key: key.to_owned(),
        })
    }

    /// Sends a file.
    pub(super) async fn upload(&self, file: &Path) -> Result<UploadId, DemoError> {
        let bytes = tokio::fs::File::open(file).await?;
        let size = bytes.metadata().await?.len();
        let body = json!({ "size_bytes": size });
        let upload: Upload = self.ask(Method::POST, "/v1/uploads", Some(body)).await?;
        let put = self.http.put(self.absolute(&upload.url));
        let put = put
            .header(reqwest::header::CONTENT_LENGTH, size)
            .body(bytes);
        expect_success("the upload", put.send().await?).await?;
        Ok(upload.upload_id)
    }

    /// Orders a transcode of an uploaded file.
    pub(super) async fn submit(
        &self,
        source: UploadId,
        params: &Value,
        max_output_seconds: u32,
    ) -> Result<Job, DemoError> {
        let order = json!({
            "service": "transcode.v1",
            "params": params,
            "inputs": { "source": { "upload_id": source } },
            "limits": { "max_output_seconds": max_output_seconds },
        });
        self.ask(Method::POST, "/v1/jobs", Some(order)).await
    }

    pub(super) async fn job(&self, job: JobId) -> Result<Job, DemoError> {
        self.ask(Method::GET, &format!("/v1/jobs/{job}"), None)
            .await
    }

    pub(super) async fn attempts(&self, job: JobId) -> Result<Vec<Attempt>, DemoError> {
        let path = format!("/v1/jobs/{job}/attempts");
        let answer: Attempts = self.ask(Method::GET, &path, None).await?;
        Ok(answer.attempts)
    }

    /// What can be spent and what is held, in micros.
    pub(super) async fn balance(&self) -> Result<(i64, i64), DemoError> {
        let balance: Balance = self.ask(Method::GET, "/v1/balance", None).await?;
        Ok((balance.available_micros, balance.held_micros))
    }

    /// Fetches the output of a job, following the link that the gateway gives, and says what came.
    pub(super) async fn download(&self, job: JobId, to: &Path) -> Result<Output, DemoError> {
        let request = self.request(Method::GET, &format!("/v1/jobs/{job}/output"));
        let mut answer = expect_success("the output", request.send().await?).await?;
        let mut file = tokio::fs::File::create(to).await?;
        let (mut digest, mut size_bytes) = (Sha256::new(), 0);
        while let Some(chunk) = answer.chunk().await? {
            file.write_all(&chunk).await?;
            digest.update(&chunk);
            size_bytes += chunk.len() as u64;
        }
        file.sync_all().await?;
        Ok(Output {
            sha256: hex::encode(digest.finalize()),
            size_bytes,
        })
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<T, DemoError> {
        let what = format!("{method} {path}");
        let mut request = self.request(method, path);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = expect_success(&what, request.send().await?).await?;
        Ok(answer.json().await?)
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http
            .request(method, self.absolute(path))
            .bearer_auth(&self.key)
    }

    fn absolute(&self, link: &str) -> String {
        if link.starts_with('/') {
            format!("{}{link}", self.base)
        } else {
            link.to_owned()
        }
    }
}

async fn expect_success(what: &str, answer: Response) -> Result<Response, DemoError> {
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let problem = answer.text().await.unwrap_or_default();
    Err(DemoError::stuck(format!(
        "{what} was answered with {status}: {problem}"
    )))
}
