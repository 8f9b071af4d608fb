//! What operators see: keys, names that are long, ids that are none.

use fencepost_tests::Site;
use fencepost_tests::buyer::Buyer;
use fencepost_tests::terminal::complaint;
use serde_json::Value;

#[tokio::test]
async fn keys_are_listed_by_their_last_characters_and_revoked_once() {
    let site = Site::new().await;
    let made = site
        .operate(&["key", "create", "--org", "acme", "--test"])
        .await;
    let (id, key) = (
        made["key_id"].as_str().unwrap(),
        made["key"].as_str().unwrap(),
    );
    let hint = format!("fp_test_…{}", &key[key.len() - 4..]);
    site.operate(&["org", "create", "quiet"]).await;
    let none = site.operate(&["key", "list", "--org", "quiet"]).await;
    assert_eq!(none["keys"].as_array().unwrap().len(), 0);
    let listed = site.operate(&["key", "list", "--org", "acme"]).await;
    let latest = &listed["keys"][0];
    assert_eq!(
        (latest["key_id"].as_str(), latest["hint"].as_str()),
        (Some(id), Some(&*hint))
    );
    assert_eq!(latest["revoked_at"], Value::Null);
    assert_eq!(latest["last_used_at"], Value::Null);
    let gateway = site.gateway().await;
    Buyer::new(&gateway, key).get("/v1/jobs").await;
    let listed = site.operate(&["key", "list", "--org", "acme"]).await;
    assert!(listed["keys"][0]["last_used_at"].is_string(), "{listed}");
    let shown = site.operator(&["key", "list"]).await;
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains(&hint) && !shown.contains(key), "{shown}");
    // The key itself is not an id, and is not said again.
    let output = site.operator(&["key", "revoke", key]).await;
    assert!(!output.status.success(), "{output:?}");
    let told = complaint(&output);
    assert!(told.contains("key list") && !told.contains(key), "{told}");
    let first = site.operate(&["key", "revoke", id]).await;
    assert_eq!(first["changed"], true);
    let again = site.operate(&["key", "revoke", id]).await;
    assert_eq!(
        (&again["changed"], &again["revoked_at"]),
        (&Value::Bool(false), &first["revoked_at"])
    );
    let said = site.operator(&["key", "revoke", id]).await;
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(
        said.contains("has been revoked since") && said.contains(&hint),
        "{said}"
    );
}

#[tokio::test]
async fn a_word_that_is_no_id_is_told_what_one_is_and_where() {
    let site = Site::new().await;
    let unknown = "019adf00-0000-7000-8000-000000000001";
    for (words, shown_by) in [
        (&["device", "drain", "mac"][..], "fencepost device list"),
        (&["device", "drain", unknown], "fencepost device list"),
        (&["endpoint", "disable", "hook"], "fencepost endpoint list"),
        (&["attempt", "revoke", "1"], "fencepost job get"),
        (&["key", "revoke", "acme"], "fencepost key list"),
        (&["key", "revoke", unknown], "fencepost key list"),
        (&["key", "create", "--org", "acne"], "fencepost org list"),
        (&["key", "create", "--org", unknown], "fencepost org list"),
        (&["provider", "earnings", "max"], "fencepost provider list"),
    ] {
        let output = site.operator(words).await;
        assert!(!output.status.success(), "{words:?}: {output:?}");
        let told = complaint(&output);
        assert!(told.contains(shown_by), "{words:?}: {told}");
        assert!(words[2] == unknown || told.contains("019adf00-") || told.contains("there is no"));
    }
}

#[tokio::test]
async fn a_long_name_keeps_its_columns() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let name = "M".repeat(90);
    site.device(&gateway, &name).await;
    site.device(&gateway, "mini").await;
    let output = site.operator(&["device", "list"]).await;
    let shown = String::from_utf8(output.stdout).unwrap();
    let column = shown.lines().next().unwrap().find("STATE").unwrap();
    for line in shown.lines().skip(1) {
        assert!(line[column..].starts_with("enabled"), "{shown}");
    }
    assert!(
        shown.contains(&name),
        "nothing is cut where no terminal is: {shown}"
    );
}
