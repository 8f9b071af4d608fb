//! One gateway as a process, and what can be asked of it.

use reqwest::{Client, Response, StatusCode};
use rustix::process::Signal;
use serde_json::Value;

use crate::processes::Process;
use crate::wait::until_some;

/// One running gateway. Killed when dropped.
pub struct TestGateway {
    /// Its process.
    pub process: Process,
    /// Where buyers and agents connect.
    pub url: String,
    /// Where operators look.
    pub admin_url: String,
    /// Follows no redirects.
    pub client: Client,
}

impl TestGateway {
    /// Waits until a process says where it listens.
    pub(super) async fn when_up(mut process: Process) -> Self {
        let (url, admin_url) = until_some("a gateway that is up", || {
            assert!(process.ended().is_none(), "it ended:\n{}", process.log());
            let up = addresses(&process.log());
            async move { up }
        })
        .await;
        let client = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .expect("a client");
        Self {
            process,
            url,
            admin_url,
            client,
        }
    }

    /// The port that buyers and agents connect to.
    pub fn port(&self) -> u16 {
        let port = self.url.rsplit(':').next().expect("an address has a port");
        port.parse().expect("a port is a number")
    }

    /// Kills it as a power cut would.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Asks it to stop, and waits until it has.
    pub async fn stop(&mut self) {
        self.process.signal(Signal::TERM);
        let status = self.process.wait().await;
        assert!(status.success(), "{status}:\n{}", self.process.log());
    }

    /// An absolute address from a path or from a link that is absolute already.
    pub fn address(&self, link: &str) -> String {
        if link.starts_with('/') {
            format!("{}{link}", self.url)
        } else {
            link.to_owned()
        }
    }

    /// Sends bytes to a link.
    pub async fn put(&self, link: &str, bytes: &[u8]) -> Response {
        let request = self.client.put(self.address(link)).body(bytes.to_vec());
        request.send().await.expect("the gateway answers")
    }

    /// Reads a link.
    pub async fn get(&self, link: &str) -> Response {
        let request = self.client.get(self.address(link));
        request.send().await.expect("the gateway answers")
    }

    /// What `/ready` says: whether it is, and its troubles.
    pub async fn readiness(&self) -> (bool, String) {
        let request = self.client.get(format!("{}/ready", self.admin_url));
        let response = request.send().await.expect("the gateway answers");
        let ready = response.status() == StatusCode::OK;
        (ready, response.text().await.expect("a body"))
    }

    /// How many devices have a current session here.
    pub async fn sessions(&self) -> u64 {
        let request = self.client.get(format!("{}/actors", self.admin_url));
        let response = request.send().await.expect("the gateway answers");
        let actors: Value = response.json().await.expect("JSON");
        let sessions = &actors["registry"]["snapshot"]["sessions"];
        sessions.as_u64().expect("the registry is not busy")
    }

    /// `/metrics` as text.
    pub async fn metrics(&self) -> String {
        let request = self.client.get(format!("{}/metrics", self.admin_url));
        let response = request.send().await.expect("the gateway answers");
        response.text().await.expect("a body")
    }
}

/// The addresses in the log line of a gateway that is up.
fn addresses(log: &str) -> Option<(String, String)> {
    let line = log
        .lines()
        .find(|line| line.contains("the gateway is up"))?;
    let line: Value = serde_json::from_str(line).ok()?;
    let address = |key: &str| Some(format!("http://{}", line[key].as_str()?));
    Some((address("http")?, address("admin")?))
}
