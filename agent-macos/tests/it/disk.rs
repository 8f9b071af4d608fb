//! A full disk: 64 MiB in memory, mounted for one test.
//!
//! Mounting needs a mount namespace of our own, so each test runs its body in a second process that
//! `unshare` started: as root directly, for others with a user namespace. Where neither is permitted
//! the test says so; under CI it fails, since there it must run.

use std::path::{Path, PathBuf};
use std::process::Command;

use fencepost_agent::core::LinkAnswer;
use fencepost_agent::outbox::{LeaseRecord, Outbox};
use fencepost_agent::reserve::Reserve;
use fencepost_domain::attempt::Phase;
use fencepost_domain::ids::{AttemptId, JobId};
use fencepost_protocol::GatewayFrame;

use crate::agent::{Agent, REAL, eventually};
use crate::gateway::Gateway;
use crate::session::{Session, content, offer, small, token};

const INSIDE: &str = "FENCEPOST_TEST_DISK";
const MIB: usize = 1 << 20;

/// Whether this is the second process, which has the mount; else runs it and judges its end.
fn on_a_small_disk(test: &str) -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os(INSIDE) {
        return Some(PathBuf::from(folder));
    }
    let flags = if rustix::process::geteuid().is_root() {
        "-m"
    } else {
        "-Urm"
    };
    let temp = tempfile::tempdir().unwrap();
    let mount = "mount -t tmpfs -o size=64m tmpfs \"$FENCEPOST_TEST_DISK\" || exit 93; exec \"$@\"";
    let output = Command::new("unshare")
        .args([flags, "/bin/sh", "-c", mount, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, temp.path())
        .output();
    let (well, said) = match &output {
        Ok(output) => {
            let text = [output.stdout.as_slice(), &output.stderr].concat();
            (
                output.status.success(),
                String::from_utf8_lossy(&text).into_owned(),
            )
        }
        Err(error) => (false, error.to_string()),
    };
    if said.contains("running 1 test") {
        assert!(well && said.contains("1 passed"), "{said}");
    } else {
        assert!(
            std::env::var_os("CI").is_none(),
            "no small disk in CI: {said}"
        );
        println!("NOT RUN: this machine lets nobody mount a small disk: {said}");
    }
    None
}

async fn start(gateway: &mut Gateway, script: &str, folder: &Path) -> (Agent, Session) {
    let mut agent = Agent::paired_in(gateway, folder)
        .await
        .with_stand_in(script);
    agent.start();
    let mut session = gateway.session().await;
    session.welcome_empty().await;
    (agent, session)
}

/// Fills the disk up to this many free bytes; giving the file up makes room again.
fn leave_free(folder: &Path, bytes: u64) -> PathBuf {
    let free = || {
        let found = rustix::fs::statvfs(folder).unwrap();
        found.f_bavail * found.f_frsize
    };
    let file = folder.join("ballast");
    let ballast = usize::try_from(free().saturating_sub(bytes)).unwrap();
    std::fs::write(&file, vec![1; ballast]).unwrap();
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn offers_that_do_not_fit_are_declined_until_there_is_room() {
    let Some(folder) =
        on_a_small_disk("disk::offers_that_do_not_fit_are_declined_until_there_is_room")
    else {
        return;
    };
    let mut gateway = Gateway::start().await;
    let source = gateway.put_clip("/in", 1).await;
    let (_agent, mut session) = start(&mut gateway, REAL, &folder).await;
    session.until("pull").await;
    let ballast = leave_free(&folder, 10 << 20);
    let offered = GatewayFrame::LeaseOffer(Box::new(offer(source.clone(), small())));
    session.send(None, None, offered).await;
    let decline = session.until("offer_decline").await;
    let reason = content(&decline)["reason"].to_string();
    assert!(reason.contains("too little room"), "{reason}");
    let asking = tokio::time::timeout(std::time::Duration::from_secs(2), session.until("pull"));
    assert!(
        asking.await.is_err(),
        "it asked for work that it has no room for"
    );
    std::fs::remove_file(ballast).unwrap();
    session.lease(offer(source, small())).await;
    session.until("commit").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_fills_up_at_work_is_the_devices_fault_and_is_empty_afterwards() {
    let Some(folder) = on_a_small_disk(
        "disk::a_disk_that_fills_up_at_work_is_the_devices_fault_and_is_empty_afterwards",
    ) else {
        return;
    };
    let mut gateway = Gateway::start().await;
    let source = gateway.put_clip("/in", 8).await;
    // The real encoder, with an output several times as large as what is left of the disk, which
    // seems to be enough.
    let (agent, mut session) = start(&mut gateway, REAL, &folder).await;
    leave_free(&folder, 20 << 20);
    let large = serde_json::json!({"codec": "prores", "height": 1080, "hardware": "never"});
    session.lease(offer(source, large)).await;
    let fail = session.until("fail").await;
    assert_eq!(
        content(&fail)["failure_code"],
        "device_fault",
        "{:?}",
        content(&fail)
    );
    assert!(
        content(&fail)["message"]
            .to_string()
            .contains("No space left")
    );
    // Said only once it is written: the outbox had room.
    assert_eq!(agent.lease_file()["pending"]["type"], "fail");
    assert!(agent.listing("work").is_empty() && agent.listing("children").is_empty());
    let done = GatewayFrame::Done {
        replayed: false,
        lease_remaining_ms: None,
    };
    session.answer(&fail, done).await;
    eventually("the outbox is empty", || agent.listing("leases").is_empty()).await;
    let asking = tokio::time::timeout(std::time::Duration::from_secs(2), session.until("pull"));
    assert!(
        asking.await.is_err(),
        "it asked for more although the disk is as small as before"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_that_fills_the_disk_is_the_devices_fault_and_not_the_downloads() {
    use crate::scripted::{Act, Scripted, desk};
    use fencepost_agent::transfer::{StepError, download, link::Link};

    let Some(folder) = on_a_small_disk(
        "disk::a_download_that_fills_the_disk_is_the_devices_fault_and_not_the_downloads",
    ) else {
        return;
    };
    let body = vec![7; 80 * MIB];
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    let server = Scripted::start(vec![Act::Say([head.as_bytes(), &body].concat())]).await;
    let (desk, _answering) = desk(LinkAnswer::Refused);
    let mut link = Link::to_input(&server.address, &desk, ("source", "/in")).unwrap();
    let mut offer = offer(("00".repeat(32), body.len() as u64), small());
    let grant = offer.inputs.remove(0);
    let file = folder.join("input");
    let network = server.network();
    let result = download::download(&network, &mut link, &grant, &file, &|_| ()).await;
    let Err(StepError::Failed { code, message }) = result else {
        panic!("{result:?}")
    };
    assert_eq!(
        (code, server.connections()),
        ("device_fault", 1),
        "{message}"
    );
}

#[test]
fn the_outbox_is_written_on_a_disk_without_any_room() {
    let Some(folder) = on_a_small_disk("disk::the_outbox_is_written_on_a_disk_without_any_room")
    else {
        return;
    };
    let leases = folder.join("leases");
    std::fs::create_dir(&leases).unwrap();
    let reserve = Reserve::new(folder.join("reserve"));
    reserve.fill();
    leave_free(&folder, 0);
    let record = LeaseRecord {
        job_id: JobId::new(),
        attempt_id: AttemptId::new(),
        lease_epoch: 1,
        commit_token: token(1),
        object_key: "key".to_owned(),
        phase: Phase::Running,
        events: Vec::new(),
        pending: None,
    };
    let bare = Outbox::new(leases.clone());
    bare.put(&record).unwrap_err();
    let outbox = Outbox::new(leases).with_reserve(reserve);
    outbox.put(&record).unwrap();
    assert_eq!(outbox.load().unwrap(), [record]);
    assert!(!folder.join("reserve").exists());
}
