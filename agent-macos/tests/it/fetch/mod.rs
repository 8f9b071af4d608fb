//! Inputs from hosts of the buyers' choice: fetched whole or refused, from nowhere within, and without
//! their addresses in any message.

mod bundles;
mod limits;
mod shelf;
pub(crate) mod site;
mod within;

use std::sync::Mutex;

use fencepost_agent::address::Gateway as Address;
use fencepost_agent::transfer::fetch::{Fetch, What};
use fencepost_agent::transfer::{Network, StepError};
use fencepost_protocol::InputGrant;

use crate::gateway::sha256;
use crate::scripted::{Act, Scripted, network_with};

const BODY: &[u8] = b"all of the promised bytes";
const SECRET: &str = "sig=s3cret";
const MAX_BYTES: u64 = 1_000;
const V1: &str = "200 OK\r\netag: \"v1\"\r\ncontent-length: 25";
const REST: &str = "206 Partial Content\r\netag: \"v1\"\r\ncontent-range: bytes 9-24/25";

fn said(head: &str, body: &[u8]) -> Act {
    let head = format!("HTTP/1.1 {head}\r\nconnection: close\r\n\r\n");
    Act::Say([head.as_bytes(), body].concat())
}

fn whole() -> Act {
    said("200 OK\r\ncontent-length: 25", BODY)
}

fn status(line: &str) -> Act {
    said(&format!("{line}\r\ncontent-length: 0"), b"")
}

/// An input at this address, of which nothing is known.
fn at(url: &str) -> InputGrant {
    InputGrant {
        name: "source".to_owned(),
        url: url.to_owned(),
        sha256: None,
        size_bytes: None,
        max_bytes: Some(MAX_BYTES),
    }
}

struct Fetched {
    result: Result<Vec<u8>, StepError>,
    heads: Vec<String>,
    connections: usize,
    /// What was said of progress.
    received: Vec<(u64, Option<u64>)>,
}

impl Fetched {
    /// The code and the message of a failure, in which there must be no address.
    fn failed(self, what: &str) -> (&'static str, String) {
        match self.result {
            Err(StepError::Failed { code, message }) => {
                assert!(!message.contains("s3cret"), "{what}: {message}");
                assert!(message.contains("source"), "{what}: {message}");
                (code, message)
            }
            other => panic!("{what}: {other:?}"),
        }
    }
}

/// A network of an agent that may fetch from this machine. Made once for each test: that takes longer than
/// it has patience.
fn open() -> Network {
    let gateway = Address::parse("http://127.0.0.1:1").unwrap();
    network_with(&gateway, &["127.0.0.0/8"])
}

/// Fetches from a server that acts like this.
async fn fetch(network: &Network, acts: Vec<Act>, change: impl FnOnce(&mut InputGrant)) -> Fetched {
    fetch_with_room(network, acts, change, None).await
}

async fn fetch_with_room(
    network: &Network,
    acts: Vec<Act>,
    change: impl FnOnce(&mut InputGrant),
    room: Option<u64>,
) -> Fetched {
    let server = Scripted::start(acts).await;
    let mut grant = at(&format!("{}in?{SECRET}", server.address.as_str()));
    change(&mut grant);
    let received = Mutex::new(Vec::new());
    let note = |bytes, all| received.lock().unwrap().push((bytes, all));
    let result = run(network, &grant, room, &note).await;
    Fetched {
        result,
        heads: server.heads(),
        connections: server.connections(),
        received: received.into_inner().unwrap(),
    }
}

async fn run(
    network: &Network,
    grant: &InputGrant,
    room: Option<u64>,
    received: &(dyn Fn(u64, Option<u64>) + Send + Sync),
) -> Result<Vec<u8>, StepError> {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("input");
    let fetch = Fetch {
        what: What::Input,
        network,
        grant,
        file: &file,
        room,
        received,
    };
    let size = fetch.run().await?;
    let bytes = std::fs::read(&file).unwrap();
    assert_eq!(size, bytes.len() as u64);
    Ok(bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_is_fetched_whole_whatever_is_known_of_it() {
    let network = &open();
    let got = fetch(network, vec![whole()], |_| ()).await;
    assert_eq!(got.result.unwrap(), BODY);
    assert_eq!(got.received.last(), Some(&(25, Some(25))));
    assert!(
        got.heads[0].contains("accept-encoding: identity"),
        "{:?}",
        got.heads
    );
    assert!(!got.heads[0].contains("\r\nrange:"), "{:?}", got.heads);
    let got = fetch(network, vec![said("200 OK", BODY)], |grant| {
        grant.sha256 = Some(sha256(BODY));
        grant.size_bytes = Some(25);
    });
    assert_eq!(got.await.result.unwrap(), BODY);
    let chunked = said(
        "200 OK\r\ntransfer-encoding: chunked",
        b"9\r\nall of th\r\n10\r\ne promised bytes\r\n0\r\n\r\n",
    );
    assert_eq!(
        fetch(network, vec![chunked], |_| ()).await.result.unwrap(),
        BODY
    );
}

/// An answer, what was promised of the bytes, and what is said of it.
type Case = (
    &'static str,
    Act,
    (Option<u64>, Option<&'static [u8]>),
    &'static str,
);

fn to_be_mended() -> Vec<Case> {
    let too_long = "200 OK\r\ncontent-length: 1001";
    let endless = "HTTP/1.1 200 OK\r\ntransfer-encoding: identity\r\n\r\n";
    let flood = Act::Say([endless.as_bytes(), &[b'x'; 2_000]].concat());
    let moved = "302 Found\r\nlocation: http://127.0.0.1:9/?sig=s3cret";
    vec![
        ("unauthorized", status("401 No"), (None, None), "HTTP 401"),
        ("forbidden", status("403 No"), (None, None), "HTTP 403"),
        ("not there", status("404 No"), (None, None), "HTTP 404"),
        ("gone", status("410 No"), (None, None), "HTTP 410"),
        (
            "nothing in it",
            status("204 No Content"),
            (None, None),
            "HTTP 204",
        ),
        (
            "a redirect",
            status(moved),
            (None, None),
            "redirects are not followed",
        ),
        (
            "a part",
            status("206 Partial Content"),
            (None, None),
            "HTTP 206",
        ),
        (
            "packed",
            said("200 OK\r\ncontent-encoding: gzip", BODY),
            (None, None),
            "packed",
        ),
        (
            "too large, as it says",
            said(too_long, BODY),
            (None, None),
            "1000 bytes",
        ),
        (
            "too large, as it turns out",
            flood,
            (None, None),
            "1000 bytes",
        ),
        (
            "longer than promised",
            whole(),
            (Some(24), None),
            "25 bytes",
        ),
        (
            "shorter than promised",
            whole(),
            (Some(26), None),
            "25 bytes",
        ),
        (
            "longer than promised, as it turns out",
            said("200 OK", BODY),
            (Some(24), None),
            "more than 24 bytes",
        ),
        (
            "other bytes",
            whole(),
            (None, Some(b"others")),
            "another SHA-256",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_buyer_has_to_mend_is_said_at_once_and_not_asked_again() {
    let network = &open();
    let cases = to_be_mended();
    let tries = cases
        .into_iter()
        .map(|(name, act, (size, bytes), says)| async move {
            let got = fetch(network, vec![act], |grant| {
                grant.size_bytes = size;
                grant.sha256 = bytes.map(sha256);
            });
            let got = got.await;
            assert_eq!(got.connections, 1, "{name}");
            let (code, message) = got.failed(name);
            assert_eq!(code, "input_invalid", "{name}: {message}");
            assert!(message.contains(says), "{name}: {message}");
        });
    futures_util::future::join_all(tries).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_pass_is_tried_again_and_left_to_the_next_attempt() {
    let network = &open();
    let cases: Vec<(&str, Act, &str)> = vec![
        ("in trouble", status("503 Later"), "HTTP 503"),
        ("busy", status("429 Slowly\r\nretry-after: 0"), "HTTP 429"),
        ("silent", Act::Hang, "does not answer"),
        ("cut", said("200 OK\r\ncontent-length: 25", &BODY[..9]), ""),
        ("slow", Act::Drip("HTTP/1.1 200 OK\r\n\r\n"), "too slow"),
        (
            "at a standstill",
            said(
                "200 OK\r\ntransfer-encoding: chunked",
                b"9\r\nall of th\r\n",
            ),
            "",
        ),
    ];
    let tries = cases.into_iter().map(|(name, act, says)| async move {
        let got = fetch(network, vec![act], |_| ()).await;
        assert_eq!(got.connections, 4, "{name}");
        let (code, message) = got.failed(name);
        assert_eq!(code, "download_failed", "{name}: {message}");
        assert!(message.contains(says), "{name}: {message}");
    });
    let passing = fetch(
        network,
        vec![status("503 Later"), Act::Hang, whole()],
        |_| (),
    );
    let (passed, _) = tokio::join!(passing, futures_util::future::join_all(tries));
    assert_eq!(
        (passed.result.unwrap().as_slice(), passed.connections),
        (BODY, 3)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_that_was_cut_goes_on_in_the_same_version_and_starts_over_in_another() {
    let network = &open();
    let cut = || said(V1, &BODY[..9]);
    let rest = || said(REST, &BODY[9..]);
    let other = b"OTHER THINGS entirely, now";
    let v2 = "206 Partial Content\r\netag: \"v2\"\r\ncontent-range: bytes 9-24/25";
    let elsewhere = "206 Partial Content\r\netag: \"v1\"\r\ncontent-range: bytes 8-24/25";
    let no_tag = said("200 OK\r\ncontent-length: 25", &BODY[..9]);
    let busy = status("503 Later");
    let v2_whole = said("200 OK\r\netag: \"v2\"\r\ncontent-length: 26", other);
    let cases = vec![
        ("it goes on", vec![cut(), rest()], BODY, vec![9]),
        ("after a while", vec![cut(), busy, rest()], BODY, vec![9, 9]),
        (
            "it is another version",
            vec![cut(), v2_whole],
            &other[..],
            vec![9],
        ),
        (
            "a part of another version",
            vec![cut(), said(v2, &other[9..]), whole()],
            BODY,
            vec![9, 0],
        ),
        (
            "another part",
            vec![cut(), said(elsewhere, &BODY[8..]), whole()],
            BODY,
            vec![9, 0],
        ),
        (
            "it is shorter now",
            vec![cut(), status("416 No"), whole()],
            BODY,
            vec![9, 0],
        ),
        ("it has no versions", vec![no_tag, whole()], BODY, vec![0]),
    ];
    let tries = cases
        .into_iter()
        .map(|(name, acts, bytes, asked)| async move {
            let got = fetch(network, acts, |_| ()).await;
            assert_eq!(got.result.unwrap(), bytes, "{name}");
            let ranges = got.heads[1..].iter().map(|head| {
                let range = head.split_once("\r\nrange: bytes=").map(|(_, rest)| rest);
                let start =
                    range.map_or(0, |rest| rest.split_once('-').unwrap().0.parse().unwrap());
                assert_eq!(
                    head.contains("if-range: \"v1\""),
                    start > 0,
                    "{name}: {head}"
                );
                start
            });
            assert_eq!(ranges.collect::<Vec<u64>>(), asked, "{name}");
        });
    // What was put together of two versions is seen by its digest, and fetched once more.
    let mixed = [said(V1, b"ALL OF TH"), rest(), whole()].to_vec();
    let mixing = fetch(network, mixed, |grant| grant.sha256 = Some(sha256(BODY)));
    let (mixed, _) = tokio::join!(mixing, futures_util::future::join_all(tries));
    assert_eq!(
        (mixed.result.unwrap().as_slice(), mixed.connections),
        (BODY, 3)
    );
}
