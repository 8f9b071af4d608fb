use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use fencepost_agent::address::Gateway as Address;
use fencepost_agent::clock;
use fencepost_agent::http;
use fencepost_agent::transfer::{LeaseWatch, StepError, download, upload};
use fencepost_media::StopSignal;
use fencepost_protocol::InputGrant;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::gateway::{Gateway, sha256};

const MIB: usize = 1 << 20;

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
    let deadline = clock::now().after(Duration::from_millis(700));
    let (_keep, deadline) = watch::channel(deadline);
    let live = LeaseWatch {
        stop: StopSignal::new(),
        deadline,
    };
    let client = http::client(&address).unwrap();
    let url = address.grant_url("/out").unwrap();
    let sent = Arc::new(AtomicU64::new(0));
    // Not bound by the watch: the stream itself must notice, too.
    let uploading = upload::upload(&client, &url, (&file, 64 * MIB as u64), &live, &sent);
    let thawing = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        thaw.send(true).unwrap();
    };
    let (uploaded, ()) = tokio::join!(uploading, thawing);
    assert_eq!(uploaded, Err(StepError::Stopped));
    assert!(receiving.await.unwrap() < 64 * MIB);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_leads_to_another_host_is_not_followed() {
    let gateway = Gateway::start().await;
    let address = Address::parse(&gateway.address).unwrap();
    let temp = tempfile::tempdir().unwrap();
    let grant = InputGrant {
        name: "source".to_owned(),
        url: "/moved".to_owned(),
        sha256: sha256(b"x"),
        size_bytes: 1,
    };
    let url = address.grant_url(&grant.url).unwrap();
    let client = http::client(&address).unwrap();
    let file = temp.path().join("input");
    let downloaded = download::download(&client, &url, &grant, &file, &|_| ()).await;
    let Err(StepError::Failed { code, message }) = downloaded else {
        panic!("{downloaded:?}")
    };
    assert!(
        code == "download_failed" && message.contains("302"),
        "{message}"
    );
}
