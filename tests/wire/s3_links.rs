//! Links into a bucket: what each opens, for how long and by whose clock, and what nobody learns of
//! what is somebody else's.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_protocol::{Code, GatewayFrame};
use fencepost_store::artifacts::{Bucket as OwnBucket, checksum_header};
use fencepost_tests::agent_frames::{assert_won, commit, declared};
use fencepost_tests::buyer::{Buyer, film, transcode};
use fencepost_tests::{Bucket, Site};
use reqwest::header::DATE;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::s3_parts::{LARGE, PART, part_links};

const VERIFIED: &[u8] = b"what was declared";
const SWAPPED: &[u8] = b"what came in its place";

#[tokio::test]
async fn what_an_agent_writes_while_it_is_verified_is_never_served() {
    let site = Site::new().await;
    let bucket = Bucket::start(site.folder.path()).await;
    let gateway = site.gateway_on(&bucket, &[]).await;
    let buyer = site.buyer(&gateway);
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    // Before it is copied, and after that, before the copy is read.
    for (moment, is_good) in [("copy_object", false), ("get_object", true)] {
        let job = buyer.submit_noop().await;
        let (offer, output) = session.lease_and_upload(&gateway, VERIFIED).await;
        let mut held = bucket.inside.hold(moment);
        let asked = session.say(commit(&offer, &output)).await;
        held.came().await;
        let again = gateway.put(&offer.output.url, SWAPPED).await;
        assert!(again.status().is_success());
        held.let_go();
        let answer = session.answer(asked).await.frame;
        if is_good {
            assert_won(&answer);
            for _ in 0..2 {
                assert_eq!(buyer.download(&job).await, VERIFIED);
                // The link is good for a quarter of an hour.
                let again = gateway.put(&offer.output.url, SWAPPED).await;
                assert!(again.status().is_success());
            }
            continue;
        }
        let GatewayFrame::CommitRejected { code, .. } = answer else {
            panic!("{moment}: {answer:?}")
        };
        assert_eq!(code, Code::UploadFailed);
        assert_eq!(site.statuses(&job).await, "queued: failed");
        let refused = buyer.output_link(&job).await;
        assert_eq!(refused.map_err(|no| no.0), Err(StatusCode::CONFLICT));
        buyer.cancel(&job).await;
    }
}

#[tokio::test]
async fn a_file_that_a_buyer_changes_while_it_is_completed_is_what_was_read() {
    let site = Site::new().await;
    let bucket = Bucket::start(site.folder.path()).await;
    let gateway = site.gateway_on(&bucket, &[]).await;
    let buyer = site.buyer(&gateway);
    let (upload, link) = buyer.new_upload(&json!({})).await;
    assert!(gateway.put(&link, VERIFIED).await.status().is_success());
    let mut held = bucket.inside.hold("get_object");
    let completing = buyer.complete(&upload);
    let changing = async {
        held.came().await;
        assert!(gateway.put(&link, SWAPPED).await.status().is_success());
        held.let_go();
    };
    let ((status, completed), ()) = tokio::join!(completing, changing);
    assert_eq!(status, StatusCode::OK, "{completed}");
    assert_eq!(completed["size_bytes"], VERIFIED.len());
    buyer.submit(&transcode(&upload)).await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = session.lease_in(Phase::Downloading).await;
    let input = gateway.get(&offer.inputs[0].url).await;
    assert_eq!(input.bytes().await.expect("a body").as_ref(), VERIFIED);
}

/// A status, and what is said without what names the request and the thing that was asked for.
async fn said(buyer: &Buyer, (method, path): (&Method, &str), body: &Value, id: &str) -> String {
    let mut request = buyer.request(method.clone(), path);
    if *method == Method::POST {
        request = request.json(body);
    }
    let response = request.send().await.expect("the gateway answers");
    let status = response.status();
    let answer = response.text().await.expect("a body");
    let mut answer: Value = serde_json::from_str(&answer).unwrap_or(json!(answer));
    if let Some(problem) = answer.as_object_mut() {
        problem.remove("request_id");
    }
    format!("{status} {answer}").replace(id, "ID")
}

#[tokio::test]
async fn what_is_somebody_elses_is_answered_at_every_address_like_what_never_was() {
    let site = Site::new().await;
    let bucket = Bucket::start(site.folder.path()).await;
    let gateway = site.gateway_on(&bucket, &[]).await;
    let owner = site.buyer(&gateway);
    let stranger = site.other_buyer(&gateway).await;
    let (open, link) = owner.new_upload(&json!({})).await;
    assert!(gateway.put(&link, b"sent").await.status().is_success());
    let whole = owner.upload(b"completed").await;
    let job = owner.submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let (offer, output) = session.lease_and_upload(&gateway, VERIFIED).await;
    session.ask(commit(&offer, &output)).await;
    let waiting = owner.submit_noop().await;
    let before = site.rows().await;
    let unknown = Uuid::now_v7().to_string();
    let uploads = [
        (Method::GET, "/v1/uploads/ID"),
        (Method::DELETE, "/v1/uploads/ID"),
        (Method::POST, "/v1/uploads/ID/complete"),
        (Method::POST, "/v1/jobs"),
        (Method::POST, "/v1/quotes"),
    ];
    let jobs = [
        (Method::GET, "/v1/jobs/ID"),
        (Method::GET, "/v1/jobs/ID/attempts"),
        (Method::GET, "/v1/jobs/ID/artifacts"),
        (Method::GET, "/v1/jobs/ID/events"),
        (Method::GET, "/v1/jobs/ID/output"),
        (Method::DELETE, "/v1/jobs/ID/output"),
        (Method::POST, "/v1/jobs/ID/cancel"),
    ];
    let mut asked = 0;
    for (routes, ids) in [
        (&uploads[..], [&open, &whole]),
        (&jobs[..], [&job, &waiting]),
    ] {
        for ((method, path), id) in routes.iter().flat_map(|one| ids.map(|id| (one, id))) {
            let ask = |id: String| {
                let path = path.replace("ID", &id);
                let is_order = path.ends_with("/jobs") || path.ends_with("/quotes");
                let body = if is_order { transcode(&id) } else { json!({}) };
                let stranger = &stranger;
                async move { said(stranger, (method, &path), &body, &id).await }
            };
            let (foreign, nobodys) = (ask(id.clone()).await, ask(unknown.clone()).await);
            assert_eq!(foreign, nobodys, "{method} {path}");
            let expected = if *path == "/v1/jobs" || *path == "/v1/quotes" {
                // The thing asked for is in the body.
                "400 "
            } else {
                "404 "
            };
            assert!(foreign.starts_with(expected), "{method} {path}: {foreign}");
            asked += 1;
        }
    }
    assert_eq!(asked, 2 * (uploads.len() + jobs.len()));
    assert_eq!(site.rows().await, before, "something was changed");
    assert_eq!(owner.complete(&open).await.0, StatusCode::OK);
    assert_eq!(owner.download(&job).await, VERIFIED);
}

/// Links to one buyer's upload, to its output and to two parts of another one's output.
struct Links {
    upload: String,
    output: String,
    parts: [String; 2],
}

type Bent = (&'static str, Method, String);

impl Links {
    /// Each with something else in the place of what it was made for. `own` and `foreign` are uploads,
    /// `output` is an object's key.
    fn bent(&self, (own, foreign): (&str, &str), output: &str) -> Vec<Bent> {
        let Self {
            upload,
            output: served,
            parts: [first, second],
        } = self;
        let incoming = |id: &str| format!("incoming/{id}");
        let elsewhere = |key: &str| upload.replace(&incoming(own), key);
        let signature = upload.find("X-Amz-Signature=").expect("it is signed");
        let bent = vec![
            ("another upload", Method::PUT, elsewhere(&incoming(foreign))),
            ("an output", Method::PUT, elsewhere(output)),
            ("an input", Method::PUT, elsewhere("uploads/of-nobody")),
            ("unsigned", Method::PUT, upload[..signature].to_owned()),
            (
                "longer",
                Method::PUT,
                upload.replace("Expires=", "Expires=9"),
            ),
            (
                "an input to read",
                Method::GET,
                served.replace(output, &incoming(foreign)),
            ),
            ("shown", Method::GET, served.replace("attachment", "inline")),
            (
                "another part",
                Method::PUT,
                first.replace("Number=1&", "Number=2&"),
            ),
            (
                "the whole",
                Method::PUT,
                second.replace("partNumber=2&", ""),
            ),
        ];
        for (what, _, link) in &bent {
            let all = [upload, served, first, second];
            assert!(!all.contains(&link), "{what}: it was not bent");
        }
        // And each in another direction.
        let turned = [
            ("to read", Method::GET, upload.clone()),
            ("to delete", Method::DELETE, upload.clone()),
            ("to write", Method::PUT, served.clone()),
        ];
        bent.into_iter().chain(turned).collect()
    }
}

#[tokio::test]
async fn a_link_opens_one_object_in_one_direction_and_nothing_beside_it() {
    let site = Site::new().await;
    let bucket = Bucket::start(site.folder.path()).await;
    let gateway = site.gateway_on(&bucket, &LARGE).await;
    let owner = site.buyer(&gateway);
    let stranger = site.other_buyer(&gateway).await;
    let (foreign, link) = owner.new_upload(&json!({})).await;
    assert!(gateway.put(&link, b"sent").await.status().is_success());
    let (own, upload) = stranger.new_upload(&json!({})).await;
    let job = owner.submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let (offer, output) = session.lease_and_upload(&gateway, VERIFIED).await;
    session.ask(commit(&offer, &output)).await;
    let served = owner.output_link(&job).await.expect("there is one");
    owner.submit_noop().await;
    let offer = session.lease_in(Phase::Uploading).await;
    let parts = part_links(&mut session, &offer, 1).await.urls;
    let links = Links {
        upload,
        output: served,
        parts: [parts[0].clone(), parts[1].clone()],
    };
    let key = "select output_key from jobs where status = 'succeeded'";
    let objects = site.objects();
    for (what, method, link) in links.bent((&own, &foreign), &site.db.text(key).await) {
        let request = gateway.client.request(method, &link).body("a stranger's");
        let answer = request.send().await.expect("the bucket answers");
        assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{what}: {link}");
    }
    assert_eq!(site.objects(), objects);
    assert_eq!(owner.download(&job).await, VERIFIED);
    let sent = std::fs::read(site.object(&format!("incoming/{foreign}")));
    assert_eq!(sent.expect("it is there"), b"sent");
    // As they are, they open what they are for.
    assert!(
        gateway
            .put(&links.upload, b"own")
            .await
            .status()
            .is_success()
    );
    assert!(
        gateway
            .put(&links.parts[0], b"part")
            .await
            .status()
            .is_success()
    );
}

#[tokio::test]
async fn the_bucket_alone_says_when_a_link_is_over_whatever_day_its_user_believes_it_is() {
    let site = Site::new().await;
    let bucket = Bucket::start(site.folder.path()).await;
    let gateway = site.gateway_on(&bucket, &[]).await;
    let mut settings = bucket.settings_of_store(PART as u64);
    settings.link_time = Duration::from_secs(5);
    let brief = OwnBucket::open(settings).expect("it opens");
    let digest: [u8; 32] = Sha256::digest(VERIFIED).into();
    let (name, checksum) = checksum_header(&digest);
    let brief = brief.link_for_bytes("incoming/brief", &digest);
    let brief = brief.expect("it is signed");
    let began = std::time::Instant::now();
    let buyer = site.buyer(&gateway);
    let put = |link: String, date: &'static str| {
        let request = gateway.client.put(link).header(DATE, date);
        let request = request.header(name, &checksum).body(VERIFIED);
        async move { request.send().await.expect("it answers").status() }
    };
    let now = "Mon, 30 Nov 2026 03:00:00 GMT";
    assert!(put(brief.clone(), now).await.is_success());
    // Long ago, and far ahead.
    for date in [
        "Sun, 29 Nov 2020 03:00:00 GMT",
        "Tue, 01 Dec 2048 03:00:00 GMT",
    ] {
        let (upload, link) = buyer.new_upload(&json!({})).await;
        assert!(put(link, date).await.is_success());
        assert_eq!(buyer.complete(&upload).await.0, StatusCode::OK);
    }
    // The clock of Postgres decides about leases, and not about what the bucket has been promised.
    let (_, link) = buyer.new_upload(&json!({})).await;
    site.clock.advance(Duration::from_hours(24)).await;
    assert!(
        put(link, "Sun, 29 Nov 2020 03:00:00 GMT")
            .await
            .is_success()
    );
    let left = Duration::from_millis(6_500).saturating_sub(began.elapsed());
    tokio::time::sleep(left).await;
    for date in [
        "Sun, 29 Nov 2020 03:00:00 GMT",
        "Tue, 01 Dec 2048 03:00:00 GMT",
    ] {
        assert_eq!(put(brief.clone(), date).await, StatusCode::FORBIDDEN);
    }
}

#[tokio::test]
async fn a_real_agent_whose_link_is_over_by_the_buckets_clock_gets_another() {
    let site = Site::new().await;
    let bucket = Bucket::start(site.folder.path()).await;
    let gateway = site.gateway_on(&bucket, &[("leases.grant", "3s")]).await;
    let buyer = site.buyer(&gateway);
    let (upload, link) = buyer.new_upload(&json!({})).await;
    let film = film(3, 96, 64).await;
    assert!(gateway.put(&link, &film).await.status().is_success());
    assert_eq!(buyer.complete(&upload).await.0, StatusCode::OK);
    let mut agent = site.agent(&gateway.url, "mac").await;
    agent.start();
    let mut held = bucket.inside.hold("get_object");
    let job = buyer.submit(&transcode(&upload)).await;
    held.came().await;
    // By now the link for its output, which came with the offer, is over.
    tokio::time::sleep(Duration::from_millis(4_500)).await;
    held.let_go();
    buyer.until(&job, "succeeded").await;
    assert!(agent.log().contains("a link is not accepted any more"));
    assert_eq!(site.statuses(&job).await, "succeeded: succeeded");
    assert_eq!(buyer.job(&job).await["charged_attempts"], 0);
    agent.is_idle().await;
}

#[tokio::test]
async fn a_link_that_is_over_is_not_what_a_commit_is_judged_by() {
    let site = Site::new().await;
    let bucket = Bucket::start(site.folder.path()).await;
    let gateway = site.gateway_on(&bucket, &[("leases.grant", "2s")]).await;
    let job = site.buyer(&gateway).submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let (offer, output) = session.lease_and_upload(&gateway, VERIFIED).await;
    tokio::time::sleep(Duration::from_millis(3_500)).await;
    let late = gateway.put(&offer.output.url, SWAPPED).await;
    assert_eq!(late.status(), StatusCode::FORBIDDEN);
    let answer = session.ask(commit(&offer, &output)).await;
    assert_won(&answer);
    assert_eq!(site.statuses(&job).await, "succeeded: succeeded");
    assert_eq!(output, declared(&offer, VERIFIED));
}
