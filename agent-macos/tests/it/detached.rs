//! A claimed lease as one owned thing, against answers that a test plays.

use std::sync::{Arc, Mutex};

use fencepost_agent::credential::DeviceFile;
use fencepost_agent::detached::{AskError, Claim, Claimed, Desk, EndError, Lease};
use fencepost_domain::ids::{AttemptId, DeviceId, JobId, OrgId, ProviderId, RequestId};
use fencepost_protocol::OutputDeclaration;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const SECRET: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Answers requests one after the other with a status and a body, and keeps what was asked.
struct Played {
    desk: Desk,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Played {
    async fn new(answers: Vec<(u16, Value)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        tokio::spawn(async move {
            for (status, body) in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let request = read_body(&mut stream).await;
                kept.lock().unwrap().push(request);
                let body = body.to_string();
                let length = body.len();
                let head = format!(
                    "HTTP/1.1 {status} x\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
                );
                stream.write_all((head + &body).as_bytes()).await.unwrap();
            }
        });
        let device = DeviceFile {
            gateway: format!("http://127.0.0.1:{port}/"),
            device_id: DeviceId::new(),
            provider_id: ProviderId::new(),
            device_name: "mac".to_owned(),
            device_token: serde_json::from_value(json!("fp_device_1")).unwrap(),
        };
        let desk = Desk::of(&device).unwrap();
        Self { desk, asked }
    }

    fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().clone()
    }
}

async fn read_body(stream: &mut TcpStream) -> Value {
    let mut bytes = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).await.unwrap();
        bytes.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let body = text.split_once("\r\n\r\n").map(|(_, body)| body);
        if let Some(Ok(body)) = body.map(serde_json::from_str) {
            return body;
        }
        assert!(count > 0, "the request ends early: {text}");
    }
}

fn granted() -> (u16, Value) {
    let lease = json!({
        "scope": OrgId::new(), "job_id": JobId::new(), "attempt_id": AttemptId::new(),
        "lease_epoch": 3, "commit_token": SECRET, "service": "noop.v1",
    });
    (201, lease)
}

fn refused(code: &str, disposition: &str) -> (u16, Value) {
    let problem = json!({ "code": code, "disposition": disposition, "retry_after_ms": 1 });
    (409, problem)
}

async fn claimed(played: &Played) -> Lease {
    match Lease::claim(&played.desk, &Claim::default()).await {
        Ok(Claimed::Leased(lease, work)) => {
            assert!(!work.to_string().contains(SECRET));
            lease
        }
        other => panic!("{other:?}"),
    }
}

/// Compiles only for what is not `Clone`: otherwise it would be ambiguous which one is meant.
trait NotClone<A> {
    fn is_owned() -> bool {
        true
    }
}
impl<T> NotClone<()> for T {}
impl<T: Clone> NotClone<u8> for T {}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_ask_again_hands_the_lease_back_and_the_same_request_goes_on() {
    assert!(<Lease as NotClone<_>>::is_owned());
    let answers = vec![granted(), refused("verifying", "retry"), (200, json!({}))];
    let played = Played::new(answers).await;
    let lease = claimed(&played).await;
    let reference = lease.reference();
    let output = OutputDeclaration {
        sha256: "0".repeat(64),
        size_bytes: 1,
        object_key: "k".to_owned(),
    };
    let request = RequestId::new();
    let error = lease
        .commit(&played.desk, request, &output)
        .await
        .unwrap_err();
    assert!(!format!("{error} {error:?}").contains(SECRET));
    let EndError::Retry { lease, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(lease.reference(), reference);
    lease.commit(&played.desk, request, &output).await.unwrap();
    let asked = played.asked();
    assert_eq!(asked[1], asked[2]);
    assert_eq!(asked[1]["commit_token"], SECRET);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_uses_the_lease_up_and_says_why() {
    let answers = vec![granted(), refused("commit_conflict", "stop")];
    let played = Played::new(answers).await;
    let lease = claimed(&played).await;
    let error = lease
        .fail(
            &played.desk,
            RequestId::new(),
            ("runner_failed", "it broke"),
        )
        .await
        .unwrap_err();
    let EndError::Final(AskError::Refused { code, .. }) = error else {
        panic!("{error:?}");
    };
    assert_eq!(code, "commit_conflict");
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_lease_tells_nobody_anything() {
    let played = Played::new(vec![granted(), (200, json!({}))]).await;
    {
        let _lease = claimed(&played).await;
    }
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    let asked = played.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_claim_brings_no_lease() {
    let mut again = granted().1;
    again.as_object_mut().unwrap().remove("commit_token");
    let played = Played::new(vec![(200, again)]).await;
    let answer = Lease::claim(&played.desk, &Claim::default()).await.unwrap();
    assert!(matches!(answer, Claimed::Before { .. }), "{answer:?}");
}
