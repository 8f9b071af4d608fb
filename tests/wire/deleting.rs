//! A buyer deletes whole jobs: what was said in them is nowhere any more, what money needs stays.

use fencepost_domain::attempt::Phase;
use fencepost_domain::ids::EventId;
use fencepost_protocol::{AgentFrame, GatewayFrame};
use fencepost_tests::agent_client::Session;
use fencepost_tests::agent_frames::{artifact, commit, event, fail};
use fencepost_tests::buyer::{Buyer, answer, text};
use fencepost_tests::gateway::CREDIT;
use fencepost_tests::{Site, TestGateway};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

/// What the buyer and the Mac say, and nobody else.
const WORD: &str = "zebrafinch";

async fn delete(buyer: &Buyer, job: &str) -> StatusCode {
    let request = buyer.request(Method::DELETE, &format!("/v1/jobs/{job}"));
    let response = request.send().await.expect("the gateway answers");
    let status = response.status();
    if status != StatusCode::NO_CONTENT {
        answer(response).await;
    }
    status
}

/// Posts the order under a key; the status and the answer.
async fn post_under_key(buyer: &Buyer, order: &Value) -> (StatusCode, Value) {
    let request = buyer.request(Method::POST, "/v1/jobs").json(order);
    let request = request.header("Idempotency-Key", "one");
    answer(request.send().await.expect("the gateway answers")).await
}

/// The tables that hold a word, wherever in their rows.
async fn tables_with(site: &Site, word: &str) -> Vec<String> {
    let tables = site
        .db
        .text(
            "select string_agg(tablename, ' ') from pg_tables where schemaname = 'public'
                and tablename not like 'test%' and tablename <> '_sqlx_migrations'",
        )
        .await;
    let mut found = Vec::new();
    for table in tables.split(' ') {
        let query = format!("select count(*) from {table} t where t::text like '%{word}%'");
        if site.db.text(&query).await != "0" {
            found.push(table.to_owned());
        }
    }
    found
}

fn order() -> Value {
    json!({
        "service": "noop.v1", "params": {}, "metadata": { "name": WORD, "deep": { "a": [WORD] } },
    })
}

/// A job about which a Mac said all that it can say, and then failed; the Mac, and what it recorded.
async fn failed(site: &Site, gateway: &TestGateway, job: &str) -> (Session, AgentFrame) {
    let mut mac = site.device(gateway, "mac").await.connect(gateway).await;
    let offer = mac.lease_in(Phase::Running).await;
    assert_eq!(offer.job_id.to_string(), job);
    let told = AgentFrame::Progress {
        lease: offer.lease(),
        phase: Phase::Running,
        percent: Some(1.0),
        detail: Some(WORD.to_owned()),
    };
    mac.ask(told).await;
    let mut happened = event(&offer, EventId::new(), 0);
    if let AgentFrame::Event { payload, .. } = &mut happened {
        *payload = json!({ "stderr": WORD });
    }
    mac.ask(happened.clone()).await;
    let mut over = fail(&offer, "runner_failed");
    if let AgentFrame::Fail { message, .. } = &mut over {
        WORD.clone_into(message);
    }
    mac.ask(over).await;
    (mac, happened)
}

#[tokio::test]
async fn a_deleted_job_is_gone_with_every_word_of_it_and_its_key_makes_no_new_one() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let (status, created) = post_under_key(&buyer, &order()).await;
    assert_eq!(status, StatusCode::CREATED, "{created}");
    let job = text(&created["id"]);
    assert_eq!(
        delete(&buyer, &job).await,
        StatusCode::CONFLICT,
        "it is queued"
    );
    let (mut mac, happened) = failed(&site, &gateway, &job).await;
    buyer.until(&job, "failed").await;
    let said = tables_with(&site, WORD).await;
    assert!(said.len() >= 3, "{said:?}");
    let stranger = site.other_buyer(&gateway).await;
    assert_eq!(delete(&stranger, &job).await, StatusCode::NOT_FOUND);

    for _ in 0..2 {
        assert_eq!(delete(&buyer, &job).await, StatusCode::NO_CONTENT);
    }
    assert_eq!(tables_with(&site, WORD).await, Vec::<String>::new());
    for rest in ["", "/attempts", "/artifacts", "/output", "/events"] {
        let (status, said) = buyer.get(&format!("/v1/jobs/{job}{rest}")).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{rest}: {said}");
    }
    let cancel = buyer
        .post(&format!("/v1/jobs/{job}/cancel"), &json!({}))
        .await;
    assert_eq!(cancel.0, StatusCode::NOT_FOUND);
    let output = format!("{job}/output");
    assert_eq!(delete(&buyer, &output).await, StatusCode::NOT_FOUND);
    for filter in ["", "?status=failed", &format!("?metadata[name]={WORD}")] {
        let listed = buyer.get(&format!("/v1/jobs{filter}")).await.1;
        assert_eq!(listed["jobs"], json!([]), "{filter}");
    }
    // The Mac, whose answer was lost, says again what it recorded; it learns nothing else.
    let again = mac.ask(happened).await;
    assert!(
        matches!(again, GatewayFrame::EventOk { replayed: true, .. }),
        "{again:?}"
    );
    assert_eq!(tables_with(&site, WORD).await, Vec::<String>::new());
    // Its money has moved, and is seen to have.
    let journal = buyer.get("/v1/journal").await.1;
    let of_job = journal["postings"].as_array().expect("postings");
    assert_eq!(of_job.iter().filter(|one| one["job_id"] == *job).count(), 2);
    assert_eq!(buyer.balance().await, (CREDIT, 0));
    // The same request is the same job still, another one is another one.
    let (status, said) = post_under_key(&buyer, &order()).await;
    assert_eq!((status, &said["code"]), (StatusCode::GONE, &json!("gone")));
    let (status, _) = post_under_key(&buyer, &json!({ "service": "noop.v1" })).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(site.db.text("select count(*) from jobs").await, "1");
    assert_eq!(site.operate(&["ledger", "check"]).await["is_clean"], true);
}

#[tokio::test]
async fn a_deleted_job_leaves_no_file_and_artifacts_count_as_long_as_they_are_kept() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut mac = site.device(&gateway, "mac").await.connect(&gateway).await;
    let (offer, output) = mac.lease_and_upload(&gateway, b"bytes").await;
    let log = ("encoder.log", &b"all went well"[..]);
    let key = mac.put_artifact(&gateway, &offer, log).await;
    mac.ask(artifact(&offer, log.0, &key, log.1)).await;
    let stored = async || {
        let stored = "select sum(stored_bytes) from org_accounts";
        site.db.text(stored).await
    };
    assert_eq!(stored().await, "0", "not before it is anybody's");
    mac.ask(commit(&offer, &output)).await;
    buyer.until(&job, "succeeded").await;
    let both = (b"bytes".len() + log.1.len()).to_string();
    assert_eq!(stored().await, both);
    // It is called by its own name when it is saved.
    let artifacts = buyer.get(&format!("/v1/jobs/{job}/artifacts")).await.1;
    let url = text(&artifacts["artifacts"][0]["url"]);
    let disposition = gateway.get(&url).await.headers()["content-disposition"].clone();
    assert_eq!(disposition, "attachment; filename=\"encoder.log\"");

    assert_eq!(delete(&buyer, &job).await, StatusCode::NO_CONTENT);
    assert_eq!(stored().await, "0");
    assert_eq!(site.operate(&["ledger", "check"]).await["is_clean"], true);
    fencepost_tests::wait::until("the copy to be deleted", || async {
        !site
            .objects()
            .iter()
            .any(|file| file.to_string_lossy().contains("/verified/"))
    })
    .await;
}

#[tokio::test]
async fn a_deleted_job_takes_no_place_in_a_list() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let older = buyer.submit_noop().await;
    for _ in 0..2 {
        let newer = buyer.submit_noop().await;
        buyer.cancel(&newer).await;
        assert_eq!(delete(&buyer, &newer).await, StatusCode::NO_CONTENT);
    }
    let page = buyer.get("/v1/jobs?limit=1").await.1;
    assert_eq!(page["jobs"][0]["id"], older);
    assert_eq!(page["next_cursor"], Value::Null);
}
