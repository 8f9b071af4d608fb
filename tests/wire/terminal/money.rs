//! `fencepost balance` and `fencepost journal`.

use fencepost_tests::Site;
use fencepost_tests::terminal::complaint;
use serde_json::json;

use super::terminal;

#[tokio::test]
async fn the_balance_and_every_movement_of_it_are_shown() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let (terminal, buyer) = (terminal(&site, &gateway), site.buyer(&gateway));
    let job = buyer.submit_noop().await;
    let shown = terminal.says(&["balance"]).await;
    assert_eq!(shown, "available  999.994\nheld       0.006\n");
    let told = terminal.told(&["balance"]).await;
    assert_eq!(
        told,
        [json!({ "available_micros": 999_994_000, "held_micros": 6_000 })]
    );
    buyer.cancel(&job).await;
    let journal = terminal.says(&["journal"]).await;
    let lines: Vec<Vec<_>> = journal
        .lines()
        .map(|line| line.split_whitespace().skip(1).collect())
        .collect();
    assert_eq!(lines[0], ["KIND", "AVAILABLE", "HELD", "JOB"]);
    assert_eq!(lines[1], ["release", "+0.006", "-0.006", &job]);
    assert_eq!(lines[2], ["hold", "-0.006", "+0.006", &job]);
    assert_eq!(lines[3], ["credit", "+1000.00"]);
    let holds = terminal.told(&["journal", "--kind", "hold"]).await;
    assert_eq!((holds.len(), &holds[0]["job_id"]), (1, &json!(job)));
    for _ in 0..3 {
        buyer.submit_noop().await;
    }
    assert_eq!(terminal.told(&["journal", "--limit", "2"]).await.len(), 2);
    assert_eq!(terminal.told(&["journal", "--all"]).await.len(), 6);
    let output = terminal.buyer(&["journal", "--month", "2020-01"]).await;
    let told = complaint(&output);
    assert!(
        told.contains("opening: 0.00 available, 0.00 held"),
        "{told}"
    );
    for wrong in [["--month", "2020-13"], ["--kind", "gift"], ["--limit", "0"]] {
        let output = terminal.buyer(&[&["journal"], &wrong[..]].concat()).await;
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
}
