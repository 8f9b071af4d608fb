//! A buyer: an HTTP client with an API key.

use fencepost_media::fixture::Clip;
use fencepost_media::{Overrides, Tools};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::described;
use crate::gateway::TestGateway;
use crate::wait::until_some;

/// One buyer at one gateway.
#[derive(Clone)]
pub struct Buyer {
    client: Client,
    url: String,
    key: String,
}

impl Buyer {
    /// A buyer with this key.
    pub fn new(gateway: &TestGateway, key: &str) -> Self {
        Self {
            client: gateway.client.clone(),
            url: gateway.url.clone(),
            key: key.to_owned(),
        }
    }

    /// The same buyer at another gateway.
    pub fn at(&self, gateway: &TestGateway) -> Self {
        Self::new(gateway, &self.key)
    }

    /// A request with the key.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let address = format!("{}{path}", self.url);
        self.client.request(method, address).bearer_auth(&self.key)
    }

    /// A POST of a body that may be no JSON at all.
    pub async fn post_raw(&self, path: &str, body: impl Into<reqwest::Body>) -> Response {
        let request = self.request(Method::POST, path);
        let request = request.header("content-type", "application/json");
        request
            .body(body)
            .send()
            .await
            .expect("the gateway answers")
    }

    /// A POST; its status and answer.
    pub async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        let (status, answer) = answer(self.post_raw(path, body.to_string()).await).await;
        described::check(&Method::POST, path, status, &answer);
        (status, answer)
    }

    /// A GET; its status and answer.
    pub async fn get(&self, path: &str) -> (StatusCode, Value) {
        let request = self.request(Method::GET, path);
        let (status, answer) = answer(request.send().await.expect("the gateway answers")).await;
        described::check(&Method::GET, path, status, &answer);
        (status, answer)
    }

    /// A new place for a file, and the link to send it to.
    pub async fn new_upload(&self, body: &Value) -> (String, String) {
        let (status, upload) = self.post("/v1/uploads", body).await;
        assert_eq!(status, StatusCode::CREATED, "{upload}");
        (text(&upload["upload_id"]), text(&upload["url"]))
    }

    /// A file, completely stored.
    pub async fn upload(&self, bytes: &[u8]) -> String {
        let (id, link) = self.new_upload(&json!({})).await;
        let request = self.client.put(self.address(&link)).body(bytes.to_vec());
        let response = request.send().await.expect("it answers");
        assert!(response.status().is_success(), "{response:?}");
        let (mut status, mut upload) = self.complete(&id).await;
        // A machine that is busy reads slowly.
        while status == StatusCode::ACCEPTED {
            (status, upload) = self.complete(&id).await;
        }
        assert_eq!(status, StatusCode::OK, "{upload}");
        id
    }

    /// Completes an upload.
    pub async fn complete(&self, upload: &str) -> (StatusCode, Value) {
        let path = format!("/v1/uploads/{upload}/complete");
        self.post(&path, &json!({})).await
    }

    /// An absolute address from a path, or from a link that is absolute already.
    fn address(&self, link: &str) -> String {
        if link.starts_with('/') {
            format!("{}{link}", self.url)
        } else {
            link.to_owned()
        }
    }

    /// A queued job of this order.
    pub async fn submit(&self, order: &Value) -> String {
        let (status, job) = self.post("/v1/jobs", order).await;
        assert_eq!(status, StatusCode::CREATED, "{job}");
        text(&job["id"])
    }

    /// A PATCH; its status and answer.
    pub async fn patch(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        let request = self.request(Method::PATCH, path).json(body);
        answer(request.send().await.expect("the gateway answers")).await
    }

    /// A webhook endpoint for all events of jobs: its id and its secret.
    pub async fn endpoint(&self, url: &str) -> (String, String) {
        let (status, made) = self
            .post("/v1/webhook-endpoints", &json!({ "url": url }))
            .await;
        assert_eq!(status, StatusCode::CREATED, "{made}");
        (text(&made["id"]), text(&made["secret"]))
    }

    /// An endpoint's deliveries, the newest first.
    pub async fn deliveries(&self, endpoint: &str) -> Vec<Value> {
        let path = format!("/v1/webhook-endpoints/{endpoint}/deliveries");
        let (status, page) = self.get(&path).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        page["deliveries"].as_array().expect("a list").clone()
    }

    /// A job that is cancelled at once, so that there is an event.
    pub async fn submit_and_cancel(&self) -> String {
        let job = self.submit_noop().await;
        let cancelled = self.cancel(&job).await;
        assert_eq!(cancelled, ("cancelled".to_owned(), true));
        job
    }

    /// A queued job that takes any bytes.
    pub async fn submit_noop(&self) -> String {
        self.submit(&json!({ "service": "noop.v1" })).await
    }

    /// A queued transcode of a small clip to H.264.
    pub async fn submit_transcode(&self) -> String {
        let upload = self.upload(clip().await).await;
        self.submit(&transcode(&upload)).await
    }

    /// A job as it is.
    pub async fn job(&self, job: &str) -> Value {
        let (status, job) = self.get(&format!("/v1/jobs/{job}")).await;
        assert_eq!(status, StatusCode::OK, "{job}");
        job
    }

    /// A job's attempts.
    pub async fn attempts(&self, job: &str) -> Vec<Value> {
        let (status, answer) = self.get(&format!("/v1/jobs/{job}/attempts")).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        answer["attempts"].as_array().expect("a list").clone()
    }

    /// Waits until a job has this status, and gives it.
    pub async fn until(&self, job: &str, wanted: &str) -> Value {
        until_some(&format!("the job to be {wanted}"), || async {
            let job = self.job(job).await;
            (job["status"] == wanted).then_some(job)
        })
        .await
    }

    /// Cancels a job: its status and whether that changed anything.
    pub async fn cancel(&self, job: &str) -> (String, bool) {
        let (status, answer) = self
            .post(&format!("/v1/jobs/{job}/cancel"), &json!({}))
            .await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        let changed = answer["changed"].as_bool().expect("a flag");
        (text(&answer["status"]), changed)
    }

    /// The link to a job's output, or the refusal's status and code.
    pub async fn output_link(&self, job: &str) -> Result<String, (StatusCode, String)> {
        let request = self.request(Method::GET, &format!("/v1/jobs/{job}/output"));
        let response = request.send().await.expect("the gateway answers");
        if response.status() != StatusCode::FOUND {
            let (status, problem) = answer(response).await;
            return Err((status, text(&problem["code"])));
        }
        let location = response.headers()["location"].to_str().expect("a text");
        Ok(location.to_owned())
    }

    /// The bytes of a job's output, which there must be.
    pub async fn download(&self, job: &str) -> Vec<u8> {
        let link = self.output_link(job).await.expect("there is an output");
        let request = self.client.get(self.address(&link));
        let response = request.send().await.expect("it answers");
        assert_eq!(response.status(), StatusCode::OK);
        response.bytes().await.expect("a body").to_vec()
    }

    /// What is available and what is held.
    pub async fn balance(&self) -> (i64, i64) {
        let (status, balance) = self.get("/v1/balance").await;
        assert_eq!(status, StatusCode::OK, "{balance}");
        let micros = |key: &str| balance[key].as_i64().expect("a number");
        (micros("available_micros"), micros("held_micros"))
    }
}

/// The order of a transcode to H.264.
pub fn transcode(upload: &str) -> Value {
    json!({
        "service": "transcode.v1",
        "params": { "codec": "h264" },
        "inputs": { "source": { "upload_id": upload } },
    })
}

/// A second of a small film, which is also a right output of a transcode to H.264.
pub async fn clip() -> &'static [u8] {
    static CLIP: OnceCell<Vec<u8>> = OnceCell::const_new();
    CLIP.get_or_init(|| film(1, 96, 64)).await
}

/// A film of so many seconds, with sound.
pub async fn film(seconds: u32, width: u32, height: u32) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("clip.mp4");
    let tools = Tools::find(&Overrides::default()).await.expect("FFmpeg");
    let clip = Clip {
        seconds,
        width,
        height,
        sound: true,
    };
    clip.write(&tools, &file).await.expect("a clip");
    std::fs::read(file).expect("a clip")
}

/// The status and JSON of an answer.
pub async fn answer(response: Response) -> (StatusCode, Value) {
    let status = response.status();
    let bytes = response.bytes().await.expect("a body");
    let value = serde_json::from_slice(&bytes)
        .unwrap_or_else(|_| panic!("no JSON: {}", String::from_utf8_lossy(&bytes)));
    times_have_one_form(&bytes);
    (status, value)
}

/// Times that we write end in `Z`, wherever they stand.
pub fn times_have_one_form(said: &[u8]) {
    let said = String::from_utf8_lossy(said);
    assert!(!said.contains("+00:00"), "a time of another form: {said}");
}

/// A text in an answer.
pub fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("no text: {value}"))
        .to_owned()
}
