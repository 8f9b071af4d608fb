//! What a buyer learns about money and waiting, and what an operator can prove, over HTTP and by the
//! command line.

use fencepost_tests::Site;
use fencepost_tests::agent_frames::commit;
use fencepost_tests::buyer::transcode;
use fencepost_tests::gateway::{CREDIT, HELD};
use fencepost_tests::processes::run;
use reqwest::StatusCode;
use serde_json::{Value, json};

#[tokio::test]
async fn a_quote_says_what_a_job_would_cost_and_stores_nothing() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let upload = buyer.upload(b"bytes").await;
    let mut order = transcode(&upload);
    order["limits"] = json!({ "max_output_seconds": 61 });
    let before = site.db.rows().await;
    let (status, quote) = buyer.post("/v1/quotes", &order).await;
    assert_eq!(status, StatusCode::OK, "{quote}");
    let expected = json!({
        "service": "transcode.v1",
        "price": { "base_micros": 1_000, "per_minute_micros": 500 },
        "max_output_seconds": 61,
        "hold_micros": 2_000,
        "available_micros": CREDIT,
        "is_covered": true,
        "needs": ["encode.h264", "transcode.v1"],
        "waiting": {
            "reason": "no_capable_device",
            "missing": ["encode.h264", "transcode.v1"],
            "devices_away": 0,
        },
    });
    assert_eq!(quote, expected);
    assert_eq!(site.db.rows().await, before);
    // What a create refuses, a quote refuses in the same words.
    let (unsent, _) = buyer.new_upload(&json!({})).await;
    for wrong in [
        json!({ "service": "transcode.v2" }),
        json!({ "service": "noop.v1", "max_attemps": 1 }),
        json!({
            "service": "noop.v1",
            "webhook": { "endpoint_id": "019adf00-0000-7000-8000-000000000001" },
        }),
        transcode("019adf00-0000-7000-8000-000000000001"),
        transcode(&unsent),
    ] {
        let (status, mut quoted) = buyer.post("/v1/quotes", &wrong).await;
        let (refused, mut created) = buyer.post("/v1/jobs", &wrong).await;
        quoted["request_id"] = Value::Null;
        created["request_id"] = Value::Null;
        assert!(refused.is_client_error(), "{created}");
        assert_eq!((status, quoted), (refused, created), "{wrong}");
    }
    // But for files that are not sent yet, and are said to be so; and for misspelt words about them.
    let mut later = order.clone();
    later["inputs"]["source"]["upload_id"] = json!("019adf00-0000-7000-8000-000000000001");
    let (status, quote) = buyer.post("/v1/quotes?unsent=source", &later).await;
    assert_eq!((status, quote), (StatusCode::OK, expected));
    for (query, field) in [("unsent=sauce", "unsent"), ("sent=source", "sent")] {
        let (status, problem) = buyer.post(&format!("/v1/quotes?{query}"), &later).await;
        assert_eq!(
            (status, &problem["field"]),
            (StatusCode::BAD_REQUEST, &json!(field))
        );
    }
    // But for the balance, which is what one asks.
    let poor = site.other_buyer(&gateway).await;
    site.db
        .execute("update org_accounts set available_micros = 1 where org_id = (select id from orgs where name = 'other')")
        .await;
    let (status, quote) = poor
        .post("/v1/quotes", &json!({ "service": "noop.v1" }))
        .await;
    assert_eq!(
        (status, &quote["is_covered"]),
        (StatusCode::OK, &json!(false))
    );
    let restore = format!(
        "update org_accounts set available_micros = {CREDIT}
         where org_id = (select id from orgs where name = 'other')"
    );
    site.db.execute(&restore).await;
}

#[tokio::test]
async fn a_job_says_why_it_waits() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let upload = buyer.upload(b"bytes").await;
    let mut order = transcode(&upload);
    order["params"]["codec"] = json!("hevc");
    let job = buyer.submit(&order).await;
    let waiting = async || buyer.job(&job).await["waiting"].clone();
    let reason = async || waiting().await["reason"].clone();
    assert_eq!(reason().await, "no_capable_device");
    let device = site.device(&gateway, "mac").await;
    let session = device.connect(&gateway).await;
    let words = |words: &str| format!("update devices set words = '{words}'");
    site.db.execute(&words("{transcode.v1,encode.h264}")).await;
    let lacks = json!({
        "reason": "no_capable_device", "missing": ["encode.hevc"], "devices_away": 0,
    });
    assert_eq!(waiting().await, lacks);
    site.db.execute(&words("{transcode.v1,encode.hevc}")).await;
    assert_eq!(waiting().await, Value::Null);
    site.db
        .execute("update orgs set max_live_attempts = 0 + 1")
        .await;
    assert_eq!(waiting().await, Value::Null);
    site.db.execute("update devices set slots = 0").await;
    assert_eq!(reason().await, "no_free_slot");
    site.store
        .set_device_draining(device.id, true)
        .await
        .unwrap();
    assert_eq!(reason().await, "paused");
    site.db
        .execute("update devices set disconnected_at = connected_at")
        .await;
    let away = json!({ "reason": "no_capable_device", "missing": [], "devices_away": 1 });
    assert_eq!(waiting().await, away);
    drop(session);
    buyer.cancel(&job).await;
    assert_eq!(waiting().await, Value::Null);
}

#[tokio::test]
async fn a_job_settles_by_the_terms_of_its_creation_when_prices_were_changed_since() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let device = site.device(&gateway, "mac").await;
    let mut session = device.connect(&gateway).await;
    let (offer, output) = session.lease_and_upload(&gateway, b"bytes").await;
    let file = site.folder.path().join("fencepost.toml");
    let dearer = std::fs::read_to_string(&file).unwrap().replace(
        "base_micros = 1000",
        "base_micros = 70000\nprovider_share_bps = 10",
    );
    std::fs::write(&file, dearer).unwrap();
    let other = site.gateway().await;
    let (_, quote) = buyer
        .at(&other)
        .post("/v1/quotes", &json!({ "service": "noop.v1" }))
        .await;
    assert_eq!(quote["hold_micros"], 75_000);
    session.ask(commit(&offer, &output)).await;
    let money = &buyer.at(&other).job(&job).await["money"];
    assert_eq!(money["held_micros"], HELD);
    let (captured, released) = (&money["captured_micros"], &money["released_micros"]);
    let sum = captured.as_i64().unwrap() + released.as_i64().unwrap();
    assert_eq!(sum, HELD);
    let share = site
        .db
        .text(&format!("select amount_micros from postings where job_id = '{job}' and kind = 'capture_provider'"))
        .await;
    assert_eq!(share, (captured.as_i64().unwrap() * 7 / 10).to_string());
    assert_eq!(site.operate(&["ledger", "check"]).await["is_clean"], true);
}

#[tokio::test]
async fn a_journal_shows_the_month_with_its_balances() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let other = site.other_buyer(&gateway).await;
    let job = buyer.submit_noop().await;
    buyer.cancel(&job).await;
    let month = fencepost_domain::period::UtcMonth::of(site.clock.now().await);
    let (status, journal) = buyer
        .get(&format!("/v1/journal?month={month}&limit=2"))
        .await;
    assert_eq!(status, StatusCode::OK, "{journal}");
    let period = &journal["period"];
    let nothing = json!({ "available_micros": 0, "held_micros": 0 });
    assert_eq!(period["opening"], nothing, "{journal}");
    let closing = json!({ "available_micros": CREDIT, "held_micros": 0 });
    assert_eq!(period["closing"], closing);
    let released = &journal["postings"][0];
    assert_eq!(
        (&released["kind"], &released["job_id"]),
        (&json!("release"), &json!(job))
    );
    assert_eq!(released["available_change_micros"], HELD);
    assert_eq!(released["held_change_micros"], -HELD);
    assert_eq!(released["id"], format!("release_{job}"));
    let cursor = journal["next_cursor"].as_str().unwrap();
    let (_, rest) = buyer.get(&format!("/v1/journal?cursor={cursor}")).await;
    assert_eq!(rest["postings"].as_array().unwrap().len(), 1, "{rest}");
    assert_eq!(
        (&rest["next_cursor"], &rest["period"]),
        (&Value::Null, &Value::Null)
    );
    let (_, before) = buyer.get("/v1/journal?month=2020-02").await;
    assert_eq!(before["period"]["closing"], nothing);
    // Another org's movement is no place in this journal, in which something is older.
    let path = format!("/v1/journal?cursor={cursor}");
    let (_, of_other) = other.get(&path).await;
    assert_eq!(of_other["postings"], json!([]));
    for (query, field) in [("month=2020-2", "month"), ("cursor=40", "cursor")] {
        let (status, problem) = buyer.get(&format!("/v1/journal?{query}")).await;
        assert_eq!(
            (status, &problem["field"]),
            (StatusCode::BAD_REQUEST, &json!(field))
        );
    }
    let said = site.operate(&["org", "statement", "acme"]).await;
    assert_eq!(said["closing"], closing);
    assert_eq!(said["totals"].as_array().unwrap().len(), 3, "{said}");
    let earned = site.operate(&["provider", "earnings", "macs"]).await;
    assert_eq!(earned["total_micros"], 0);
}

#[tokio::test]
async fn a_ledger_that_does_not_add_up_is_an_exit_code_and_names_whom() {
    let site = Site::new().await;
    let break_it = "update org_accounts set available_micros = available_micros + 1";
    site.db.execute(break_it).await;
    let folder = site.folder.path();
    let config = folder.join("fencepost.toml");
    let url = format!(
        "database.url_file={}",
        folder.join("database.url").display()
    );
    let words = [
        "ledger",
        "check",
        "--json",
        "--config",
        config.to_str().unwrap(),
        "--set",
        &url,
    ];
    let output = run("fencepost", &words, &[]).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["is_clean"], false);
    assert_eq!(report["findings"][0]["ids"], json!([site.org]));
    site.db
        .execute("update org_accounts set available_micros = available_micros - 1")
        .await;
    assert_eq!(site.operate(&["ledger", "check"]).await["is_clean"], true);
}

#[tokio::test]
async fn whatever_an_operator_changes_is_in_the_audit_log_with_a_name_and_without_a_secret() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let device = site.device(&gateway, "mac").await.id.to_string();
    let org = site.operate(&["org", "create", "new"]).await["org_id"].clone();
    let org = org.as_str().unwrap();
    let key = site.operate(&["key", "create", "--org", org]).await;
    let code = site
        .operate(&["device", "enroll", "--provider", "macs"])
        .await;
    let key_id = key["key_id"].as_str().unwrap();
    for words in [
        &["key", "revoke", key_id][..],
        &["credit", "add", "--org", org, "2.50"],
        &["provider", "create", "another"],
        &["device", "drain", &device],
        &["device", "undrain", &device],
        &["device", "disable", &device, "--note", "too hot"],
        &["device", "enable", &device],
        &["clock", "accept"],
    ] {
        site.operate(words).await;
    }
    let log = site.operate(&["audit", "list", "--limit", "100"]).await;
    let lines = log["lines"].as_array().unwrap();
    let by_olga: Vec<_> = lines
        .iter()
        .filter(|line| line["actor"] == "cli:olga")
        .map(|line| line["action"].as_str().unwrap())
        .rev()
        .collect();
    let expected = "org.create key.create device.enroll key.revoke credit.add provider.create \
        device.drain device.undrain device.disable device.enable clock.accept";
    assert_eq!(by_olga.join(" "), expected);
    for secret in [&key["key"], &code["code"]] {
        assert!(!log.to_string().contains(secret.as_str().unwrap()));
    }
    let about = site.operate(&["audit", "list", "--subject", &device]).await;
    let disabled = &about["lines"][1];
    assert_eq!(disabled["action"], "device.disable", "{about}");
    assert_eq!(disabled["detail"]["note"], "too hot");
    // What names nothing changes nothing, and is no line.
    let unknown = site
        .store
        .revoke_api_key(fencepost_domain::ids::ApiKeyId::new())
        .await;
    assert!(!unknown.unwrap());
    let after = site.operate(&["audit", "list", "--limit", "100"]).await;
    assert_eq!(after["lines"].as_array().unwrap().len(), lines.len());
}
