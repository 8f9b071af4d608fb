//! What operators' machines ask.

use fencepost_domain::attempt::Phase;
use fencepost_domain::ids::{DeviceId, InstanceId};
use fencepost_embedded::{EmbeddedPostgres, StartOptions};
use fencepost_store::{Store, StoreSettings};
use fencepost_tests::Site;
use fencepost_tests::agent_client::Device;
use fencepost_tests::agent_frames::{commit, fail};
use fencepost_tests::processes::{program, signal_tree};
use fencepost_tests::wait::until;
use reqwest::StatusCode;
use rustix::process::{Pid, Signal};
use tokio_tungstenite::tungstenite::Error;

#[tokio::test]
async fn a_gateway_says_that_it_lives_that_it_is_ready_and_what_it_counted() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let live = gateway.client.get(format!("{}/live", gateway.admin_url));
    assert_eq!(live.send().await.unwrap().status(), StatusCode::OK);
    let (ready, said) = gateway.readiness().await;
    assert!(ready, "{said}");

    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let job = buyer.submit_noop().await;
    let (offer, output) = session.lease_and_upload(&gateway, b"bytes").await;
    session.ask(commit(&offer, &output)).await;
    session.ask(fail(&offer, "runner_failed")).await;
    let mut stale = offer.clone();
    stale.lease_epoch = 7;
    session.ask(commit(&stale, &output)).await;
    buyer.submit_noop().await;
    session.lease_in(Phase::Running).await;

    let metrics = gateway.metrics().await;
    let value = |start: &str| {
        let line = metrics.lines().find(|line| line.starts_with(start));
        let line = line.unwrap_or_else(|| panic!("no {start} in\n{metrics}"));
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    assert!(value("fencepost_commits_total{outcome=\"succeeded\"}") >= 1.0);
    let fenced = "fencepost_fenced_total{operation=\"commit\",code=\"commit_conflict\"}";
    assert!(value(fenced) >= 1.0);
    let violations = "fencepost_invariant_violations_total{id=\"attempts\"} 0";
    assert!(metrics.lines().any(|line| line == violations), "{metrics}");
    assert!(value("fencepost_lease_offers_total{result=\"sent\"}") >= 2.0);
    assert!(value("fencepost_tx_total{tx=\"settle_commit\"") >= 1.0);
    for word in [
        &job,
        &offer.attempt_id.to_string(),
        &session.device.id.to_string(),
    ] {
        assert!(!metrics.contains(word), "a label names one thing: {word}");
    }
    // Gauges are what the rows say, also on a gateway that did none of it and after a restart.
    buyer.submit_noop().await;
    let other = site.gateway().await;
    for gateway in [&gateway, &other] {
        let metrics = gateway.metrics().await;
        for line in [
            "fencepost_queue_jobs{service=\"noop.v1\"} 1",
            "fencepost_queue_jobs{service=\"transcode.v1\"} 0",
            "fencepost_attempts{status=\"running\"} 1",
            "fencepost_attempts{status=\"uploading\"} 0",
            "fencepost_devices_connected 1",
            "fencepost_slots{state=\"taken\"} 1",
            "fencepost_slots{state=\"free\"} 3",
        ] {
            assert!(
                metrics.lines().any(|said| said == line),
                "no {line} in\n{metrics}"
            );
        }
    }
    // The API's listener has none of it.
    for path in ["/live", "/ready", "/metrics", "/actors"] {
        assert_eq!(
            gateway.get(path).await.status(),
            StatusCode::NOT_FOUND,
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_gateway_is_not_ready_while_postgres_stands_still_and_is_again_afterwards() {
    // A server of its own: the others' must go on.
    let target = program("fencepost");
    let folder = tempfile::tempdir_in(target.parent().unwrap().parent().unwrap().join("tmp"));
    let folder = folder.unwrap();
    let mut options = StartOptions::new(folder.path().join("postgres"));
    options.temporary = true;
    let postgres = EmbeddedPostgres::start(options).await.unwrap();
    let server = Pid::from_raw(i32::try_from(postgres.pid()).unwrap()).unwrap();
    let store = Store::open(postgres.url().expose(), StoreSettings::default()).unwrap();
    store.migrate().await.unwrap();
    store.close().await;

    let site = Site::new().await;
    let url_file = site.folder.path().join("own.url");
    std::fs::write(&url_file, postgres.url().expose()).unwrap();
    let url_file = url_file.to_str().unwrap();
    let gateway = site.gateway_with(&[("database.url_file", url_file)]).await;
    assert!(gateway.readiness().await.0);
    let device = Device {
        id: DeviceId::new(),
        token: "fp_device_of_nobody".to_owned(),
        slots: 1,
        words: Vec::new(),
        instance: InstanceId::new(),
    };
    signal_tree(server, Signal::STOP);
    until("a gateway that is not ready", || async {
        !gateway.readiness().await.0
    })
    .await;
    let live = gateway.client.get(format!("{}/live", gateway.admin_url));
    assert_eq!(live.send().await.unwrap().status(), StatusCode::OK);
    // An agent that dials is told so, too, instead of being left in the dark.
    let dialled = device.try_dial(gateway.port()).await.map(drop);
    let Err(Error::Http(response)) = dialled else {
        panic!("{dialled:?}")
    };
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(response.headers().contains_key("retry-after"));
    signal_tree(server, Signal::CONT);
    until("a gateway that is ready again", || async {
        gateway.readiness().await.0
    })
    .await;
    drop(gateway);
    postgres.stop().await.unwrap();
}
