use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use fencepost_agent::address::Gateway as Address;
use fencepost_agent::core::LinkAnswer;
use fencepost_agent::transfer::link::Link;
use fencepost_agent::transfer::{StepError, digest, download, upload};
use fencepost_protocol::InputGrant;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::gateway::{Gateway, sha256};
use crate::scripted::{Act, Scripted, desk, fresh, lease, network, network_with};

const MIB: usize = 1 << 20;
const BODY: &[u8] = b"all of the promised bytes";
const CREATED: &str = "HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n";

fn grant() -> InputGrant {
    InputGrant {
        name: "source".to_owned(),
        url: "/in".to_owned(),
        sha256: Some(sha256(BODY)),
        size_bytes: Some(BODY.len() as u64),
        max_bytes: None,
    }
}

fn said(head: &str, body: &[u8]) -> Act {
    let head = format!("HTTP/1.1 {head}\r\nconnection: close\r\n\r\n");
    Act::Say([head.as_bytes(), body].concat())
}

fn whole() -> Act {
    said("200 OK\r\ncontent-length: 25", BODY)
}

/// Downloads once from a server that acts like this; gives the bytes on disk.
async fn download(acts: Vec<Act>, answer: LinkAnswer) -> (Result<Vec<u8>, StepError>, usize) {
    let server = Scripted::start(acts).await;
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("input");
    let (desk, _answering) = desk(answer);
    let mut link = Link::to_input(&server.address, &desk, ("source", "/in")).unwrap();
    let network = server.network();
    let got = download::download(&network, &mut link, &grant(), &file, &|_| ()).await;
    (
        got.map(|()| std::fs::read(&file).unwrap()),
        server.connections(),
    )
}

/// Uploads a mebibyte to a server that acts like this.
async fn upload(acts: Vec<Act>, answer: LinkAnswer) -> (Result<Option<String>, StepError>, usize) {
    let server = Scripted::start(acts).await;
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("output");
    std::fs::write(&file, vec![7; MIB]).unwrap();
    let (desk, _answering) = desk(answer);
    let mut link = Link::to_output(&server.address, &desk, "/out").unwrap();
    let (live, _stop, _keep) = lease(Duration::from_mins(1));
    let sent = Arc::new(AtomicU64::new(0));
    let what = (file.as_path(), MIB as u64);
    let done = upload::upload(&server.network(), &mut link, what, &live, &sent).await;
    (done.map(|()| link.into_object_key()), server.connections())
}

fn failed<T: std::fmt::Debug>(result: Result<T, StepError>) -> (&'static str, String) {
    match result {
        Err(StepError::Failed { code, message }) => (code, message),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_are_not_the_promised_ones_fail_as_downloads_and_never_reach_an_encoder() {
    let gzipped = b"\x1f\x8b\x08\0\0\0\0\0\0\x03KT\x04\0\xb7\xef\xdc\x83\x01\0\0\0";
    let cases = [
        ("cut without a length", said("200 OK", &BODY[..9]), 4),
        (
            "cut within its length",
            said("200 OK\r\ncontent-length: 25", &BODY[..9]),
            4,
        ),
        (
            "chunks without an end",
            said(
                "200 OK\r\ntransfer-encoding: chunked",
                b"9\r\nall of th\r\n",
            ),
            4,
        ),
        (
            "a length that is too short",
            said("200 OK\r\ncontent-length: 9", BODY),
            4,
        ),
        (
            "a length that is too long",
            said("200 OK\r\ncontent-length: 30", BODY),
            4,
        ),
        (
            "packed although nobody asked",
            said("200 OK\r\ncontent-encoding: gzip", gzipped),
            4,
        ),
        (
            "more than promised",
            said("200 OK", &[BODY, b"!"].concat()),
            1,
        ),
        (
            "other bytes",
            said("200 OK", b"ALL of the promised bytes"),
            1,
        ),
        (
            "a part although all was asked for",
            said("206 Partial Content", BODY),
            1,
        ),
        ("an empty answer", said("204 No Content", b""), 1),
    ];
    let tries = cases.map(|(name, act, tries)| async move {
        let (result, connections) = download(vec![act], LinkAnswer::Refused).await;
        let (code, message) = failed(result);
        assert_eq!(code, "download_failed", "{name}: {message}");
        assert_eq!(connections, tries, "{name}: {message}");
    });
    futures_util::future::join_all(tries).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_that_fails_for_a_while_is_repeated_from_its_beginning() {
    let cut = said("200 OK\r\ncontent-length: 25", &BODY[..9]);
    let away = said("503 Service Unavailable\r\ncontent-length: 0", b"");
    let downloading = download(vec![cut, away, Act::Hang, whole()], LinkAnswer::Refused);
    let unavailable = "HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n";
    let acts = vec![
        Act::CutAfter(200_000),
        Act::Answer(unavailable),
        Act::Answer("HTTP/1.1 307 Elsewhere\r\nlocation: /out\r\ncontent-length: 0\r\n\r\n"),
        Act::Answer(CREATED),
    ];
    let uploading = upload(acts, LinkAnswer::Refused);
    let ((downloaded, _), (uploaded, connections)) = tokio::join!(downloading, uploading);
    assert_eq!(downloaded.unwrap(), BODY);
    assert_eq!((uploaded, connections), (Ok(None), 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_is_told_when_to_come_back_does_so_as_often_as_it_takes() {
    let later = "HTTP/1.1 503 Later\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n";
    let mut acts = vec![Act::Answer(later); 6];
    acts.push(Act::Answer(CREATED));
    let (uploaded, connections) = upload(acts, LinkAnswer::Refused).await;
    assert_eq!((uploaded, connections), (Ok(None), 7));
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_that_never_succeed_fail_as_uploads() {
    let cases = [
        Act::Answer("HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n"),
        Act::Answer("HTTP/1.1 307 Elsewhere\r\nlocation: /out\r\ncontent-length: 0\r\n\r\n"),
        Act::Hang,
        Act::CutAfter(200_000),
    ];
    let tries = cases.map(|act| async move {
        let (result, connections) = upload(vec![act.clone()], LinkAnswer::Refused).await;
        let (code, message) = failed(result);
        assert_eq!(
            (code, connections),
            ("upload_failed", 4),
            "{act:?}: {message}"
        );
    });
    futures_util::future::join_all(tries).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_link_is_replaced_by_a_fresh_one_and_its_object_is_declared() {
    let gone = "HTTP/1.1 403 Expired\r\ncontent-length: 0\r\n\r\n";
    let uploading = upload(vec![Act::Answer(gone), Act::Answer(CREATED)], fresh("/new"));
    let downloading = download(vec![Act::Answer(gone), whole()], fresh("/new"));
    let ((uploaded, _), (downloaded, _)) = tokio::join!(uploading, downloading);
    assert_eq!(uploaded, Ok(Some("fresh-key".to_owned())));
    assert_eq!(downloaded.unwrap(), BODY);
    // Not for ever, and not where there is none.
    let (result, connections) = upload(vec![Act::Answer(gone)], fresh("/new")).await;
    assert_eq!((failed(result).0, connections), ("upload_failed", 4));
    let (result, connections) = upload(vec![Act::Answer(gone)], LinkAnswer::Refused).await;
    assert_eq!((failed(result).0, connections), ("upload_failed", 1));
    // A fresh link is not trusted more than the first one.
    let (result, _) = upload(vec![Act::Answer(gone)], fresh("http://192.0.2.1/x")).await;
    assert!(failed(result).1.contains("in clear"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_may_take_longer_than_it_may_stand_still() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("output");
    std::fs::write(&file, vec![7; 16 * MIB]).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = Address::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    // Slow, but it goes on: 16 MiB take more than a second, and 400 ms are the limit.
    let receiving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buffer = vec![0; MIB / 4];
        let mut received = 0;
        while received < 16 * MIB {
            received += stream.read(&mut buffer).await.unwrap();
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        tokio::io::AsyncWriteExt::write_all(&mut stream, CREATED.as_bytes())
            .await
            .unwrap();
    });
    let (desk, _answering) = desk(LinkAnswer::Refused);
    let mut link = Link::to_output(&address, &desk, "/out").unwrap();
    let (live, _stop, _keep) = lease(Duration::from_mins(1));
    let sent = Arc::new(AtomicU64::new(0));
    let (started, what) = (Instant::now(), (file.as_path(), 16 * MIB as u64));
    let done = upload::upload(&network(&address), &mut link, what, &live, &sent).await;
    assert_eq!(done, Ok(()));
    assert!(
        started.elapsed() > Duration::from_millis(500),
        "it was to be slow"
    );
    receiving.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_ends_with_its_lease_although_half_of_it_is_sent() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("output");
    std::fs::write(&file, vec![7; 64 * MIB]).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = Address::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    // Reads a little and then nothing, until it is told to go on: as if both ends were frozen.
    let (thaw, mut thawed) = watch::channel(false);
    let receiving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buffer = vec![0; MIB];
        stream.read_exact(&mut buffer).await.unwrap();
        thawed.changed().await.unwrap();
        let mut received = buffer.len();
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            received += count;
        }
        received
    });
    let (live, _stop, _keep) = lease(Duration::from_millis(700));
    let (desk, _answering) = desk(LinkAnswer::Refused);
    let mut link = Link::to_output(&address, &desk, "/out").unwrap();
    let mut network = network(&address);
    network.idle = Duration::from_secs(30);
    let sent = Arc::new(AtomicU64::new(0));
    // Not bound by the watch: the stream itself must notice, too.
    let what = (file.as_path(), 64 * MIB as u64);
    let uploading = upload::upload(&network, &mut link, what, &live, &sent);
    let thawing = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        thaw.send(true).unwrap();
    };
    let (uploaded, ()) = tokio::join!(uploading, thawing);
    assert_eq!(uploaded, Err(StepError::Stopped));
    assert!(receiving.await.unwrap() < 64 * MIB);
}

#[tokio::test(flavor = "multi_thread")]
async fn hashing_stops_within_two_seconds_however_long_the_file() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("output");
    // A hole: it takes no room, and minutes to read.
    std::fs::File::create(&file)
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    let (live, stop, _keep) = lease(Duration::from_mins(1));
    let hashing = digest::of_file(&file, &live);
    let stopping = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        stop.cancel();
        Instant::now()
    };
    let (hashed, asked) = tokio::join!(hashing, stopping);
    assert_eq!(hashed, Err(StepError::Stopped));
    assert!(asked.elapsed() < Duration::from_secs(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_leads_to_another_host_is_not_followed() {
    let gateway = Gateway::start().await;
    let address = Address::parse(&gateway.address).unwrap();
    let temp = tempfile::tempdir().unwrap();
    let (desk, _answering) = desk(LinkAnswer::Refused);
    let mut link = Link::to_input(&address, &desk, ("source", "/moved")).unwrap();
    let file = temp.path().join("input");
    let network = network(&address);
    let result = download::download(&network, &mut link, &grant(), &file, &|_| ()).await;
    let (code, message) = failed(result);
    assert!(
        code == "download_failed" && message.contains("302"),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_from_another_host_is_fetched_only_from_where_everybody_could() {
    let gateway = Gateway::start().await;
    let address = Address::parse(&gateway.address).unwrap();
    let elsewhere = Scripted::start(vec![whole()]).await;
    let port = Address::as_str(&elsewhere.address).trim_end_matches('/');
    let port = port.rsplit(':').next().unwrap().to_owned();
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("input");
    let (desk, _answering) = desk(LinkAnswer::Refused);
    let fetch = async |network: &fencepost_agent::transfer::Network, url: &str| {
        let mut link = Link::to_input(&address, &desk, ("source", url)).unwrap();
        download::download(network, &mut link, &grant(), &file, &|_| ()).await
    };
    let strict = network(&address);
    for host in ["127.0.0.1", "127.1", "[::ffff:127.0.0.1]", "localhost"] {
        let Ok(checked) = address.grant_url(&format!("http://{host}:{port}/in")) else {
            continue;
        };
        let (code, message) = failed(fetch(&strict, checked.as_str()).await);
        assert_eq!(code, "download_failed", "{host}: {message}");
        assert!(message.contains("address"), "{host}: {message}");
    }
    let inside = format!("https://169.254.169.254:{port}/latest/meta-data?token=abc");
    let (_, message) = failed(fetch(&strict, &inside).await);
    assert!(
        message.contains("public") && !message.contains("abc"),
        "{message}"
    );
    assert_eq!(elsewhere.connections(), 0);
    let lenient = network_with(&address, &["127.0.0.0/8"]);
    let url = format!("http://127.0.0.1:{port}/in");
    fetch(&lenient, &url).await.unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), BODY);
}
