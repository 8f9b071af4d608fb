//! `fencepost webhook …`: endpoints, secrets and deliveries, with a buyer's key.

use fencepost_tests::Site;
use fencepost_tests::receiver::Receiver;
use fencepost_tests::terminal::complaint;
use fencepost_tests::wait::until;
use serde_json::json;

use super::terminal;

#[tokio::test]
async fn an_endpoint_is_made_used_switched_and_deleted_from_the_terminal() {
    let site = Site::new().await;
    let gateway = site.gateway_for_webhooks().await;
    let (terminal, buyer) = (terminal(&site, &gateway), site.buyer(&gateway));
    let receiver = Receiver::good().await;
    let made = terminal.told(&["webhook", "create", &receiver.url]).await;
    let (id, secret) = (
        made[0]["id"].as_str().unwrap(),
        made[0]["secret"].as_str().unwrap(),
    );
    buyer.submit_and_cancel().await;
    let heard = receiver.until_heard(1).await;
    assert!(heard[0].is_signed_with(secret));
    let list = terminal.says(&["webhook", "list"]).await;
    assert!(list.contains(id) && list.contains("works"), "{list}");
    assert!(!list.contains(secret), "{list}");
    until("the delivery to be done", || async {
        let told = terminal.told(&["webhook", "deliveries", id]).await;
        told.len() == 1 && told[0]["state"] == "succeeded"
    })
    .await;
    let shown = terminal.says(&["webhook", "deliveries", id]).await;
    assert!(
        shown.contains("job.cancelled") && shown.contains("204"),
        "{shown}"
    );
    let event = terminal.told(&["webhook", "deliveries", id]).await[0]["event_id"].clone();
    let event = event.as_str().unwrap();
    let again = terminal
        .told(&["webhook", "redeliver", id, "--event", event])
        .await;
    assert_eq!(again[0]["redelivered"], 1);
    receiver.until_heard(2).await;
    let since = [
        "webhook",
        "redeliver",
        id,
        "--since",
        "2020-01-01T00:00:00Z",
    ];
    assert_eq!(terminal.told(&since).await[0]["redelivered"], 0);
    // A new secret is shown once, too; the old one signs until it is over.
    let rotated = terminal
        .says(&["webhook", "rotate", id, "--keep", "1h"])
        .await;
    assert!(
        rotated.contains("whsec_") && rotated.contains("signs too until"),
        "{rotated}"
    );
    assert!(!rotated.contains(secret), "{rotated}");
    let rotated = terminal
        .says(&["webhook", "rotate", id, "--keep", "0s"])
        .await;
    assert!(!rotated.contains("signs too"), "{rotated}");
    terminal.says(&["webhook", "disable", id]).await;
    let list = terminal.says(&["webhook", "list"]).await;
    assert!(list.contains("off (buyer)"), "{list}");
    let output = terminal
        .buyer(&["webhook", "redeliver", id, "--event", event])
        .await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    terminal.says(&["webhook", "enable", id]).await;
    terminal.says(&["webhook", "delete", id]).await;
    let left = terminal.told(&["webhook", "list"]).await;
    assert_eq!(left, [json!({ "webhook_endpoints": [] })]);
}

#[tokio::test]
async fn an_endpoint_can_be_for_some_events_or_for_jobs_that_name_it() {
    let site = Site::new().await;
    let gateway = site.gateway_for_webhooks().await;
    let terminal = terminal(&site, &gateway);
    let create = ["webhook", "create", "http://127.0.0.1:9/hook"];
    let failures = terminal
        .told(&[&create[..], &["--event", "job.failed"]].concat())
        .await;
    assert_eq!(failures[0]["event_types"], json!(["job.failed"]));
    let named = terminal
        .told(&[&create[..], &["--named-only"]].concat())
        .await;
    assert_eq!(named[0]["event_types"], json!([]));
    let list = terminal.says(&["webhook", "list"]).await;
    assert!(list.contains("of jobs that name it"), "{list}");
    for (words, why) in [
        (&["create", "ftp://127.0.0.1/"][..], "url: "),
        (
            &["create", "https://a.example", "--event", "job.started"],
            "possible values",
        ),
        (&["rotate", "42"], "fencepost webhook list"),
        (
            &["delete", "019adf00-0000-7000-8000-000000000001"],
            "not_found",
        ),
        (
            &["redeliver", "019adf00-0000-7000-8000-000000000001"],
            "--event",
        ),
    ] {
        let output = terminal.buyer(&[&["webhook"], words].concat()).await;
        assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
        assert!(complaint(&output).contains(why), "{words:?}: {output:?}");
    }
}
