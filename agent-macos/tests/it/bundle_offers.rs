//! What an agent does with an offer of a bundle: checks it once more, and fetches its files.

use fencepost_protocol::{GatewayFrame, InputGrant, LeaseOffer};
use serde_json::json;

use crate::agent::Agent;
use crate::fetch::site::{Site, whole};
use crate::gateway::{Gateway, sha256};
use crate::session::{Session, content, offer};

fn inspect(bundle: InputGrant) -> LeaseOffer {
    LeaseOffer {
        service: "remotion.inspect.v1".to_owned(),
        inputs: vec![bundle],
        ..offer((String::new(), 0), json!({}))
    }
}

/// The code and the message with which it fails.
async fn failed(session: &mut Session, bundle: InputGrant) -> (String, String) {
    session.lease(inspect(bundle)).await;
    let fail = session.until("fail").await;
    let said = content(&fail);
    let done = GatewayFrame::Done {
        replayed: false,
        lease_remaining_ms: None,
    };
    session.answer(&fail, done).await;
    let text = |name: &str| said[name].as_str().unwrap().to_owned();
    (text("failure_code"), text("message"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offered_bundle_is_checked_again_and_its_files_are_fetched() {
    let mut gateway = Gateway::start().await;
    let agent = Agent::paired(&gateway).await;
    let mut agent = agent.with(&["--egress-allow-cidrs", "127.0.0.0/8"]);
    agent.start();
    let mut session = gateway.session().await;
    session.welcome_empty().await;
    let site = Site::start().await;
    let page = b"<!doctype html>";
    let manifest = json!({ "files": [
        { "path": "index.html", "sha256": sha256(page), "size_bytes": page.len() },
        { "path": "js/lost.js", "sha256": sha256(b""), "size_bytes": 1 },
    ] });
    let manifest = manifest.to_string().into_bytes();
    site.has("/fencepost.json?sig=s3cret", vec![whole(&manifest)]);
    site.has("/index.html", vec![whole(page)]);
    let whole_grant = InputGrant {
        name: "bundle".to_owned(),
        url: format!("{}/fencepost.json?sig=s3cret", site.address),
        sha256: Some(sha256(&manifest)),
        size_bytes: None,
        max_bytes: Some(1 << 20),
    };
    for (sha256, max_bytes, field) in [
        (None, Some(1 << 20), "inputs.bundle.sha256"),
        (Some("0A".repeat(32)), Some(1 << 20), "inputs.bundle.sha256"),
        (Some("0a".repeat(32)), None, "inputs.bundle.url"),
    ] {
        let grant = InputGrant {
            sha256,
            max_bytes,
            ..whole_grant.clone()
        };
        let (code, message) = failed(&mut session, grant).await;
        assert_eq!(code, "input_invalid", "{message}");
        assert!(message.starts_with(field), "{field}: {message}");
    }
    assert_eq!(site.asked(), [""; 0]);
    let (code, message) = failed(&mut session, whole_grant).await;
    assert_eq!(code, "input_invalid", "{message}");
    assert!(message.contains("file \"js/lost.js\""), "{message}");
    let mut asked = site.asked();
    asked.sort();
    assert_eq!(asked[0], "/fencepost.json?sig=s3cret", "{asked:?}");
    assert!(asked.contains(&"/js/lost.js".to_owned()), "{asked:?}");
    assert!(
        !message.contains("s3cret") && !agent.log().contains("s3cret"),
        "{message}"
    );
}
