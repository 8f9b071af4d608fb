//! The bytes behind signed links.

use std::time::Duration;

use fencepost_tests::Site;
use fencepost_tests::agent_frames::commit;
use fencepost_tests::buyer::answer;
use fencepost_tests::gateway::MAX_UPLOAD_BYTES;
use fencepost_tests::wait::until;
use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

#[tokio::test]
async fn an_output_is_served_whole_in_parts_and_by_its_head() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let (offer, output) = session.lease_and_upload(&gateway, b"0123456789").await;
    session.ask(commit(&offer, &output)).await;
    let link = buyer.output_link(&job).await.unwrap();
    for (range, status, bytes, shown) in [
        (None, 200, "0123456789", None),
        (Some("bytes=2-5"), 206, "2345", Some("bytes 2-5/10")),
        (Some("bytes=7-"), 206, "789", Some("bytes 7-9/10")),
        (Some("bytes=-3"), 206, "789", Some("bytes 7-9/10")),
        (Some("bytes=5-99"), 206, "56789", Some("bytes 5-9/10")),
        (Some("bytes=0-1,4-5"), 200, "0123456789", None),
        (Some("lines=1"), 200, "0123456789", None),
        (Some("bytes=10-"), 416, "", Some("bytes */10")),
        (Some("bytes=-0"), 416, "", Some("bytes */10")),
    ] {
        for method in [Method::GET, Method::HEAD] {
            let mut request = gateway
                .client
                .request(method.clone(), gateway.address(&link));
            if let Some(range) = range {
                request = request.header("range", range);
            }
            let response = request.send().await.unwrap();
            assert_eq!(response.status().as_u16(), status, "{method} {range:?}");
            let headers = response.headers().clone();
            let found = headers
                .get("content-range")
                .map(|value| value.to_str().unwrap());
            assert_eq!(found, shown, "{method} {range:?}");
            let body = response.text().await.unwrap();
            if method == Method::HEAD {
                assert_eq!(body, "");
                if status < 300 {
                    assert_eq!(headers["content-length"], bytes.len().to_string());
                }
            } else if status < 300 {
                assert_eq!(body, bytes);
                // To be saved under the job's name, never to be shown.
                let named = format!("attachment; filename=\"{job}.");
                let disposition = headers["content-disposition"].to_str().unwrap();
                assert!(disposition.starts_with(&named), "{disposition}");
                assert_eq!(headers["x-content-type-options"], "nosniff");
            }
        }
    }
}

#[tokio::test]
async fn a_range_under_a_condition_that_cannot_be_met_is_the_whole_and_a_part_of_a_file_is_none() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let (offer, output) = session.lease_and_upload(&gateway, b"0123456789").await;
    session.ask(commit(&offer, &output)).await;
    let link = gateway.address(&buyer.output_link(&job).await.unwrap());
    let request = gateway.client.get(link).header("range", "bytes=2-5");
    let response = request
        .header("if-range", "\"another\"")
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.text().await.unwrap(), "0123456789");

    let (_, link) = buyer.new_upload(&json!({})).await;
    let request = gateway.client.put(gateway.address(&link)).body("01234");
    let part = request.header("content-range", "bytes 0-4/10").send();
    let (status, problem) = answer(part.await.unwrap()).await;
    assert_eq!(
        (status, &problem["field"]),
        (StatusCode::BAD_REQUEST, &json!("Content-Range"))
    );
    let whole = gateway.put(&link, b"0123456789").await;
    assert_eq!(whole.status(), StatusCode::CREATED);
}

#[tokio::test]
async fn a_link_is_for_one_direction_one_object_and_a_while() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let (offer, output) = session.lease_and_upload(&gateway, b"bytes").await;
    session.ask(commit(&offer, &output)).await;
    let link = buyer.output_link(&job).await.unwrap();
    assert_eq!(
        gateway.put(&link, b"other").await.status(),
        StatusCode::FORBIDDEN
    );
    assert_eq!(
        gateway.get(&offer.output.url).await.status(),
        StatusCode::FORBIDDEN
    );

    let (payload, mac) = link.rsplit_once('.').unwrap();
    let swapped = offer.output.url.rsplit_once('.').unwrap().1;
    for wrong in [
        format!("{payload}.{swapped}"),
        format!("{payload}x.{mac}"),
        format!("{payload}.{}", &mac[1..]),
        payload.to_owned(),
        format!("{payload}."),
    ] {
        let (status, problem) = answer(gateway.get(&wrong).await).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{problem}");
        assert_eq!(problem["code"], "link_invalid");
    }
    let (_, upload) = buyer.new_upload(&json!({})).await;
    site.clock.advance(Duration::from_hours(24)).await;
    for response in [
        gateway.get(&link).await,
        gateway.put(&upload, b"late").await,
    ] {
        let (status, problem) = answer(response).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{problem}");
        assert_eq!(problem["code"], "link_expired");
    }
    // Another one is for the asking.
    assert_eq!(buyer.download(&job).await, b"bytes");
}

#[tokio::test]
async fn a_file_is_written_once() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let (_, link) = site.buyer(&gateway).new_upload(&json!({})).await;
    assert_eq!(
        gateway.put(&link, b"first").await.status(),
        StatusCode::CREATED
    );
    let (status, problem) = answer(gateway.put(&link, b"second").await).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::CONFLICT, &json!("already_stored"))
    );
    let objects = site.objects();
    assert_eq!(objects.len(), 1, "{objects:?}");
    assert_eq!(std::fs::read(&objects[0]).unwrap(), b"first");
}

#[tokio::test]
async fn more_than_is_taken_leaves_nothing() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let (_, small) = buyer.new_upload(&json!({ "size_bytes": 10 })).await;
    let (_, large) = buyer.new_upload(&json!({})).await;
    let too_much = vec![7; MAX_UPLOAD_BYTES + 1];
    for (link, bytes) in [(&small, &b"eleven long"[..]), (&large, &too_much)] {
        let (status, problem) = answer(gateway.put(link, bytes).await).await;
        assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{problem}");
    }
    assert_eq!(site.objects().len(), 0);
    assert_eq!(
        gateway.put(&small, b"ten, at mo").await.status(),
        StatusCode::CREATED
    );
    let (status, problem) = buyer.post("/v1/uploads", &json!({ "size_bytes": 0 })).await;
    assert_eq!(
        (status, &problem["field"]),
        (StatusCode::BAD_REQUEST, &json!("size_bytes"))
    );
}

#[tokio::test]
async fn an_upload_that_breaks_off_leaves_nothing_and_can_be_sent_again() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let (_, link) = site.buyer(&gateway).new_upload(&json!({})).await;
    for (head, body) in [
        ("Content-Length: 1000", "only this"),
        ("Transfer-Encoding: chunked", "9\r\nonly this\r\n"),
        ("Transfer-Encoding: chunked", "no chunk"),
        ("Content-Length: many", ""),
    ] {
        let mut stream = TcpStream::connect(("127.0.0.1", gateway.port()))
            .await
            .unwrap();
        let request = format!("PUT {link} HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut said = Vec::new();
        // Whatever it says, it is not that the file is stored.
        stream.read_to_end(&mut said).await.ok();
        assert!(
            !said.starts_with(b"HTTP/1.1 2"),
            "{}",
            String::from_utf8_lossy(&said)
        );
    }
    until("nothing to be left", || async { site.objects().is_empty() }).await;
    assert_eq!(
        gateway.put(&link, b"all of it").await.status(),
        StatusCode::CREATED
    );
    assert_eq!(site.objects().len(), 1);
}

#[tokio::test]
async fn the_link_of_an_attempt_that_has_ended_takes_nothing() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let offer = session.lease().await;
    assert_eq!(
        gateway.put(&offer.output.url, b"one").await.status(),
        StatusCode::CREATED
    );
    assert_eq!(
        gateway.put(&offer.output.url, b"two").await.status(),
        StatusCode::CREATED
    );
    buyer.cancel(&job).await;
    session
        .ask(fencepost_tests::agent_frames::stopped(&offer))
        .await;
    let (status, problem) = answer(gateway.put(&offer.output.url, b"three").await).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::CONFLICT, &json!("grant_closed"))
    );
    let stored = std::fs::read(site.object(&offer.output.object_key));
    assert!(stored.is_err() || stored.unwrap() == b"two");
}
