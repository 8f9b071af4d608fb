//! What was judged is what is connected to, and nothing of an answer is waited for too long.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::allow::AllowList;
use crate::guard::tests::names;
use crate::lookup::Lookup;

const LIMITS: Limits = Limits {
    total: Duration::from_secs(2),
    body_bytes: 64 * 1024,
};

/// A server on this machine that says `head` and then `body` for ever; gives its port and how many
/// have come.
async fn server(head: &'static str, body: &'static [u8]) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let came = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&came);
    tokio::task::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            counter.fetch_add(1, Ordering::SeqCst);
            let mut buffer = [0; 4096];
            let _ = socket.read(&mut buffer).await;
            if socket.write_all(head.as_bytes()).await.is_err() || body.is_empty() {
                continue;
            }
            while socket.write_all(body).await.is_ok() {}
        }
    });
    (port, came)
}

fn guarded(allowed: &[&str], lookup: impl Lookup + 'static) -> Guarded {
    let allowed = AllowList::parse(allowed.iter().copied()).unwrap();
    Guarded::new(Guard::with_lookup(allowed, lookup), "test").unwrap()
}

async fn post(client: &Guarded, url: &str) -> Result<Answer, Failed> {
    client
        .post(&Url::parse(url).unwrap(), &[], "{}", LIMITS)
        .await
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi";

#[tokio::test]
async fn a_name_is_judged_again_when_it_is_used_and_nothing_is_sent() {
    let (port, came) = server(OK, b"").await;
    let client = guarded(&["192.168.77.0/24"], names());
    for host in [
        "localhost",
        "127.0.0.1",
        "127.1",
        "[::ffff:127.0.0.1]",
        "half.example",
    ] {
        let refused = post(&client, &format!("http://{host}:{port}/")).await;
        assert!(
            matches!(refused, Err(Failed::Refused(_))),
            "{host}: {refused:?}"
        );
    }
    assert_eq!(came.load(Ordering::SeqCst), 0);
}

/// Says something public first, and this machine ever after.
struct Rebinding(AtomicUsize);

impl Lookup for Rebinding {
    fn lookup(&self, _: String) -> BoxFuture<'static, std::io::Result<Vec<std::net::IpAddr>>> {
        let first = self.0.fetch_add(1, Ordering::SeqCst) == 0;
        let address = if first { "93.184.215.14" } else { "127.0.0.1" };
        async move { Ok(vec![address.parse().unwrap()]) }.boxed()
    }
}

#[tokio::test]
async fn a_name_that_changes_its_mind_between_registration_and_use_is_refused() {
    let client = guarded(&[], Rebinding(AtomicUsize::new(0)));
    let url = Url::parse("https://rebinding.example/").unwrap();
    assert_eq!(client.guard().admit(&url).await, Ok(()));
    let refused = client.post(&url, &[], "{}", LIMITS).await;
    assert_eq!(refused, Err(Failed::Refused(Refused::NotPublic)));
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let (inside, came) = server(OK, b"").await;
    let moved = format!(
        "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:{inside}/\r\ncontent-length: 0\r\n\r\n"
    );
    let (port, _) = server(moved.leak(), b"").await;
    let client = guarded(&["127.0.0.0/8"], names());
    let answer = post(&client, &format!("http://localhost:{port}/")).await;
    // The other address of the name is not allowed.
    assert!(matches!(answer, Err(Failed::Refused(_))), "{answer:?}");
    let answer = post(&client, &format!("http://127.0.0.1:{port}/"))
        .await
        .unwrap();
    assert_eq!((answer.status, came.load(Ordering::SeqCst)), (302, 0));
}

#[tokio::test]
async fn endless_bodies_are_cut_and_endless_heads_and_silence_end() {
    let endless = "HTTP/1.1 200 OK\r\ntransfer-encoding: identity\r\n\r\n";
    let (port, _) = server(endless, &[b'x'; 1024]).await;
    let client = guarded(&["127.0.0.0/8"], names());
    let answer = post(&client, &format!("http://127.0.0.1:{port}/"))
        .await
        .unwrap();
    assert_eq!((answer.status, answer.body.len()), (200, LIMITS.body_bytes));
    let (port, _) = server("HTTP/1.1 200 OK\r\n", b"x-more: and more\r\n").await;
    let answer = post(&client, &format!("http://127.0.0.1:{port}/")).await;
    assert!(matches!(answer, Err(Failed::Broken(_))), "{answer:?}");
    // A listener that accepts and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let answer = post(&client, &format!("http://127.0.0.1:{port}/?secret=1")).await;
    assert_eq!(answer, Err(Failed::TooLate(2)));
    drop(silent);
    let Err(Failed::Broken(text)) = post(&client, &format!("http://127.0.0.1:{port}/?key=1")).await
    else {
        panic!("nobody listens");
    };
    assert!(!text.contains("key=1"), "{text}");
}
