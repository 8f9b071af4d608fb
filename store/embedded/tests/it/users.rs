//! As whom the server runs. Most of it needs root, who alone can become others; run as an
//! ordinary user, these tests check what that user can see.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use fencepost_embedded::{EmbeddedPostgres, StartOptions};
use tempfile::TempDir;

use crate::support::{Owner, PROGRAM, Scratch, is_running, ps, read_mark, we_are_root, write_mark};

#[tokio::test]
async fn data_named_in_a_folder_closed_to_the_servers_user_is_kept_elsewhere_and_found_again() {
    let private = TempDir::new().unwrap();
    std::fs::set_permissions(private.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let wanted = private.path().join("pg");
    let first = EmbeddedPostgres::start(StartOptions::new(&wanted))
        .await
        .unwrap();
    let home = first.home().to_owned();
    // Only root's server is another user's; anybody else keeps the data where it was wanted.
    assert_eq!(
        home != wanted.canonicalize().unwrap(),
        we_are_root(),
        "{}",
        home.display()
    );
    write_mark(&first.url()).await;
    first.stop().await.unwrap();

    let mut options = StartOptions::new(&wanted);
    options.temporary = true;
    let second = EmbeddedPostgres::start(options).await.unwrap();
    assert_eq!(second.home(), home);
    assert_eq!(read_mark(&second.url()).await, "kept");
    assert_eq!(
        std::fs::metadata(home.join("cluster")).unwrap().mode() & 0o777,
        0o700
    );
    assert_eq!(
        std::fs::metadata(home.join("password")).unwrap().mode() & 0o777,
        0o600
    );
    second.stop().await.unwrap();
    assert!(!home.exists());
}

#[tokio::test]
async fn moved_data_that_is_gone_is_an_error_and_not_an_empty_database() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.data_dir()).unwrap();
    std::fs::write(
        scratch.data_dir().join("location"),
        "/nonexistent/fencepost\n",
    )
    .unwrap();
    let error = EmbeddedPostgres::start(scratch.options())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("/nonexistent/fencepost: is gone"),
        "{error}"
    );
}

#[tokio::test]
async fn an_ordinary_user_runs_the_server_as_itself_and_root_goes_on_with_it() {
    let scratch = Scratch::new();
    // The folder with the test programs may be closed to others.
    let program = scratch.path().join("embedded-postgres");
    std::fs::copy(PROGRAM, &program).unwrap();
    let mine = scratch.path().join("mine");
    std::fs::create_dir(&mine).unwrap();
    let mut command = Command::new(&program);
    command.arg(mine.join("pg")).current_dir(scratch.path());
    if we_are_root() {
        let nobody = 65534;
        std::os::unix::fs::chown(&mine, Some(nobody), Some(nobody)).unwrap();
        command.uid(nobody).gid(nobody);
    }
    let owner = Owner::run(command);
    let server = owner.server_pid();
    let user = ps(server, "uid=");
    assert_eq!(user, ps(owner.child.id(), "uid="));
    assert_ne!(user, "0");
    owner.end();
    assert!(!is_running(server));

    let postgres = EmbeddedPostgres::start(StartOptions::new(mine.join("pg")))
        .await
        .unwrap();
    assert_eq!(
        ps(postgres.pid(), "uid="),
        user,
        "an existing cluster keeps its user"
    );
    write_mark(&postgres.url()).await;
    postgres.stop().await.unwrap();

    // And back: root left nothing there that locks the user out.
    let mut command = Command::new(&program);
    command.arg(mine.join("pg")).current_dir(scratch.path());
    if we_are_root() {
        command.uid(65534).gid(65534);
    }
    Owner::run(command).end();
}
