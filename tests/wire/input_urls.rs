//! Inputs that a real agent fetches from a buyer's own host.

use std::time::Duration;

use fencepost_tests::agent_process::AgentProcess;
use fencepost_tests::buyer::{Buyer, clip, film, text, transcode};
use fencepost_tests::file_host::{FileHost, Serve};
use fencepost_tests::gateway::{TO_THIS_MACHINE, hex_sha256};
use fencepost_tests::wait::until;
use fencepost_tests::{Site, TestGateway};
use serde_json::{Value, json};

use crate::secrets::{done, places};

/// Long enough to be looked for.
const SIGNATURE: &str = "0123456789-the-buyers-signature";

/// The order of a transcode of what is there.
fn of(input: Value) -> Value {
    let mut order = transcode("");
    order["inputs"]["source"] = input;
    order
}

async fn gateway(site: &Site) -> TestGateway {
    let level = ("telemetry.level", "debug");
    site.gateway_with(&[TO_THIS_MACHINE, level]).await
}

async fn mac(site: &Site, gateway: &TestGateway) -> AgentProcess {
    let mut agent = site.agent(&gateway.url, "mac").await;
    agent.start();
    agent
}

/// Waits for the end of a job that fails at its first attempt; its code and message.
async fn failed(site: &Site, buyer: &Buyer, job: &str) -> (String, String) {
    let seen = buyer.until(job, "failed").await;
    assert_eq!(site.statuses(job).await, "failed: failed");
    let failure = &seen["failure"];
    (text(&failure["code"]), text(&failure["message"]))
}

#[tokio::test]
async fn a_mac_fetches_an_input_from_where_the_buyer_has_it_and_its_address_is_nowhere_else() {
    let site = Site::new().await;
    let gateway = gateway(&site).await;
    let buyer = site.buyer(&gateway);
    let film = film(2, 96, 64).await;
    let host = FileHost::start(&film, &[Serve::File]).await;
    let gone = FileHost::start(&film, &[Serve::Status(404)]).await;
    let input = json!({
        "url": host.url(SIGNATURE), "sha256": hex_sha256(&film), "size_bytes": film.len(),
    });
    let job = buyer.submit(&of(input)).await;
    let lost = buyer
        .submit(&of(json!({ "url": gone.url(SIGNATURE) })))
        .await;
    // Also while somebody may still fetch from there, no table has it in a form that can be read.
    let waiting = site.db.dump().await;
    let mut agent = mac(&site, &gateway).await;
    agent.lease("a lease", |_| true).await;
    let (done, arguments) = done(&mut agent, &gateway, &buyer, &job).await;
    let seconds = done["output"]["duration_seconds"]
        .as_f64()
        .expect("seconds");
    assert!((1.9..2.2).contains(&seconds), "{seconds}");
    let shown = json!({
        "upload_id": null,
        "host": format!("127.0.0.1:{}", host.port()),
        "sha256": hex_sha256(&film),
        "size_bytes": film.len(),
    });
    assert_eq!(done["inputs"]["source"], shown);
    let (code, message) = failed(&site, &buyer, &lost).await;
    assert_eq!(code, "input_invalid");
    assert!(
        message.contains("the buyer's URL answered HTTP 404"),
        "{message}"
    );
    assert_eq!((host.seen().len(), gone.seen().len()), (1, 1));
    assert!(
        host.seen()[0].contains(SIGNATURE),
        "that is where it belongs"
    );
    agent.is_idle().await;

    let jobs = [job.as_str(), lost.as_str()];
    let mut places = places(&site, &gateway, (&agent, arguments), (&buyer, jobs)).await;
    places.push(("a table, before", waiting));
    for (place, text) in &places {
        assert!(text.len() > 100, "{place} was not searched: {text}");
        for secret in [SIGNATURE, "/film.mp4", "film.mp4?"] {
            assert!(!text.contains(secret), "{secret} is in {place}");
        }
    }
}

#[tokio::test]
async fn what_the_buyer_has_to_mend_ends_the_job_at_once_in_words_for_the_buyer() {
    let site = Site::new().await;
    let gateway = gateway(&site).await;
    let buyer = site.buyer(&gateway);
    let mut agent = mac(&site, &gateway).await;
    let other = hex_sha256(b"another file");
    for (act, promised, says) in [
        (Serve::File, json!({ "sha256": other }), "another SHA-256"),
        (Serve::File, json!({ "size_bytes": 7 }), "the order says 7"),
        (Serve::Moved, json!({}), "redirects are not followed"),
        (Serve::Status(403), json!({}), "HTTP 403"),
    ] {
        let host = FileHost::start(clip().await, &[act]).await;
        let mut input = promised;
        input["url"] = json!(host.url(SIGNATURE));
        let job = buyer.submit(&of(input)).await;
        let (code, message) = failed(&site, &buyer, &job).await;
        assert_eq!(code, "input_invalid", "{message}");
        assert!(
            message.contains(says) && !message.contains(SIGNATURE),
            "{message}"
        );
        assert_eq!(host.seen().len(), 1, "{message}");
        assert_eq!(buyer.balance().await.1, 0, "the hold is released");
    }
    agent.is_idle().await;
}

#[tokio::test]
async fn a_file_that_is_no_film_and_one_that_is_too_large_are_the_buyers_to_mend_too() {
    let site = Site::new().await;
    let gateway = gateway(&site).await;
    let buyer = site.buyer(&gateway);
    let _agent = mac(&site, &gateway).await;
    let playlist = b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n";
    let large = vec![7; fencepost_tests::gateway::MAX_UPLOAD_BYTES + 1];
    for (file, says) in [(&playlist[..], ""), (&large, "2000000 bytes")] {
        let host = FileHost::start(file, &[Serve::File]).await;
        let job = buyer
            .submit(&of(json!({ "url": host.url(SIGNATURE) })))
            .await;
        let (code, message) = failed(&site, &buyer, &job).await;
        assert_eq!(code, "input_invalid", "{message}");
        assert!(message.contains(says), "{message}");
    }
}

#[tokio::test]
async fn a_host_in_trouble_costs_an_attempt_and_the_next_one_fetches_the_file() {
    let site = Site::new().await;
    let gateway = gateway(&site).await;
    let buyer = site.buyer(&gateway);
    let mut agent = mac(&site, &gateway).await;
    let trouble = [Serve::Status(503); 4];
    let acts = [&trouble[..], &[Serve::File]].concat();
    let host = FileHost::start(clip().await, &acts).await;
    let job = buyer
        .submit(&of(json!({ "url": host.url(SIGNATURE) })))
        .await;
    site.becomes(&job, "queued: failed").await;
    let attempts = buyer.attempts(&job).await;
    assert_eq!(attempts[0]["failure"]["code"], "download_failed");
    let message = text(&attempts[0]["failure"]["message"]);
    assert!(message.contains("HTTP 503"), "{message}");
    site.clock.advance(Duration::from_secs(10)).await;
    buyer.until(&job, "succeeded").await;
    assert_eq!(site.statuses(&job).await, "succeeded: failed, succeeded");
    assert_eq!(host.seen().len(), 5);
    agent.is_idle().await;
}

#[tokio::test]
async fn a_download_that_is_cut_goes_on_where_it_was() {
    let site = Site::new().await;
    let gateway = gateway(&site).await;
    let buyer = site.buyer(&gateway);
    let mut agent = mac(&site, &gateway).await;
    let film = clip().await;
    let host = FileHost::start(film, &[Serve::Cut(1_000), Serve::File]).await;
    let input = json!({ "url": host.url(SIGNATURE), "sha256": hex_sha256(film) });
    let job = buyer.submit(&of(input)).await;
    buyer.until(&job, "succeeded").await;
    assert_eq!(site.statuses(&job).await, "succeeded: succeeded");
    let seen = host.seen();
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert!(seen[1].contains("range: bytes=1000-"), "{}", seen[1]);
    agent.is_idle().await;
}

#[tokio::test]
async fn a_mac_whose_owner_allowed_nothing_fetches_nothing_from_its_own_network_and_leaves_it_to_others()
 {
    let site = Site::new().await;
    // What the operator of the gateways allows is not allowed by the owner of the Mac.
    let gateway = gateway(&site).await;
    let buyer = site.buyer(&gateway);
    let agent = site.agent(&gateway.url, "strict").await;
    let mut agent = agent.with(&["--egress-allow-cidrs", "192.0.2.0/24"]);
    agent.start();
    let host = FileHost::start(clip().await, &[Serve::File]).await;
    let job = buyer
        .submit(&of(json!({ "url": host.url(SIGNATURE) })))
        .await;
    site.becomes(&job, "queued: failed").await;
    let failure = buyer.attempts(&job).await[0]["failure"].clone();
    assert_eq!(failure["code"], "download_failed");
    let message = text(&failure["message"]);
    let says = "as this device sees it, its address must lead to public addresses only";
    assert!(message.contains(says), "{message}");
    assert_eq!(host.seen(), Vec::<String>::new());
    until("what is allowed to be said", || async {
        agent.log().contains("192.0.2.0/24")
    })
    .await;
    // The same Mac works on uploads from its gateway, which is on this machine too.
    let done = buyer.submit_transcode().await;
    buyer.until(&done, "succeeded").await;
    let other = mac(&site, &gateway).await;
    other.is_connected().await;
    site.clock.advance(Duration::from_secs(10)).await;
    buyer.until(&job, "succeeded").await;
    assert_eq!(site.statuses(&job).await, "succeeded: failed, succeeded");
    assert_eq!(host.seen().len(), 1);
}
