//! Events and artifacts over the socket, and as buyers see them.

use fencepost_domain::attempt::Phase;
use fencepost_domain::ids::EventId;
use fencepost_protocol::{AgentFrame, Code, Disposition, GatewayFrame};
use fencepost_tests::Site;
use fencepost_tests::agent_frames::{
    artifact, assert_won, commit, event, fail, grant, progress, resumed,
};
use fencepost_tests::gateway::TTL;
use reqwest::StatusCode;
use serde_json::json;

use crate::refused;

/// `(replayed, lease_live)` of an event or artifact that is stored.
fn stored(frame: &GatewayFrame) -> (bool, bool) {
    match frame {
        GatewayFrame::EventOk {
            replayed,
            lease_live,
        }
        | GatewayFrame::ArtifactOk {
            replayed,
            lease_live,
        } => (*replayed, *lease_live),
        other => panic!("not stored: {other:?}"),
    }
}

#[tokio::test]
async fn the_bytes_of_a_recorded_artifact_are_those_that_were_recorded() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut mac = site.device(&gateway, "mac").await.connect(&gateway).await;
    let (offer, output) = mac.lease_and_upload(&gateway, b"the result").await;
    let granted = mac.ask(grant(&offer, "encoder.log", "put")).await;
    let GatewayFrame::Granted {
        url, object_key, ..
    } = granted
    else {
        panic!("{granted:?}");
    };
    // Until it is recorded, it may be written again.
    assert_eq!(
        gateway.put(&url, b"a draft").await.status(),
        StatusCode::CREATED
    );
    assert_eq!(
        gateway.put(&url, b"all went well").await.status(),
        StatusCode::CREATED
    );
    let named = artifact(&offer, "encoder.log", &object_key, b"all went well");
    assert_eq!(stored(&mac.ask(named).await), (false, true));
    let other = gateway.put(&url, b"all went ill!").await;
    assert_eq!(other.status(), StatusCode::UNPROCESSABLE_ENTITY);
    let same = gateway.put(&url, b"all went well").await;
    assert_eq!(same.status(), StatusCode::CREATED);
    mac.ask(commit(&offer, &output)).await;
    let artifacts = buyer.get(&format!("/v1/jobs/{job}/artifacts")).await.1;
    let url = artifacts["artifacts"][0]["url"].as_str().expect("a link");
    let bytes = gateway.get(url).await.bytes().await.unwrap();
    assert_eq!(bytes, b"all went well"[..]);
}

#[tokio::test]
async fn events_and_artifacts_are_stored_repeated_and_shown_to_the_buyer() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut mac = site.device(&gateway, "mac").await.connect(&gateway).await;
    let (offer, output) = mac.lease_and_upload(&gateway, b"the result").await;
    let id = EventId::new();
    assert_eq!(stored(&mac.ask(event(&offer, id, 0)).await), (false, true));
    assert_eq!(stored(&mac.ask(event(&offer, id, 0)).await), (true, true));
    let key = mac
        .put_artifact(&gateway, &offer, ("encoder.log", b"all went well"))
        .await;
    let named = || artifact(&offer, "encoder.log", &key, b"all went well");
    assert_eq!(stored(&mac.ask(named()).await), (false, true));
    assert_eq!(stored(&mac.ask(named()).await), (true, true));
    let committed = mac.ask(commit(&offer, &output)).await;
    assert_won(&committed);
    assert_eq!(stored(&mac.ask(event(&offer, id, 0)).await), (true, false));
    assert_eq!(stored(&mac.ask(named()).await), (true, false));

    let attempts = buyer.get(&format!("/v1/jobs/{job}/attempts")).await.1;
    let shown = &attempts["attempts"][0]["events"][0];
    assert_eq!(shown["kind"], "encoder.exit");
    assert_eq!(shown["payload"]["stderr"], "no such filter");
    let artifacts = buyer.get(&format!("/v1/jobs/{job}/artifacts")).await.1;
    let shown = &artifacts["artifacts"][0];
    assert_eq!(
        (&shown["name"], &shown["size_bytes"]),
        (&json!("encoder.log"), &json!(13))
    );
    let url = shown["url"].as_str().expect("a link");
    let bytes = gateway.get(url).await;
    assert_eq!(bytes.bytes().await.unwrap(), b"all went well"[..]);
    let digests = "select encode(writer_digest, 'hex') from attempt_events";
    let digest = site.db.text(digests).await;
    for secret in [
        digest.as_str(),
        "writer",
        "lease_token",
        &offer.commit_token.expose(),
    ] {
        assert!(!attempts.to_string().contains(secret), "{attempts}");
        assert!(!artifacts.to_string().contains(secret), "{artifacts}");
    }
}

#[tokio::test]
async fn a_conflict_is_said_with_its_code_and_what_to_do_about_it() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    buyer.submit_noop().await;
    let mut mac = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = mac.lease_in(Phase::Running).await;
    let id = EventId::new();
    mac.ask(event(&offer, id, 0)).await;
    let key = mac.put_artifact(&gateway, &offer, ("a.log", b"a")).await;
    mac.ask(artifact(&offer, "a.log", &key, b"a")).await;
    let mut stranger = offer.clone();
    stranger.lease_epoch += 1;
    for (frame, code, disposition) in [
        (
            event(&offer, id, 1),
            Code::RunEventConflict,
            Disposition::Fix,
        ),
        (
            event(&offer, EventId::new(), 0),
            Code::RunEventConflict,
            Disposition::Fix,
        ),
        (
            event(&stranger, id, 0),
            Code::RunLeaseConflict,
            Disposition::Stop,
        ),
        (
            artifact(&offer, "a.log", &key, b"b"),
            Code::RunArtifactConflict,
            Disposition::Fix,
        ),
        (
            artifact(&stranger, "a.log", &key, b"a"),
            Code::RunLeaseConflict,
            Disposition::Stop,
        ),
        (
            artifact(&offer, "b.log", "artifacts/made-up", b"b"),
            Code::InvalidRequest,
            Disposition::Fix,
        ),
    ] {
        let answer = mac.ask(frame).await;
        let GatewayFrame::Rejected {
            code: said,
            disposition: what,
            ..
        } = &answer
        else {
            panic!("{answer:?}");
        };
        assert_eq!((*said, *what), (code, disposition), "{answer:?}");
    }
    let answer = mac.ask(grant(&offer, "../escape", "put")).await;
    assert!(
        matches!(
            &answer,
            GatewayFrame::Rejected {
                code: Code::InvalidRequest,
                ..
            }
        ),
        "{answer:?}"
    );
}

#[tokio::test]
async fn a_lost_holder_repeats_what_it_wrote_and_writes_nothing_new() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut slow = site.device(&gateway, "slow").await.connect(&gateway).await;
    let mut quick = site.device(&gateway, "quick").await.connect(&gateway).await;
    let lost = slow.lease_in(Phase::Running).await;
    let id = EventId::new();
    slow.ask(event(&lost, id, 0)).await;
    site.clock.advance(TTL).await;
    site.becomes(&job, "queued: lost").await;
    let won = quick.lease_in(Phase::Running).await;
    let theirs = EventId::new();
    quick.ask(event(&won, theirs, 0)).await;
    let before = site.rows().await;
    assert_eq!(stored(&slow.ask(event(&lost, id, 0)).await), (true, false));
    for frame in [event(&lost, EventId::new(), 1), event(&lost, theirs, 0)] {
        assert_eq!(refused(&slow.ask(frame).await), Code::RunLeaseConflict);
    }
    assert_eq!(site.rows().await, before);
}

#[tokio::test]
async fn an_event_is_repeated_under_its_own_lease_after_a_reconnect_and_on_another_gateway() {
    let site = Site::new().await;
    let (gateway, other) = (site.gateway().await, site.gateway().await);
    let buyer = site.buyer(&gateway);
    buyer.submit_noop().await;
    let device = site.device(&gateway, "mac").await;
    let mut first = device.connect(&gateway).await;
    let offer = first.lease_in(Phase::Running).await;
    let (heard, unheard) = (EventId::new(), EventId::new());
    first.ask(event(&offer, heard, 0)).await;
    first.cut().await;
    let mut second = device.dial(&other).await;
    let welcome = second.hello(&[&offer]).await;
    let lease = resumed(&offer, &welcome);
    assert_eq!(
        stored(&second.ask(event(&offer, heard, 0)).await),
        (true, false)
    );
    let answer = second.ask(event(&offer, unheard, 1)).await;
    assert_eq!(refused(&answer), Code::RunLeaseConflict);
    assert_eq!(
        stored(&second.ask(event(&lease, unheard, 1)).await),
        (false, true)
    );
}

#[tokio::test]
async fn what_is_said_about_an_attempt_takes_effect_in_the_order_in_which_it_was_said() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut mac = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = mac.lease().await;
    // Nothing is waited for: progress, events and the end are all on their way together.
    mac.say(progress(&offer, Phase::Downloading)).await;
    mac.say(progress(&offer, Phase::Running)).await;
    let mut asked = Vec::new();
    for seq in 0..5 {
        asked.push(mac.say(event(&offer, EventId::new(), seq)).await);
    }
    let failed = mac.say(fail(&offer, "runner_failed")).await;
    let late = mac.say(event(&offer, EventId::new(), 5)).await;
    for request in asked {
        let answer = mac.answer(request).await.frame;
        assert_eq!(stored(&answer), (false, true));
    }
    let done = mac.answer(failed).await.frame;
    assert!(matches!(done, GatewayFrame::Done { .. }), "{done:?}");
    assert_eq!(
        refused(&mac.answer(late).await.frame),
        Code::RunLeaseConflict
    );
    let attempts = buyer.get(&format!("/v1/jobs/{job}/attempts")).await.1;
    let events = attempts["attempts"][0]["events"].as_array().unwrap();
    let seqs: Vec<_> = events.iter().map(|event| event["seq"].as_i64()).collect();
    assert_eq!(seqs, [1, 2, 3, 4, 5].map(Some));
}

#[tokio::test]
async fn odd_payloads_are_kept_and_too_large_ones_refused_with_their_limit() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    site.buyer(&gateway).submit_noop().await;
    let mut mac = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = mac.lease_in(Phase::Running).await;
    let with = |payload: serde_json::Value, seq: i64| {
        let mut frame = event(&offer, EventId::new(), seq);
        if let AgentFrame::Event { payload: place, .. } = &mut frame {
            *place = payload;
        }
        frame
    };
    for (seq, payload) in [
        json!(null),
        json!("\0"),
        json!({"\0": "\u{1b}[31m", "deep": [[[[1.0e308, -0.0]]]]}),
        json!(u64::MAX),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = mac.ask(with(payload, i64::try_from(seq).unwrap())).await;
        assert_eq!(stored(&answer), (false, true));
    }
    let answer = mac.ask(with(json!("x".repeat(20_000)), 9)).await;
    let GatewayFrame::Rejected {
        code: Code::InvalidRequest,
        message,
        ..
    } = &answer
    else {
        panic!("{answer:?}");
    };
    let message = message.as_deref().unwrap();
    assert!(
        message.contains("payload") && message.contains("16384"),
        "{message}"
    );
}
