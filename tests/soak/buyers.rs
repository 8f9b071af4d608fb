//! Buyers who post jobs and cancel some of them, and who take no for an answer: the gateway that they
//! ask may just have been killed.

use std::time::Duration;

use fencepost_tests::buyer::{clip, transcode};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::World;
use fencepost_tests::chance::Chance;

/// Longer than an answer takes.
const PATIENCE: Duration = Duration::from_secs(8);

/// One buyer.
pub(crate) struct Buyer {
    client: Client,
    ports: Vec<u16>,
    key: String,
    chance: Chance,
}

impl Buyer {
    /// A buyer at all gateways.
    pub(crate) fn new(world: &World, chance: Chance) -> Self {
        let client = Client::builder().timeout(PATIENCE).build();
        Self {
            client: client.expect("a client"),
            ports: world.ports(),
            key: world.stage.api_key.clone(),
            chance,
        }
    }

    fn request(&mut self, method: Method, path: &str) -> RequestBuilder {
        let port = self.ports[self.chance.below(self.ports.len())];
        let address = format!("http://127.0.0.1:{port}{path}");
        self.client.request(method, address).bearer_auth(&self.key)
    }

    /// A POST's answer, if there was a good one.
    async fn post(&mut self, path: &str, body: &Value) -> Option<Value> {
        let response = self
            .request(Method::POST, path)
            .json(body)
            .send()
            .await
            .ok()?;
        if !response.status().is_success() {
            return None;
        }
        response.json().await.ok()
    }

    /// An uploaded clip, however long it takes.
    async fn upload(&mut self) -> String {
        let bytes = clip().await;
        loop {
            if let Some(upload) = self.post("/v1/uploads", &json!({})).await
                && let (Some(id), Some(link)) =
                    (upload["upload_id"].as_str(), upload["url"].as_str())
                && let Ok(stored) = self.request(Method::PUT, link).body(bytes).send().await
                && stored.status().is_success()
            {
                return id.to_owned();
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Posts jobs until then, and cancels some.
    pub(crate) async fn buy(mut self, until: Instant) {
        let upload = self.upload().await;
        let mut posted: Vec<String> = Vec::new();
        while Instant::now() < until {
            let order = if self.chance.percent(12) {
                transcode(&upload)
            } else {
                json!({ "service": "noop.v1" })
            };
            if let Some(job) = self.post("/v1/jobs", &order).await
                && let Some(id) = job["id"].as_str()
            {
                posted.push(id.to_owned());
            }
            if posted.len() > 2 && self.chance.percent(15) {
                // One of the last two: most of the others have ended.
                let job = posted.len() - 1 - self.chance.below(2);
                let path = format!("/v1/jobs/{}/cancel", posted[job]);
                self.post(&path, &json!({})).await;
            }
            let pause = self.chance.millis(300, 1_500);
            tokio::time::sleep(pause).await;
        }
    }
}
