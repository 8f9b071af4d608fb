//! What the database itself promises, and that it says the same as the code.

use std::fs;
use std::path::{Path, PathBuf};

use fencepost_domain::attempt::{AttemptStatus, Phase};
use fencepost_domain::job::JobStatus;
use fencepost_domain::ledger::PostingKind;
use fencepost_store::{Store, StoreError, StoreSettings};
use fencepost_tests::{TestDb, World};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[tokio::test]
async fn the_clock_of_a_real_database_is_the_servers_and_not_the_transactions() {
    let db = TestDb::migrated().await;
    let body = db
        .text("select pg_get_function_sqlbody('authority_now()'::regprocedure)")
        .await;
    assert_eq!(body, "RETURN clock_timestamp()");
    let volatility = "select provolatile from pg_proc where oid = 'authority_now()'::regprocedure";
    assert_eq!(db.text(volatility).await, "v");
}

#[tokio::test]
async fn every_default_reads_the_one_clock() {
    let db = TestDb::migrated().await;
    let defaults = db
        .texts(
            "select pg_get_expr(adbin, adrelid) from pg_attrdef join pg_attribute
                on attrelid = adrelid and attnum = adnum
             where adrelid in (select oid from pg_class where relnamespace = 'public'::regnamespace)
                and adrelid::regclass::text <> '_sqlx_migrations' and atttypid = 'timestamptz'::regtype",
        )
        .await;
    assert!(defaults.len() >= 4, "{defaults:?}");
    assert!(
        defaults.iter().all(|default| default == "authority_now()"),
        "{defaults:?}"
    );
}

#[test]
fn no_migration_and_no_statement_reads_another_clock() {
    let mut sources = files(&workspace().join("migrations"), "sql");
    sources.extend(files(&workspace().join("store/src"), "rs"));
    sources.extend(files(&workspace().join(".sqlx"), "json"));
    assert!(
        sources.len() > 60,
        "only {} sources were found",
        sources.len()
    );
    let mut clocks = Vec::new();
    for path in sources {
        let text = fs::read_to_string(&path).unwrap();
        for line in text.lines().filter(|line| !is_comment(line)) {
            clocks
                .extend(foreign_clocks(line).map(|clock| format!("{clock} in {}", path.display())));
        }
    }
    assert_eq!(clocks.len(), 1, "{clocks:#?}");
    assert!(
        clocks[0].contains("create_authority_clock.sql"),
        "{clocks:?}"
    );
}

fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("--") || line.starts_with("//")
}

/// Calls of a clock other than `authority_now()` (and of Rust's monotonic one, which is no clock).
fn foreign_clocks(line: &str) -> impl Iterator<Item = &'static str> {
    let words = [
        "clock_timestamp",
        "current_timestamp",
        "statement_timestamp",
        "transaction_timestamp",
        "localtimestamp",
        "current_date",
        "current_time",
        "timeofday",
        "'now'",
    ];
    let lower = line.to_lowercase();
    let named: Vec<_> = words
        .into_iter()
        .filter(|word| lower.contains(word))
        .collect();
    let calls = lower
        .match_indices("now()")
        .map(|(at, _)| lower[..at].to_owned());
    let allowed = |before: &String| before.ends_with("authority_") || before.ends_with("instant::");
    let bare = calls
        .filter(|before| !allowed(before))
        .map(|_| "now()")
        .collect::<Vec<_>>();
    named.into_iter().chain(bare)
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .expect("the sources can be read")
        .map(|entry| entry.expect("the sources can be read").path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                files(&path, extension)
            } else {
                vec![path]
            }
        })
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect()
}

#[tokio::test]
async fn enum_labels_are_the_variants() {
    let db = TestDb::migrated().await;
    let labels = async |name: &str| {
        db.texts(&format!("select unnest(enum_range(null::{name}))"))
            .await
    };
    assert_eq!(
        labels("job_status").await,
        JobStatus::ALL.map(JobStatus::as_str)
    );
    assert_eq!(
        labels("attempt_status").await,
        AttemptStatus::ALL.map(AttemptStatus::as_str)
    );
    assert_eq!(
        labels("posting_kind").await,
        PostingKind::ALL.map(PostingKind::as_str)
    );
}

#[tokio::test]
async fn the_database_has_the_same_arrows_as_the_domain() {
    let db = TestDb::migrated().await;
    for old in JobStatus::ALL {
        for new in JobStatus::ALL {
            let arrow = format!(
                "select job_arrow_exists('{}', '{}')",
                old.as_str(),
                new.as_str()
            );
            assert_eq!(
                db.text(&arrow).await == "t",
                old.can_become(new),
                "{old:?} -> {new:?}"
            );
        }
    }
    for old in AttemptStatus::ALL {
        for new in AttemptStatus::ALL {
            let arrow = format!(
                "select attempt_arrow_exists('{}', '{}')",
                old.as_str(),
                new.as_str()
            );
            assert_eq!(
                db.text(&arrow).await == "t",
                old.can_become(new),
                "{old:?} -> {new:?}"
            );
        }
    }
}

#[test]
fn the_arrows_are_those_that_were_reviewed() {
    let job = matrix(&JobStatus::ALL, JobStatus::as_str, |old, new| {
        old.can_become(new)
    });
    insta::assert_snapshot!("job_arrows", job);
    let attempt = matrix(&AttemptStatus::ALL, AttemptStatus::as_str, |old, new| {
        old.can_become(new)
    });
    insta::assert_snapshot!("attempt_arrows", attempt);
}

/// One line for each status: what it can become.
fn matrix<T: Copy>(
    all: &[T],
    label: impl Fn(T) -> &'static str,
    arrow: impl Fn(T, T) -> bool,
) -> String {
    let line = |old: &T| {
        let next: Vec<_> = all
            .iter()
            .filter(|new| arrow(*old, **new))
            .map(|new| label(*new))
            .collect();
        format!(
            "{:12} -> {}",
            label(*old),
            if next.is_empty() {
                "(end)".to_owned()
            } else {
                next.join(" | ")
            }
        )
    };
    all.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_second_live_attempt_of_a_job_is_refused_by_the_database() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Running).await;
    let second = format!(
        "insert into attempts (id, job_id, org_id, device_id, provider_id, attempt_number, output_key,
            leased_at, run_deadline, session_number, lease_epoch, lease_expires_at, grant_expires_at,
            check_after)
         select gen_random_uuid(), job_id, org_id, device_id, provider_id, 2, 'other', leased_at,
            run_deadline, session_number, 2, lease_expires_at, grant_expires_at, check_after
         from attempts where id = '{}'",
        lease.attempt
    );
    let refused = world.db.refusal(&second).await;
    assert_eq!(refused.1.as_deref(), Some("one_live_attempt_per_job"));
}

#[tokio::test]
async fn a_budget_outside_1_to_10_makes_no_job() {
    let world = World::new().await;
    for max_attempts in [0, 11] {
        let mut job = world.new_job().await;
        job.max_attempts = max_attempts;
        let before = world.db.rows().await;
        let error = world
            .store
            .submit_job(job)
            .await
            .expect_err("the database accepted it");
        assert!(error.to_string().contains("refused"), "{error}");
        let StoreError::Database(error) = error else {
            panic!("{error}")
        };
        let error = error.into_database_error().unwrap();
        assert_eq!(error.constraint(), Some("max_attempts_within_bounds"));
        assert_eq!(world.db.rows().await, before);
    }
    for max_attempts in [1, 10] {
        world
            .submit_with(|job| job.max_attempts = max_attempts)
            .await;
    }
}

#[tokio::test]
async fn a_live_attempt_has_a_lease_and_an_ended_one_an_end() {
    let world = World::new().await;
    let mac = world.device("mac").await;
    let lease = world.in_phase(&mac, Phase::Uploading).await;
    for (change, constraint) in [
        ("lease_expires_at = null", "lease_expires_iff_live"),
        ("check_after = null", "checked_iff_live"),
        ("ended_at = authority_now()", "checked_iff_live"),
        ("status = 'lost'", "ended_at_iff_terminal"),
        ("status = 'committing'", "verified_from_committing_on"),
        ("accepted_at = null", "accepted_before_phases"),
        ("token_digest = 'short'", "digest_is_sha256"),
        ("percent = 101", "percent_is_a_percentage"),
        ("final_operation = 'commit'", "final_writer_is_whole"),
        ("stop_reason = 'because'", "stop_reason_is_known"),
    ] {
        let statement = format!(
            "update attempts set {change} where id = '{}'",
            lease.attempt
        );
        let refused = world.db.refusal(&statement).await;
        assert_eq!(
            refused,
            ("23514".to_owned(), Some(constraint.to_owned())),
            "{change}"
        );
    }
}

#[tokio::test]
async fn no_index_holds_what_a_renewal_or_a_new_phase_changes() {
    let db = TestDb::migrated().await;
    let indexes = db
        .texts("select pg_get_indexdef(indexrelid) from pg_index where indrelid = 'attempts'::regclass")
        .await;
    assert!(indexes.len() > 5, "{indexes:?}");
    for index in indexes {
        // Postgres writes a new entry into every index once one of their columns, or of the columns
        // in their predicates, has changed.
        for column in [
            "lease_expires_at",
            "status",
            "percent",
            "detail",
            "accepted_at",
            "replaced",
        ] {
            assert!(!index.contains(column), "renewals change {column}: {index}");
        }
    }
}

#[tokio::test]
async fn every_table_and_every_column_has_its_sentence() {
    let db = TestDb::migrated().await;
    let silent = db
        .texts(
            "select c.relname || coalesce('.' || a.attname, '') from pg_class c
                left join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not attisdropped
             where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace
                and c.relname <> '_sqlx_migrations' and a.attname <> 'id'
                and (col_description(c.oid, a.attnum) is null or obj_description(c.oid) is null)
                -- the key of an account is the org's
                and (c.relname, a.attname) <> ('org_accounts', 'org_id')
             order by 1",
        )
        .await;
    assert!(silent.is_empty(), "without a comment: {silent:?}");
}

#[tokio::test]
async fn a_store_refuses_an_empty_schema_and_one_that_is_newer() {
    let db = TestDb::migrated().await;
    let store = db.open_store(StoreSettings::default());
    store.check_schema().await.unwrap();
    db.execute("insert into _sqlx_migrations select version + 1, description, installed_on, success, checksum, execution_time from _sqlx_migrations order by version desc limit 1").await;
    let newer = store.check_schema().await;
    assert!(matches!(newer, Err(StoreError::Schema { .. })), "{newer:?}");
    db.execute("drop table _sqlx_migrations").await;
    let empty = store.check_schema().await;
    assert!(matches!(empty, Err(StoreError::Schema { .. })), "{empty:?}");
    let unreadable = Store::open("not a url: hunter2", StoreSettings::default());
    let error = unreadable.err().expect("it was understood").to_string();
    assert!(!error.contains("hunter2"), "{error}");
}

#[tokio::test]
async fn whoever_deletes_a_row_finds_by_an_index_what_refers_to_it() {
    let db = TestDb::migrated().await;
    // Of these nothing is ever deleted.
    let without = "select c.conname from pg_constraint c
        where c.contype = 'f' and c.confrelid::regclass::text not in ('orgs', 'providers', 'devices')
            and not exists (select from pg_index i
                where i.indrelid = c.conrelid and i.indpred is null
                    and (i.indkey::int2[])[0:cardinality(c.conkey) - 1] @> c.conkey)";
    assert_eq!(db.texts(without).await, Vec::<String>::new());
    let all = "select count(*) from pg_constraint where contype = 'f'";
    assert!(db.text(all).await.parse::<u32>().unwrap() > 15);
}
