//! A worker that asks over HTTP with a device's token, and says only what the test says.

use fencepost_domain::ids::RequestId;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use crate::agent_client::Device;
use crate::buyer::{answer, text};
use crate::described;
use crate::gateway::{TestGateway, hex_sha256};

/// What every device of the tests can do.
pub const WORDS: [&str; 3] = ["transcode.v1", "encode.h264", "noop.v1"];

/// One worker at one gateway.
#[derive(Clone)]
pub struct Worker {
    client: reqwest::Client,
    url: String,
    token: String,
}

impl Worker {
    /// A worker of this device.
    pub fn new(gateway: &TestGateway, device: &Device) -> Self {
        Self::with_token(gateway, &device.token)
    }

    /// A worker with this token.
    pub fn with_token(gateway: &TestGateway, token: &str) -> Self {
        Self {
            client: gateway.client.clone(),
            url: gateway.url.clone(),
            token: token.to_owned(),
        }
    }

    /// A request to an address below `/v1/provider/leases`.
    pub fn request(&self, path: &str, body: &Value) -> RequestBuilder {
        let address = format!("{}/v1/provider/leases{path}", self.url);
        self.client
            .post(address)
            .bearer_auth(&self.token)
            .json(body)
    }

    /// Sends it; a status and an answer, null where there is none.
    pub async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        let response = self.request(path, body).send().await;
        let (status, answer) = read(response.expect("the gateway answers")).await;
        let address = format!("/v1/provider/leases{path}");
        described::check(&Method::POST, &address, status, &answer);
        (status, answer)
    }

    /// A claim under this id.
    pub async fn ask(&self, id: RequestId) -> (StatusCode, Value) {
        let body = json!({ "request_id": id, "capabilities": WORDS, "slots": 4 });
        self.post("", &body).await
    }

    /// A lease, which there must be.
    pub async fn claim(&self) -> Value {
        let (status, lease) = self.ask(RequestId::new()).await;
        assert_eq!(status, StatusCode::CREATED, "{lease}");
        lease
    }

    /// Says something about a lease under a new id.
    pub async fn say(&self, lease: &Value, operation: &str, what: Value) -> (StatusCode, Value) {
        let body = about(lease, RequestId::new(), what);
        self.post(&path(lease, operation), &body).await
    }

    /// The same with the lease's secret.
    pub async fn end(&self, lease: &Value, operation: &str, what: Value) -> (StatusCode, Value) {
        self.say(lease, operation, with_secret(lease, what)).await
    }

    /// Sends bytes as the output of a lease.
    pub async fn upload(&self, lease: &Value, bytes: &[u8]) {
        let (status, answer) = self
            .say(lease, "progress", json!({ "phase": "uploading" }))
            .await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        let link = text(&lease["output"]["url"]);
        let address = format!("{}{link}", self.url);
        let put = self.client.put(address).body(bytes.to_vec()).send().await;
        assert_eq!(put.expect("it answers").status(), StatusCode::CREATED);
    }
}

/// The address of an operation on a lease.
pub fn path(lease: &Value, operation: &str) -> String {
    format!("/{}/{operation}", text(&lease["attempt_id"]))
}

/// A body about a lease.
pub fn about(lease: &Value, id: RequestId, mut what: Value) -> Value {
    what["request_id"] = json!(id);
    what["job_id"] = lease["job_id"].clone();
    what["lease_epoch"] = lease["lease_epoch"].clone();
    what
}

/// The same with the lease's secret.
pub fn with_secret(lease: &Value, mut what: Value) -> Value {
    what["commit_token"] = lease["commit_token"].clone();
    what
}

/// The commit of these bytes.
pub fn output(lease: &Value, bytes: &[u8]) -> Value {
    json!({ "output": {
        "sha256": hex_sha256(bytes),
        "size_bytes": bytes.len(),
        "object_key": lease["output"]["object_key"],
    }})
}

async fn read(response: Response) -> (StatusCode, Value) {
    if response.status() == StatusCode::NO_CONTENT {
        return (StatusCode::NO_CONTENT, Value::Null);
    }
    answer(response).await
}
