//! A database of its own for each test.

use std::sync::atomic::{AtomicU32, Ordering};

use fencepost_store::{Store, StoreSettings};
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, PgPool, Row as _};

use crate::checker;
use crate::server::Server;

/// A copy of the template. When it is dropped (and the test has not failed already), the checker
/// asserts what must always hold, and the database is deleted: no test can forget either.
pub struct TestDb {
    name: String,
    url: String,
    /// Connections for the test's own looks and pokes.
    pub pool: PgPool,
    /// Only a copy of the template has the tables that the checker reads.
    is_checked: bool,
}

static NUMBER: AtomicU32 = AtomicU32::new(0);

impl TestDb {
    /// A migrated database with the kit: movable clock, history of jobs.
    pub async fn new() -> Self {
        Self::create(Server::get().template(), true).await
    }

    /// A database with the migrations and nothing else, as a user has it. It is not checked.
    pub async fn migrated() -> Self {
        let db = Self::create("template0", false).await;
        let store = db.open_store(StoreSettings::default());
        store.migrate().await.expect("the migrations run");
        store.close().await;
        db
    }

    async fn create(template: &str, is_checked: bool) -> Self {
        let server = Server::get();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("it_{}_{number}", std::process::id());
        server.create_database(&name, template).await;
        let url = server.url_of(&name);
        let pool = PgPoolOptions::new()
            .max_connections(6)
            .connect_lazy(&url)
            .expect("the server's own URL is readable");
        Self {
            name,
            url,
            pool,
            is_checked,
        }
    }

    /// Where to connect to, password included.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same database through something that listens on `port`.
    pub fn url_through(&self, port: u16) -> String {
        let real = format!("127.0.0.1:{}", Server::get().port());
        self.url.replace(&real, &format!("127.0.0.1:{port}"))
    }

    /// A store on this database.
    pub fn open_store(&self, settings: StoreSettings) -> Store {
        Store::open(&self.url, settings).expect("the server's own URL is readable")
    }

    /// Runs a statement for its effect; the number of rows it changed.
    pub async fn execute(&self, statement: &str) -> u64 {
        sqlx::raw_sql(AssertSqlSafe(statement.to_owned()))
            .execute(&self.pool)
            .await
            .unwrap_or_else(|error| panic!("{statement}: {error}"))
            .rows_affected()
    }

    /// The error that a statement is refused with: SQLSTATE, and the constraint if one refused.
    pub async fn refusal(&self, statement: &str) -> (String, Option<String>) {
        let result = sqlx::raw_sql(AssertSqlSafe(statement.to_owned()))
            .execute(&self.pool)
            .await;
        let error = result.expect_err("the database accepted what it must refuse");
        let error = error.into_database_error().expect("the database refused");
        let code = error.code().expect("a refusal has a code").into_owned();
        (code, error.constraint().map(ToOwned::to_owned))
    }

    /// The one value that a query gives, as text.
    pub async fn text(&self, query: &str) -> String {
        self.texts(query)
            .await
            .pop()
            .expect("the query gives a row")
    }

    /// The first column of what a query gives, as text; null is `null`.
    pub async fn texts(&self, query: &str) -> Vec<String> {
        let as_text = format!("select (q.*)::text from ({query}) q");
        let rows = sqlx::query(AssertSqlSafe(as_text.clone()))
            .fetch_all(&self.pool)
            .await
            .unwrap_or_else(|error| panic!("{as_text}: {error}"));
        rows.iter()
            .map(|row| {
                row.get::<Option<String>, _>(0)
                    .unwrap_or_else(|| "null".to_owned())
            })
            .map(unwrap_record)
            .collect()
    }

    /// Every row of every table whose content a decision could change, with the transaction that
    /// wrote it: equal before and after means that nothing at all was written.
    pub async fn rows(&self) -> Vec<String> {
        const TABLES: [&str; 13] = [
            "jobs",
            "attempts",
            "attempt_events",
            "attempt_artifacts",
            "attempt_grants",
            "workspaces",
            "postings",
            "outbox",
            "webhook_endpoints",
            "webhook_deliveries",
            "org_accounts",
            "devices",
            "uploads",
        ];
        let select =
            |table| format!("select '{table} ' || t.xmin || ' ' || t::text from {table} t");
        let selects: Vec<String> = TABLES.into_iter().map(select).collect();
        self.texts(&format!("{} order by 1", selects.join(" union all ")))
            .await
    }

    /// The whole database as text, to search it for what must not be in it.
    pub async fn dump(&self) -> String {
        let tables = "select tablename from pg_tables where schemaname = 'public' order by 1";
        let mut dump = String::new();
        for table in self.texts(tables).await {
            for row in self.texts(&format!("select t::text from {table} t")).await {
                dump.push_str(&row);
                dump.push('\n');
            }
        }
        dump
    }

    /// What must always hold and does not; empty is good.
    pub async fn violations(&self) -> Vec<String> {
        checker::violations(&self.url).await
    }
}

/// `(x)`, the text of a record of one column, is `x`; quotes inside are doubled.
fn unwrap_record(text: String) -> String {
    let Some(inner) = text
        .strip_prefix('(')
        .and_then(|text| text.strip_suffix(')'))
    else {
        return text;
    };
    match inner
        .strip_prefix('"')
        .and_then(|inner| inner.strip_suffix('"'))
    {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => inner.to_owned(),
    }
}

impl Drop for TestDb {
    fn drop(&mut self) {
        let server = Server::get();
        let is_checked = self.is_checked && !std::thread::panicking();
        let violations = if is_checked {
            server.wait_for(checker::violations(&self.url))
        } else {
            Vec::new()
        };
        server.drop_database(&self.name);
        assert!(
            violations.is_empty(),
            "what must always hold does not: {violations:#?}"
        );
    }
}
