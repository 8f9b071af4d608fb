//! `fencepost job …`, `balance`, `journal` and `webhook`, as buyers and their scripts use them; and what
//! operators see on theirs.

mod bundle;
mod download;
mod list;
mod money;
mod operators;
mod show;
mod submit;
mod watch;
mod webhook;

use fencepost_domain::attempt::Phase;
use fencepost_tests::agent_frames::{commit, declared};
use fencepost_tests::terminal::Terminal;
use fencepost_tests::{Site, TestGateway};

fn at_port(site: &Site, port: u16) -> Terminal {
    Terminal::new(&format!("http://127.0.0.1:{port}"), &site.api_key)
}

fn terminal(site: &Site, gateway: &TestGateway) -> Terminal {
    Terminal::new(&gateway.url, &site.api_key)
}

fn path(site: &Site, name: &str) -> String {
    site.folder
        .path()
        .join(name)
        .to_str()
        .expect("a plain path")
        .to_owned()
}

/// A job that has succeeded with these bytes.
async fn succeeded(site: &Site, gateway: &TestGateway, bytes: &[u8]) -> String {
    let job = site.buyer(gateway).submit_noop().await;
    let mut mac = site.device(gateway, "mac").await.connect(gateway).await;
    let offer = mac.lease_in(Phase::Uploading).await;
    gateway.put(&offer.output.url, bytes).await;
    mac.ask(commit(&offer, &declared(&offer, bytes))).await;
    job
}
