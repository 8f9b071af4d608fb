//! A configuration that is wrong is refused at start, by the name of what is wrong.

use fencepost_tests::Site;
use fencepost_tests::processes::Process;

/// Starts a gateway that must refuse, and gives what it says.
async fn refuses(site: &Site, settings: &[(&str, &str)], environment: &[(&str, &str)]) -> String {
    let mut command = site.command(settings);
    command.envs(environment.iter().copied());
    let log_file = site.folder.path().join("refused.log");
    std::fs::remove_file(&log_file).ok();
    let mut process = Process::start(&mut command, &log_file);
    let status = process.wait().await;
    assert!(
        !status.success(),
        "{settings:?} {environment:?} was accepted"
    );
    process.log()
}

#[tokio::test]
async fn lengths_of_time_that_do_not_go_together_are_refused_by_name() {
    let site = Site::new().await;
    for (key, value, other) in [
        ("leases.session_dead", "8s", "leases.ttl"),
        ("leases.heartbeat", "5s", "leases.session_dead"),
        ("leases.ttl", "7s", "leases.renew"),
        ("leases.renew", "3s", "leases.answer"),
        ("leases.reconnect_max", "5s", "leases.reconnect_max"),
        ("leases.run_time", "8s", "leases.ttl"),
    ] {
        let said = refuses(&site, &[(key, value)], &[]).await;
        assert!(
            said.contains(key) && said.contains(other),
            "{key} = {value}: {said}"
        );
    }
}

#[tokio::test]
async fn lengths_of_time_that_are_none_are_refused() {
    let site = Site::new().await;
    for value in ["0s", "-1s", "1.5s", "25h", "8", "eight"] {
        let said = refuses(&site, &[("leases.ttl", value)], &[]).await;
        assert!(said.contains("ttl"), "{value}: {said}");
    }
}

#[tokio::test]
async fn keys_that_nobody_knows_are_refused_wherever_they_come_from() {
    let site = Site::new().await;
    for (setting, variable, named) in [
        (Some(("leases.tll", "9s")), None, "tll"),
        (Some(("lease.ttl", "9s")), None, "lease"),
        (None, Some(("FENCEPOST_LEASES__TLL", "9s")), "tll"),
        (
            None,
            Some(("FENCEPOST_LEASES_TTL", "9s")),
            "FENCEPOST_LEASES_TTL",
        ),
        (
            None,
            Some(("FENCEPOST_BIND", "127.0.0.1:0")),
            "FENCEPOST_BIND",
        ),
    ] {
        let settings: Vec<_> = setting.into_iter().collect();
        let variables: Vec<_> = variable.into_iter().collect();
        let said = refuses(&site, &settings, &variables).await;
        assert!(said.contains(named), "{said}");
    }
    let file = site.folder.path().join("fencepost.toml");
    let right = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{right}\ncolour = true\n")).unwrap();
    let said = refuses(&site, &[], &[]).await;
    assert!(said.contains("colour"), "{said}");
}

#[tokio::test]
async fn a_secret_may_not_be_an_argument() {
    let site = Site::new().await;
    let secret = "postgres://u:hunter2hunter2@127.0.0.1/x";
    for key in [
        "database.url",
        "artifacts.signing_key",
        "webhooks.secret_key",
    ] {
        let said = refuses(&site, &[(key, secret)], &[]).await;
        assert!(said.contains(key) && !said.contains("hunter2"), "{said}");
    }
}

#[tokio::test]
async fn a_bucket_that_is_half_given_is_refused_by_what_is_missing() {
    let site = Site::new().await;
    let file = site.folder.path().join("signing.key");
    let file = file.to_str().unwrap();
    let whole = [
        ("artifacts.kind", "s3"),
        ("artifacts.s3.bucket", "b"),
        ("artifacts.s3.region", "r"),
        ("artifacts.s3.access_key_id_file", file),
        ("artifacts.s3.secret_access_key_file", file),
    ];
    for missing in 0..whole.len() {
        let mut settings = whole.to_vec();
        let (key, _) = settings.remove(missing);
        let said = refuses(&site, &settings, &[]).await;
        assert!(said.contains(key), "{key}: {said}");
    }
    for (key, value) in [
        ("artifacts.s3.endpoint", "http://192.0.2.1:9000"),
        ("artifacts.s3.endpoint", "https://s3.example.com/bucket"),
        ("artifacts.s3.endpoint", "s3.example.com"),
        ("artifacts.s3.part_bytes", "1000"),
        ("artifacts.s3.colour", "red"),
        ("artifacts.s3.secret_access_key", "hunter2hunter2"),
    ] {
        let settings = [&whole[..], &[(key, value)]].concat();
        let said = refuses(&site, &settings, &[]).await;
        let name = key.rsplit('.').next().unwrap();
        assert!(
            said.contains(name) && !said.contains("hunter2"),
            "{key}: {said}"
        );
    }
    let twice = (
        "FENCEPOST_ARTIFACTS__S3__SECRET_ACCESS_KEY",
        "hunter2hunter2",
    );
    let said = refuses(&site, &whole, &[twice]).await;
    assert!(
        said.contains("artifacts.s3.secret_access_key_file"),
        "{said}"
    );
    assert!(!said.contains("hunter2"), "{said}");
}

#[tokio::test]
async fn tokens_do_not_travel_in_clear_unless_a_proxy_stands_in_front() {
    let site = Site::new().await;
    let said = refuses(&site, &[("http.bind", "0.0.0.0:0")], &[]).await;
    assert!(
        said.contains("http.bind") && said.contains("behind_proxy"),
        "{said}"
    );
}

#[tokio::test]
async fn networks_and_keys_of_webhooks_that_are_none_are_refused_and_open_networks_are_said() {
    let site = Site::new().await;
    for value in ["localhost", "127.0.0.1", "10.0.0.0/40"] {
        let said = refuses(&site, &[("egress.allow_cidrs", value)], &[]).await;
        assert!(said.contains("allow_cidrs"), "{value}: {said}");
    }
    let short = ("FENCEPOST_WEBHOOKS__SECRET_KEY", "hunter2hunter2");
    let said = refuses(&site, &[], &[short]).await;
    assert!(
        said.contains("webhooks.secret_key") && !said.contains("hunter2"),
        "{said}"
    );
    let open = ("egress.allow_cidrs", "10.1.0.0/16, fd00::/8");
    let gateway = site.gateway_with(&[open]).await;
    assert!(gateway.process.log().contains("10.1.0.0/16, fd00::/8"));
    let closed = site.gateway().await;
    assert!(!closed.process.log().contains("egress"));
}

#[tokio::test]
async fn an_address_that_is_taken_is_refused_in_one_line() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let taken = format!("127.0.0.1:{}", gateway.port());
    let said = refuses(&site, &[("http.bind", &taken)], &[]).await;
    assert!(
        said.contains("http.bind: cannot listen on") && !said.contains("panicked"),
        "{said}"
    );
}
