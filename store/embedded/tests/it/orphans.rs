//! What an owner that was killed leaves behind, and who clears it away.

use rustix::process::{Pid, Signal, kill_process_group};

use crate::support::{Owner, Scratch, ends_soon, is_running, ps, read_mark, write_mark};

#[tokio::test]
async fn the_server_of_a_killed_owner_is_found_and_stopped_by_the_next_start() {
    let scratch = Scratch::new();
    let first = scratch.start().await;
    write_mark(&first.url()).await;
    first.stop().await.unwrap();
    let owner = Owner::start(&scratch.data_dir(), true);
    let orphan = owner.server_pid();
    owner.kill();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(
        is_running(orphan),
        "the case needs a server that survived its owner"
    );
    let second = scratch.start().await;
    assert!(!is_running(orphan));
    assert_ne!(second.pid(), orphan);
    assert_eq!(read_mark(&second.url()).await, "kept");
}

#[tokio::test]
async fn a_crashed_server_recovers_although_its_record_is_stale() {
    let scratch = Scratch::new();
    let first = scratch.start().await;
    write_mark(&first.url()).await;
    let pid = Pid::from_raw(first.pid().cast_signed()).unwrap();
    let record = first.home().join("cluster/postmaster.pid");
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    assert!(ends_soon(first.pid()));
    drop(first);
    assert!(record.exists());
    let second = scratch.start().await;
    assert_eq!(read_mark(&second.url()).await, "kept");
}

#[tokio::test]
async fn a_server_follows_its_killed_owner_unless_told_otherwise() {
    let scratch = Scratch::new();
    let owner = Owner::start(&scratch.data_dir(), false);
    let server = owner.server_pid();
    assert!(is_running(server));
    owner.kill();
    assert!(ends_soon(server));
    scratch.start().await;
}

#[tokio::test]
async fn a_detached_server_stays_until_the_next_start() {
    let scratch = Scratch::new();
    let postgres = scratch.start().await;
    write_mark(&postgres.url()).await;
    let (pid, url) = (postgres.pid(), postgres.url());
    postgres.detach();
    assert_eq!(read_mark(&url).await, "kept");
    scratch.start().await;
    assert!(!is_running(pid) || ps(pid, "args=").is_empty());
}

#[tokio::test]
async fn the_terminals_interrupt_reaches_the_owner_and_not_the_server() {
    let scratch = Scratch::new();
    let mut owner = Owner::start(&scratch.data_dir(), true);
    let server = owner.server_pid();
    assert_ne!(ps(server, "pgid="), ps(owner.child.id(), "pgid="));
    // The owner, which leads its group, says when the server stops; it does so and ends well.
    kill_process_group(Pid::from_child(&owner.child), Signal::INT).unwrap();
    assert!(owner.child.wait().unwrap().success());
    assert!(!is_running(server));
}
