//! Gateways whose machines are told different time zones, over the days on which those change their
//! clocks: months and times to keep things are the same to all, and are UTC.

use std::time::Duration;

use fencepost_domain::period::UtcMonth;
use fencepost_tests::processes::run;
use fencepost_tests::stage::start;
use fencepost_tests::wait::until;
use fencepost_tests::{Site, TestGateway};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use time::macros::datetime;

const ZONES: [&str; 2] = ["America/New_York", "Europe/Berlin"];
const DAY: Duration = Duration::from_hours(24);

/// A gateway that keeps unused uploads for a day, on a machine in this zone.
async fn in_zone(site: &Site, zone: &str) -> TestGateway {
    let mut command = site.command(&[("retention.unused_uploads_days", "1")]);
    command.env("TZ", zone).env("PGTZ", zone);
    let log = site.folder.path().join(zone.replace('/', "-"));
    start(&mut command, &log).await
}

/// The clock is put ahead by months, and the operators say that this is right.
async fn put_ahead(site: &Site, to: OffsetDateTime) {
    site.clock.set(to).await;
    site.operate(&["clock", "accept"]).await;
}

/// The journal of a month, and the operators' statement in each zone, say the same.
async fn holds_in(site: &Site, gateways: &[TestGateway], month: UtcMonth) -> u64 {
    let mut counted = Vec::new();
    for (gateway, zone) in gateways.iter().zip(ZONES) {
        let path = format!("/v1/journal?month={month}&limit=100");
        let (_, journal) = site.buyer(gateway).get(&path).await;
        let postings = journal["postings"].as_array().expect("a list");
        let holds = postings.iter().filter(|one| one["kind"] == "hold").count();
        counted.push(u64::try_from(holds).expect("few"));

        let path = |name: &str| site.folder.path().join(name).display().to_string();
        let url = format!("database.url_file={}", path("database.url"));
        let (config, month) = (path("fencepost.toml"), month.to_string());
        let words = ["org", "statement", "acme", "--month", &month, "--json"];
        let words = [&words[..], &["--config", &config, "--set", &url]].concat();
        let said = run("fencepost", &words, &[("TZ", zone), ("USER", "olga")]).await;
        assert!(said.status.success(), "{said:?}");
        let said: Value = serde_json::from_slice(&said.stdout).expect("JSON");
        let totals = said["totals"].as_array().expect("a list");
        let holds = totals.iter().find(|one| one["kind"] == "hold");
        counted.push(holds.map_or(0, |one| one["postings"].as_u64().expect("a number")));
    }
    assert!(
        counted.iter().all(|one| *one == counted[0]),
        "{month}: {counted:?}"
    );
    counted[0]
}

#[tokio::test]
async fn whatever_zone_a_machine_is_in_months_and_days_to_keep_things_are_utc() {
    let site = Site::new().await;
    let zone = format!(
        "alter database {} set timezone = 'America/New_York'",
        site.db.name()
    );
    site.db.execute(&zone).await;
    let gateways = [
        in_zone(&site, ZONES[0]).await,
        in_zone(&site, ZONES[1]).await,
    ];
    let [here, there] = [0, 1].map(|at: usize| site.buyer(&gateways[at]));
    // New York has skipped an hour, Berlin is about to; the ends of two months, in both zones and in
    // neither; Berlin has an hour twice, then New York.
    let instants = [
        datetime!(2027-03-13 20:00 UTC),
        datetime!(2027-03-27 20:00 UTC),
        datetime!(2027-03-31 23:59:59 UTC),
        datetime!(2027-04-01 00:00 UTC),
        datetime!(2027-04-01 03:30 UTC),
        datetime!(2027-10-30 20:00 UTC),
        datetime!(2027-10-31 23:30 UTC),
        datetime!(2027-11-01 00:30 UTC),
        datetime!(2027-11-06 20:00 UTC),
    ];
    for instant in instants {
        put_ahead(&site, instant).await;
        here.submit_and_cancel().await;
        if instant.time() != time::macros::time!(20:00) {
            continue;
        }
        // In the day from now on some clock is changed; it has 24 hours all the same.
        let upload = there.upload(b"nobody uses it").await;
        let path = format!("/v1/uploads/{upload}");
        let (_, kept) = here.get(&path).await;
        let expires_at = kept["expires_at"].as_str().expect("a time");
        let expires_at = OffsetDateTime::parse(expires_at, &Rfc3339).expect("a time");
        assert_eq!(expires_at, instant + DAY);
        put_ahead(&site, instant + DAY - Duration::from_secs(2)).await;
        for buyer in [&here, &there] {
            assert_eq!(buyer.get(&path).await.1["deleted_at"], Value::Null);
        }
        site.pass(Duration::from_secs(4)).await;
        until("the upload to be deleted", || async {
            here.get(&path).await.1["deleted_at"] != Value::Null
        })
        .await;
    }
    for (month, expected) in [
        ("2027-03", 3),
        ("2027-04", 2),
        ("2027-10", 2),
        ("2027-11", 2),
    ] {
        let month = month.parse().expect("a month");
        assert_eq!(holds_in(&site, &gateways, month).await, expected, "{month}");
    }
    let (_, balance) = here.get("/v1/balance").await;
    assert_eq!(balance["held_micros"], json!(0));
}
