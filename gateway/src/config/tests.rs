//! A configuration is taken as it was meant, or refused by name.

use std::io::Write as _;

use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::service::ServiceName;

use super::*;

fn origins(toml: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> Loaded {
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    file.write_all(toml.as_bytes()).unwrap();
    let pairs = |list: &[(&str, &str)]| -> Vec<(String, String)> {
        list.iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    };
    let origins = Origins {
        file: Some(file.path().to_owned()),
        environment: pairs(environment).into_iter().collect(),
        flags: pairs(flags),
    };
    load(&origins)
}

type Loaded = Result<Config, ConfigError>;

#[track_caller]
fn refused(loaded: Loaded, words: &[&str]) {
    let problem = loaded
        .expect_err("this configuration breaks a rule")
        .to_string();
    for word in words {
        assert!(problem.contains(word), "{word:?} is not in: {problem}");
    }
}

#[test]
fn an_empty_file_gives_the_defaults_of_the_contract() {
    let leases = origins("", &[], &[]).unwrap().leases;
    assert_eq!(leases.ttl, LeaseDuration::seconds(60));
    assert_eq!(leases.renew, LeaseDuration::seconds(20));
    assert_eq!(leases.session_dead, LeaseDuration::seconds(45));
    assert_eq!(leases.max_attempts, 3);
    assert_eq!(leases.run_time, LeaseDuration::seconds(21_600));
}

#[test]
fn a_list_is_read_wherever_it_is_written() {
    let networks = |loaded: Loaded| loaded.unwrap().egress.allow_cidrs.to_string();
    let (one, two) = (r#"["10.0.0.0/8"]"#, r#"[ "10.0.0.0/8", "fd00::/8" ]"#);
    for (written, expected) in [
        (one, "10.0.0.0/8"),
        (two, "10.0.0.0/8, fd00::/8"),
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("10.0.0.0/8, fd00::/8", "10.0.0.0/8, fd00::/8"),
        ("[]", ""),
    ] {
        let flag = [("egress.allow_cidrs", written)];
        assert_eq!(networks(origins("", &[], &flag)), expected, "{written}");
        let variable = [("FENCEPOST_EGRESS__ALLOW_CIDRS", written)];
        assert_eq!(networks(origins("", &variable, &[])), expected, "{written}");
    }
    let both = origins(
        "",
        &[("FENCEPOST_EGRESS__ALLOW_CIDRS", one)],
        &[("egress.allow_cidrs", r#"["fd00::/8"]"#)],
    );
    assert_eq!(networks(both), "fd00::/8", "flags win over the environment");
}

#[test]
fn what_is_no_list_is_refused_with_how_to_write_one() {
    for written in [
        "[10.0.0.0/8]",
        "[\"10.0.0.0/8\"",
        "[[]]",
        "[\"a\"]\nx = [1]",
    ] {
        let flag = [("egress.allow_cidrs", written)];
        refused(origins("", &[], &flag), &["allow_cidrs", "10.0.0.0/8"]);
        let variable = [("FENCEPOST_EGRESS__ALLOW_CIDRS", written)];
        refused(origins("", &variable, &[]), &["10.0.0.0/8"]);
    }
    let address = origins("", &[], &[("http.bind", "[::1]:8080")]).unwrap();
    assert_eq!(address.http.bind.to_string(), "[::1]:8080");
    refused(
        origins("", &[], &[("http.bind", r#"["a"]"#)]),
        &["http.bind"],
    );
}

#[test]
fn flags_win_over_the_environment_which_wins_over_the_file() {
    let file = "[http]\nworkers = 3\n[leases]\nttl = \"70s\"\naccept = \"5s\"";
    let environment = [
        ("FENCEPOST_LEASES__TTL", "80s"),
        ("FENCEPOST_HTTP__WORKERS", "4"),
    ];
    let config = origins(file, &environment, &[("http.workers", "5")]).unwrap();
    assert_eq!(config.http.workers, 5);
    assert_eq!(config.leases.ttl, LeaseDuration::seconds(80));
    assert_eq!(config.leases.accept, LeaseDuration::seconds(5));
}

#[test]
fn every_kind_of_value_can_come_from_the_environment() {
    let environment = [
        ("FENCEPOST_HTTP__BIND", "127.0.0.1:0"),
        ("FENCEPOST_HTTP__BEHIND_PROXY", "true"),
        ("FENCEPOST_ARTIFACTS__MAX_UPLOAD_BYTES", "1000"),
        ("FENCEPOST_TELEMETRY__FORMAT", "json"),
        ("FENCEPOST_DATABASE__URL", "postgres://u:p@h/d"),
    ];
    let config = origins("", &environment, &[]).unwrap();
    assert!(config.http.behind_proxy);
    assert_eq!(config.http.bind.port(), 0);
    assert_eq!(config.artifacts.max_upload_bytes, 1_000);
    assert_eq!(config.telemetry.format, LogFormat::Json);
    assert_eq!(
        config.database.url().unwrap().expose(),
        "postgres://u:p@h/d"
    );
}

#[test]
fn misspelt_keys_are_refused_by_name_wherever_they_stand() {
    refused(
        origins("[leases]\nttll = \"60s\"", &[], &[]),
        &["ttll", "leases"],
    );
    refused(
        origins("[lease]\nttl = \"60s\"", &[], &[]),
        &["lease", "leases"],
    );
    refused(
        origins("", &[("FENCEPOST_LEASES__TTLL", "60s")], &[]),
        &["ttll"],
    );
    refused(
        origins("", &[("FENCEPOST_LEASE__TTL", "60s")], &[]),
        &["lease"],
    );
    refused(
        origins("", &[("FENCEPOST_HTTP_BIND", "[::1]:1")], &[]),
        &["FENCEPOST_HTTP_BIND"],
    );
    refused(origins("", &[], &[("http.workerz", "1")]), &["workerz"]);
}

#[test]
fn variables_of_other_programs_are_none_of_ours() {
    let environment = [
        ("FENCEPOST_AGENT_STATE_DIR", "/x"),
        ("FENCEPOST_CONFIG", "y"),
        ("PATH", ""),
    ];
    assert!(origins("", &environment, &[]).is_ok());
}

#[test]
fn values_that_are_not_what_the_key_takes_are_refused_by_key() {
    refused(
        origins("[leases]\nttl = \"60\"", &[], &[]),
        &["leases.ttl", "60s"],
    );
    refused(origins("[leases]\nttl = 60", &[], &[]), &["leases.ttl"]);
    refused(origins("[http]\nbind = \"here\"", &[], &[]), &["http.bind"]);
    refused(origins("[http\n", &[], &[]), &["toml"]);
}

#[test]
fn relations_between_keys_are_checked_and_both_are_named() {
    refused(
        origins("[leases]\nttl = \"45s\"", &[], &[]),
        &["leases.ttl", "leases.session_dead"],
    );
    refused(
        origins("[leases]\nheartbeat = \"45s\"", &[], &[]),
        &["leases.session_dead", "leases.heartbeat"],
    );
    refused(
        origins("[leases]\nrenew = \"40s\"", &[], &[]),
        &[
            "leases.ttl",
            "leases.renew",
            "leases.answer",
            "leases.reconnect_max",
        ],
    );
    // 20 + 10 + 25 + 5 is the whole lease: at equality it is too long.
    let equal = [("FENCEPOST_LEASES__RECONNECT_MAX", "25s")];
    refused(origins("", &equal, &[]), &["leases.reconnect_max"]);
    let just_shorter = [("FENCEPOST_LEASES__RECONNECT_MAX", "24999999us")];
    assert!(origins("", &just_shorter, &[]).is_ok());
}

#[test]
fn prices_are_per_service_and_within_bounds() {
    let file = "[prices.\"transcode.v1\"]\nbase_micros = 5\nper_minute_micros = 0";
    let price = origins(file, &[], &[])
        .unwrap()
        .price_of(ServiceName::TranscodeV1);
    assert_eq!((price.base_micros, price.per_minute_micros), (5, 0));
    assert_eq!(price.provider_share_bps, 7_000);
    refused(
        origins("[prices.\"transcode.v9\"]", &[], &[]),
        &["transcode.v9", "transcode.v1"],
    );
    let share = "[prices.\"transcode.v1\"]\nprovider_share_bps = 10001";
    refused(origins(share, &[], &[]), &["provider_share_bps"]);
    let negative = "[prices.\"transcode.v1\"]\nbase_micros = -1";
    refused(origins(negative, &[], &[]), &["base_micros"]);
}

#[test]
fn a_price_that_is_not_configured_is_the_usual_one_of_its_service() {
    let prices = |file: &str, service| {
        let price = origins(file, &[], &[]).unwrap().price_of(service);
        let amounts = (price.base_micros, price.per_minute_micros);
        (amounts, price.provider_share_bps)
    };
    let thumbnail = ServiceName::ThumbnailV1;
    assert_eq!(prices("", thumbnail), ((2_000, 0), 7_000));
    assert_eq!(
        prices("", ServiceName::AudioMixV1),
        ((10_000, 5_000), 7_000)
    );
    for film in [ServiceName::TranscodeV1, ServiceName::AssembleV1] {
        assert_eq!(prices("", film), ((10_000, 20_000), 7_000));
    }
    // What is left out of a price does not become that of another service.
    let base = "[prices.\"thumbnail.v1\"]\nbase_micros = 7";
    assert_eq!(prices(base, thumbnail), ((7, 0), 7_000));
    assert_eq!(
        prices(base, ServiceName::TranscodeV1),
        ((10_000, 20_000), 7_000)
    );
    let share = "[prices.\"thumbnail.v1\"]\nprovider_share_bps = 5000";
    assert_eq!(prices(share, thumbnail), ((2_000, 0), 5_000));
}

#[test]
fn tokens_do_not_travel_in_clear_without_a_declared_proxy() {
    let open = "[http]\nbind = \"0.0.0.0:80\"";
    refused(origins(open, &[], &[]), &["http.bind", "http.behind_proxy"]);
    assert!(origins(&format!("{open}\nbehind_proxy = true"), &[], &[]).is_ok());
}

#[test]
fn secrets_are_shown_by_nothing_and_never_taken_from_flags() {
    let file =
        "[database]\nurl = \"postgres://u:hunter2@h/d\"\n[artifacts]\nsigning_key = \"hunter2\"";
    let config = origins(file, &[], &[]).unwrap();
    assert!(!format!("{config:?}").contains("hunter2"));
    assert!(!serde_json::to_string(&config).unwrap().contains("hunter2"));
    let short = config.artifacts.signing_key().unwrap_err().to_string();
    assert!(
        short.contains("artifacts.signing_key") && !short.contains("hunter2"),
        "{short}"
    );
    refused(
        origins("", &[], &[("database.url", "postgres://u:hunter2@h/d")]),
        &["database.url"],
    );
}

#[test]
fn secrets_are_read_from_files_without_the_line_break() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"postgres://u:p@h/d\n").unwrap();
    let toml = format!("[database]\nurl_file = {:?}", file.path());
    let config = origins(&toml, &[], &[]).unwrap();
    assert_eq!(
        config.database.url().unwrap().expose(),
        "postgres://u:p@h/d"
    );
    let missing = origins("[artifacts]\nsigning_key_file = \"/nowhere\"", &[], &[]).unwrap();
    let problem = missing.artifacts.signing_key().unwrap_err().to_string();
    assert!(problem.contains("artifacts.signing_key_file"), "{problem}");
}
