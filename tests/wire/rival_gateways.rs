//! Two gateways that are told of the same lease at the same moment.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::ids::{EventId, RequestId};
use fencepost_protocol::{Code, GatewayFrame};
use fencepost_tests::Site;
use fencepost_tests::agent_client::Session;
use fencepost_tests::agent_frames::{assert_won, commit, declared, event, fail, progress, resumed};
use fencepost_tests::gateway::{TTL, hex_sha256};
use fencepost_tests::wait::until;
use fencepost_tests::worker::{Worker, about, output, path, with_secret};
use futures_util::future::join_all;
use reqwest::StatusCode;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::refused;

/// How often a race is run.
const ROUNDS: usize = 8;

/// An upload that has begun and not ended.
struct HalfSent(TcpStream);

impl HalfSent {
    async fn begin(port: u16, link: &str, length: usize, half: &[u8]) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).await;
        let mut stream = stream.expect("it listens");
        let head = format!(
            "PUT {link} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.expect("it reads");
        stream.write_all(half).await.expect("it reads");
        Self(stream)
    }

    /// Sends the rest; the status line of the answer.
    async fn end(mut self, rest: &[u8]) -> String {
        // Whoever has refused already need not read on.
        let _ = self.0.write_all(rest).await;
        let mut answer = Vec::new();
        let _ = self.0.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        answer.lines().next().unwrap_or_default().to_owned()
    }
}

fn is_won(answer: &GatewayFrame) -> bool {
    matches!(answer, GatewayFrame::CommitOk { .. })
}

#[tokio::test]
async fn a_commit_and_a_hello_at_two_gateways_leave_one_pair_that_can_publish() {
    let site = Site::new().await;
    let gateways = [site.gateway().await, site.gateway().await];
    let buyer = site.buyer(&gateways[0]);
    let device = site.device(&gateways[0], "mac").await;
    let mut old = device.connect(&gateways[0]).await;
    for round in 1..=ROUNDS {
        let there = &gateways[round % 2];
        let job = buyer.submit_noop().await;
        let (offer, output) = old.lease_and_upload(there, b"bytes").await;
        let mut new = device.dial(there).await;
        let hello = new.hello_frame(&[&offer]);
        let asked = old.say(commit(&offer, &output)).await;
        let welcome = new.ask(hello).await;
        let GatewayFrame::Welcome {
            resumed, recorded, ..
        } = welcome
        else {
            panic!("no welcome: {welcome:?}")
        };
        // The older socket is closed before or after its answer; the answer is stored anyway.
        let mut answers = Vec::new();
        while let Ok(heard) = old.try_hear().await {
            answers.extend((heard.request_id == Some(asked)).then_some(heard.frame));
        }
        if let Some(lease) = resumed.first() {
            assert!(!answers.iter().any(is_won), "{answers:?}");
            let answer = new.ask(commit(&offer, &output)).await;
            assert_eq!(refused(&answer), Code::CommitConflict);
            let mut current = offer.clone();
            current.lease_epoch = lease.lease_epoch;
            current.commit_token = lease.commit_token.clone();
            let answer = new.ask(commit(&current, &output)).await;
            assert_won(&answer);
        } else {
            assert_eq!(recorded.len(), 1, "neither resumed nor recorded");
            buyer.until(&job, "succeeded").await;
            let answer = new.ask(commit(&offer, &output)).await;
            assert!(
                matches!(answer, GatewayFrame::CommitOk { replayed: true }),
                "{answer:?}"
            );
        }
        assert_eq!(site.statuses(&job).await, "succeeded: succeeded");
        old = new;
    }
}

#[tokio::test]
async fn one_hello_said_at_two_gateways_at_once_leaves_one_secret_that_works() {
    let site = Site::new().await;
    let gateways = [site.gateway().await, site.gateway().await];
    let buyer = site.buyer(&gateways[0]);
    let device = site.device(&gateways[0], "mac").await;
    let mut session = device.connect(&gateways[0]).await;
    for _ in 0..ROUNDS {
        let job = buyer.submit_noop().await;
        let (offer, output) = session.lease_and_upload(&gateways[0], b"bytes").await;
        // Dialled in this order, so the second one has the higher number.
        let mut first = device.dial(&gateways[0]).await;
        let mut second = device.dial(&gateways[1]).await;
        let hello = first.hello_frame(&[&offer]);
        let asked = first.say(hello).await;
        let newest = resumed(&offer, &second.hello(&[&offer]).await);
        let mut stale = vec![offer.clone()];
        while let Ok(heard) = first.try_hear().await {
            if let (Some(true), GatewayFrame::Welcome { resumed, .. }) =
                (heard.request_id.map(|id| id == asked), heard.frame)
            {
                stale.extend(resumed.into_iter().map(|lease| {
                    let mut rotated = offer.clone();
                    rotated.lease_epoch = lease.lease_epoch;
                    rotated.commit_token = lease.commit_token;
                    rotated
                }));
            }
        }
        let before = site.rows().await;
        for lease in &stale {
            assert!(lease.lease_epoch < newest.lease_epoch);
            let answer = second.ask(commit(lease, &output)).await;
            assert_eq!(refused(&answer), Code::CommitConflict);
        }
        assert_eq!(site.rows().await, before);
        let answer = second.ask(commit(&newest, &output)).await;
        assert_won(&answer);
        assert_eq!(site.statuses(&job).await, "succeeded: succeeded");
        drop(second);
        session = device.connect(&gateways[0]).await;
    }
}

#[tokio::test]
async fn a_gateway_that_wakes_up_after_the_lease_has_gone_elsewhere_changes_nothing() {
    let site = Site::new().await;
    let here = site.gateway().await;
    let there = site.gateway().await;
    let buyer = site.buyer(&there);
    let mut slow = site.device(&here, "slow").await.connect(&here).await;
    let mut quick = site.device(&there, "quick").await.connect(&there).await;
    let job = buyer.submit_noop().await;
    let (lost, lost_output) = slow.lease_and_upload(&here, b"of the first").await;
    let link = &lost.output.url;
    let upload = HalfSent::begin(here.port(), link, 12, b"over ").await;
    here.process.signal(Signal::STOP);
    let mut asked = Vec::new();
    for frame in [
        progress(&lost, Phase::Uploading),
        event(&lost, EventId::new(), 1),
        commit(&lost, &lost_output),
        fail(&lost, "runner_failed"),
    ] {
        asked.push(slow.say(frame).await);
    }
    site.pass(TTL).await;
    site.becomes(&job, "queued: lost").await;
    let (won, won_output) = quick.lease_and_upload(&there, b"of the second").await;
    assert_eq!(won.job_id, lost.job_id);
    let before = site.rows().await;

    here.process.signal(Signal::CONT);
    assert!(upload.end(b"the end").await.contains("409"));
    let mut answers = Vec::new();
    // Its socket may be closed for its silence before all is read from it.
    while answers.len() < asked.len()
        && let Ok(heard) = slow.try_hear().await
    {
        if heard.request_id.is_some_and(|id| asked.contains(&id)) {
            answers.push(refused(&heard.frame));
        }
    }
    until("the gateway to be awake", || async {
        here.readiness().await.0
    })
    .await;
    assert_eq!(site.rows().await, before);
    let answer = quick.ask(commit(&won, &won_output)).await;
    assert_won(&answer);
    assert_eq!(buyer.download(&job).await, b"of the second");
}

#[tokio::test]
async fn an_upload_that_outlasts_its_commit_at_another_gateway_is_never_put_in_place() {
    let site = Site::new().await;
    let (here, there) = (site.gateway().await, site.gateway().await);
    let buyer = site.buyer(&here);
    let job = buyer.submit_noop().await;
    let mut session = site.device(&here, "mac").await.connect(&here).await;
    let (offer, output) = session.lease_and_upload(&here, b"good bytes").await;
    let link = &offer.output.url;
    let upload = HalfSent::begin(there.port(), link, 10, b"evil ").await;
    let answer = session.ask(commit(&offer, &output)).await;
    assert_won(&answer);
    assert!(upload.end(b"bytes").await.contains("409"));
    assert_eq!(buyer.download(&job).await, b"good bytes");
    let uploaded = std::fs::read(site.object(&offer.output.object_key));
    assert!(uploaded.is_err() || uploaded.unwrap() == b"good bytes");
}

#[tokio::test]
async fn of_different_commits_of_one_holder_at_two_gateways_one_is_stored_and_all_others_conflict()
{
    let site = Site::new().await;
    let gateways = [site.gateway().await, site.gateway().await];
    let buyer = site.buyer(&gateways[0]);
    let device = site.device(&gateways[0], "mac").await;
    let workers = gateways.each_ref().map(|at| Worker::new(at, &device));
    let job = buyer.submit_noop().await;
    let lease = workers[0].claim().await;
    workers[0].upload(&lease, b"bytes").await;
    let contents: [&[u8]; 3] = [b"bytes", b"other", b"others"];
    let asked = (0..12).map(|number| {
        let body = output(&lease, contents[number % contents.len()]);
        workers[number % 2].end(&lease, "commit", body)
    });
    let answers = join_all(asked).await;
    let stored =
        format!("select encode(declared_sha256, 'hex') from attempts where job_id = '{job}'");
    let stored = site.db.text(&stored).await;
    for (number, (status, answer)) in answers.iter().enumerate() {
        let is_stored = hex_sha256(contents[number % contents.len()]) == stored;
        let conflict = answer["code"] == "commit_conflict";
        assert_eq!(conflict, !is_stored, "{status} {answer}");
    }
    let won = stored == hex_sha256(b"bytes");
    let statuses = if won {
        "succeeded: succeeded"
    } else {
        "queued: failed"
    };
    site.becomes(&job, statuses).await;
}

#[tokio::test]
async fn an_event_that_is_written_at_two_gateways_at_once_is_one_row_and_one_number() {
    let site = Site::new().await;
    let gateways = [site.gateway().await, site.gateway().await];
    let job = site.buyer(&gateways[0]).submit_noop().await;
    let device = site.device(&gateways[0], "mac").await;
    let workers = gateways.each_ref().map(|at| Worker::new(at, &device));
    let lease = workers[0].claim().await;
    let said = |id: EventId, seq: usize, payload: Value| {
        let event = json!({
            "job_id": lease["job_id"], "lease_epoch": lease["lease_epoch"], "event_id": id,
            "seq": seq, "kind": "encoder.exit", "payload": payload,
        });
        with_secret(&lease, event)
    };
    for seq in 1..=ROUNDS {
        let id = EventId::new();
        let asked = (0..6).map(|number| {
            // Every third one says something else under the same id.
            let body = said(id, seq, json!({ "code": u8::from(number % 3 == 2) }));
            let address = path(&lease, "events");
            let worker = &workers[number % 2];
            async move { worker.post(&address, &body).await }
        });
        let answers = join_all(asked).await;
        let count = |wanted| {
            answers
                .iter()
                .filter(|(status, _)| *status == wanted)
                .count()
        };
        assert_eq!(count(StatusCode::CREATED), 1, "{answers:?}");
        assert_eq!(
            count(StatusCode::OK) + count(StatusCode::CONFLICT),
            5,
            "{answers:?}"
        );
    }
    let numbers = format!(
        "select string_agg(job_seq::text, ' ' order by job_seq) from attempt_events
         where job_id = '{job}'"
    );
    let wanted: Vec<_> = (1..=ROUNDS).map(|number| number.to_string()).collect();
    assert_eq!(site.db.text(&numbers).await, wanted.join(" "));
}

#[tokio::test]
async fn a_claim_is_given_back_by_its_request_or_its_epoch_is_used_and_never_both() {
    let site = Site::new().await;
    let gateways = [site.gateway().await, site.gateway().await];
    let buyer = site.buyer(&gateways[0]);
    for round in 0..ROUNDS {
        let job = buyer.submit_noop().await;
        let device = site.device(&gateways[0], &format!("mac-{round}")).await;
        let workers = gateways.each_ref().map(|at| Worker::new(at, &device));
        let id = RequestId::new();
        let (status, lease) = workers[0].ask(id).await;
        assert_eq!(status, StatusCode::CREATED, "{lease}");
        assert_eq!(lease["job_id"], job);
        let back = json!({ "claim_request_id": id, "reason": "the answer was lost" });
        let back = about(&lease, RequestId::new(), back);
        let works = about(&lease, RequestId::new(), json!({ "phase": "running" }));
        let (addresses, at) = (
            [path(&lease, "release"), path(&lease, "progress")],
            round % 2,
        );
        let (returned, used) = tokio::join!(
            workers[at].post(&addresses[0], &back),
            workers[1 - at].post(&addresses[1], &works)
        );
        let won = [&returned, &used].map(|(status, _)| *status == StatusCode::OK);
        assert!(won[0] != won[1], "{returned:?} {used:?}");
        let statuses = if won[0] {
            "queued: lost"
        } else {
            "active: running"
        };
        site.becomes(&job, statuses).await;
        buyer.cancel(&job).await;
    }
}

#[tokio::test]
async fn a_commit_and_an_operators_revoke_agree_on_who_came_first() {
    let site = Site::new().await;
    let (here, there) = (site.gateway().await, site.gateway().await);
    let buyer = site.buyer(&there);
    for round in 0..4 {
        let device = site.device(&here, &format!("mac-{round}")).await;
        let mut session = device.connect(&here).await;
        let job = buyer.submit_noop().await;
        let (offer, output) = session.lease_and_upload(&here, b"bytes").await;
        let id = offer.attempt_id.to_string();
        let revoke = ["attempt", "revoke", &id];
        let (answer, revoked) = tokio::join!(
            said_later(&mut session, commit(&offer, &output), round * 20),
            site.operate(&revoke)
        );
        let won = is_won(&answer);
        let statuses = if won {
            "succeeded: succeeded"
        } else {
            "queued: lost"
        };
        assert_eq!(site.statuses(&job).await, statuses, "{answer:?} {revoked}");
        assert_eq!(revoked["changed"], !won, "{revoked}");
        // Whoever lost is told the same for ever.
        let again = session.ask(commit(&offer, &output)).await;
        assert_eq!(is_won(&again), won, "{again:?}");
        let other = declared(&offer, b"other bytes");
        let answer = session.ask(commit(&offer, &other)).await;
        assert_eq!(refused(&answer), Code::CommitConflict);
        buyer.cancel(&job).await;
    }
}

/// Asks after so many milliseconds.
async fn said_later(
    session: &mut Session,
    frame: fencepost_protocol::AgentFrame,
    after: u64,
) -> GatewayFrame {
    tokio::time::sleep(Duration::from_millis(after)).await;
    session.ask(frame).await
}
