//! Starts, restarts, refusals and ends of one server.

use std::net::TcpStream;

use fencepost_embedded::{EmbeddedError, EmbeddedPostgres};
use sqlx::{Connection as _, PgConnection};

use crate::support::{Scratch, connect, is_running, ps, read_mark, setting, write_mark};

#[tokio::test]
async fn the_first_start_makes_a_safe_server_with_the_database_in_it() {
    let scratch = Scratch::new();
    let postgres = scratch.start().await;
    assert_ne!(postgres.port(), 5432);
    let mut connection = connect(&postgres.url()).await;
    let database: String = sqlx::query_scalar("select current_database()")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(database, "fencepost");
    for (name, value) in [
        ("fsync", "on"),
        ("full_page_writes", "on"),
        ("synchronous_commit", "on"),
        ("listen_addresses", "127.0.0.1"),
        ("max_connections", "100"),
        ("server_encoding", "UTF8"),
        ("data_checksums", "on"),
        ("password_encryption", "scram-sha-256"),
    ] {
        assert_eq!(setting(&mut connection, name).await, value, "{name}");
    }
    assert_ne!(ps(postgres.pid(), "user="), "root");
    let socket = postgres
        .socket_dir()
        .join(format!(".s.PGSQL.{}", postgres.port()));
    assert!(socket.exists());
    postgres.stop().await.unwrap();
    assert!(!socket.exists());
}

#[tokio::test]
async fn nobody_gets_in_without_the_password() {
    let scratch = Scratch::new();
    let postgres = scratch.start().await;
    let shown = format!("{postgres:?}");
    let url = postgres.url();
    let secret = url.expose().split(['@', ':']).nth(2).unwrap();
    assert_eq!(secret.len(), 48);
    assert!(!shown.contains(secret), "{shown}");
    let wrong = url.expose().replace(secret, "wrong");
    let refused = PgConnection::connect(&wrong).await.unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("password authentication failed"),
        "{refused}"
    );
    for line in ps(postgres.pid(), "args=").lines() {
        assert!(
            !line.contains(secret),
            "the password is on the command line"
        );
    }
    let socket = format!(
        "postgres://fencepost:wrong@localhost:{}/fencepost?host={}",
        postgres.port(),
        postgres.socket_dir().display()
    );
    let refused = PgConnection::connect(&socket).await.unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("password authentication failed"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_second_start_keeps_data_and_password() {
    let scratch = Scratch::new();
    let first = scratch.start().await;
    write_mark(&first.url()).await;
    let (pid, password) = (
        first.pid(),
        first.url().expose().split(':').nth(2).map(str::to_owned),
    );
    first.stop().await.unwrap();
    assert!(!is_running(pid));
    let second = scratch.start().await;
    assert_eq!(read_mark(&second.url()).await, "kept");
    let again = second.url().expose().split(':').nth(2).map(str::to_owned);
    assert_eq!(
        password.unwrap().split('@').next().unwrap(),
        again.unwrap().split('@').next().unwrap()
    );
}

#[tokio::test]
async fn a_first_start_that_was_cut_short_is_begun_anew() {
    let scratch = Scratch::new();
    let draft = scratch.data_dir().join("cluster.new");
    std::fs::create_dir_all(&draft).unwrap();
    std::fs::write(draft.join("PG_VERSION"), "15\n").unwrap();
    std::fs::write(scratch.data_dir().join("initdb-password"), "left behind").unwrap();
    let postgres = scratch.start().await;
    connect(&postgres.url()).await;
    assert!(!draft.exists());
    assert!(!scratch.data_dir().join("initdb-password").exists());
}

#[tokio::test]
async fn two_servers_run_side_by_side() {
    let (one, other) = (Scratch::new(), Scratch::new());
    let (one, other) = tokio::join!(one.start(), other.start());
    assert_ne!(one.port(), other.port());
    write_mark(&one.url()).await;
    let mut connection = connect(&other.url()).await;
    let there: Option<String> = sqlx::query_scalar("select to_regclass('mark')::text")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(there, None, "both URLs lead to one server");
}

#[tokio::test]
async fn a_folder_in_use_is_refused_and_its_server_left_alone() {
    let scratch = Scratch::new();
    let first = scratch.start().await;
    let error = EmbeddedPostgres::start(scratch.options())
        .await
        .unwrap_err();
    let text = error.to_string();
    let EmbeddedError::InUse { pid, .. } = error else {
        panic!("{text}")
    };
    assert_eq!(pid, Some(std::process::id()));
    connect(&first.url()).await;
    first.stop().await.unwrap();
    scratch.start().await;
}

#[tokio::test]
async fn nothing_runs_after_a_drop() {
    let scratch = Scratch::new();
    let postgres = scratch.start().await;
    let (pid, port) = (postgres.pid(), postgres.port());
    assert!(is_running(pid));
    let _open = connect(&postgres.url()).await;
    drop(postgres);
    assert!(!is_running(pid));
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[tokio::test]
async fn a_panic_leaves_nothing_running() {
    let scratch = Scratch::new();
    let postgres = scratch.start().await;
    let pid = postgres.pid();
    let task = tokio::spawn(async move {
        let _held = postgres;
        panic!("on purpose");
    });
    assert!(task.await.unwrap_err().is_panic());
    assert!(!is_running(pid));
}

#[tokio::test]
async fn a_temporary_server_takes_its_files_with_it() {
    let scratch = Scratch::new();
    let mut options = scratch.options();
    options.temporary = true;
    let postgres = EmbeddedPostgres::start(options.clone()).await.unwrap();
    let home = postgres.home().to_owned();
    postgres.stop().await.unwrap();
    assert!(!home.exists() && !scratch.data_dir().exists());
    drop(EmbeddedPostgres::start(options).await.unwrap());
    assert!(!scratch.data_dir().exists());
}

#[tokio::test]
async fn a_server_that_cannot_start_is_reported_with_the_end_of_its_log() {
    let scratch = Scratch::new();
    scratch.start().await.stop().await.unwrap();
    let mut options = scratch.options();
    options.max_connections = 0;
    let error = EmbeddedPostgres::start(options).await.unwrap_err();
    assert!(matches!(error, EmbeddedError::NotReady { .. }), "{error}");
    assert!(error.to_string().contains("max_connections"), "{error}");
    scratch.start().await;
}

#[tokio::test]
async fn data_of_another_version_is_not_touched_and_the_version_named() {
    let scratch = Scratch::new();
    let postgres = scratch.start().await;
    let home = postgres.home().to_owned();
    postgres.stop().await.unwrap();
    let mark = home.join("cluster/PG_VERSION");
    let version = std::fs::read_to_string(&mark).unwrap();
    std::fs::write(&mark, "11\n").unwrap();
    let mut options = scratch.options();
    // A folder without a server, so that nothing is downloaded on a machine that could.
    options.bin_dir = Some(scratch.path().to_owned());
    let error = EmbeddedPostgres::start(options).await.unwrap_err();
    assert!(
        error.to_string().contains("no Postgres 11 (which made "),
        "{error}"
    );
    std::fs::write(&mark, version).unwrap();
    scratch.start().await;
}

#[tokio::test]
async fn statement_statistics_are_there_when_the_server_offers_them() {
    let scratch = Scratch::new();
    let postgres = scratch.start().await;
    let mut connection = connect(&postgres.admin_url()).await;
    let created = sqlx::query("create extension pg_stat_statements")
        .execute(&mut connection)
        .await;
    if postgres.has_stat_statements() {
        created.unwrap();
        let calls: i64 = sqlx::query_scalar("select count(*) from pg_stat_statements")
            .fetch_one(&mut connection)
            .await
            .unwrap();
        assert!(calls > 0);
    } else {
        created.unwrap_err();
    }
}

#[tokio::test]
async fn a_server_that_is_killed_is_back_on_its_port_with_everything_that_was_committed() {
    let scratch = Scratch::new();
    let mut postgres = scratch.start().await;
    let (url, port, killed) = (postgres.url(), postgres.port(), postgres.pid());
    write_mark(&url).await;
    let id = rustix::process::Pid::from_raw(i32::try_from(killed).unwrap()).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
    let again = async {
        while PgConnection::connect(url.expose()).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        () = again => {}
        error = postgres.keep_running() => panic!("it does not come back: {error}"),
    }
    assert_ne!(postgres.pid(), killed);
    assert_eq!(postgres.port(), port);
    assert_eq!(read_mark(&url).await, "kept");
    postgres.stop().await.unwrap();
    assert!(!is_running(killed));
}
