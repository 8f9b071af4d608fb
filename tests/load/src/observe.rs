//! What the database, the gateways and the processes say that they did, at one moment.

use std::collections::BTreeMap;

use sqlx::PgPool;

use crate::database::Database;
use crate::error::LoadError;
use crate::figures::CpuSeconds;
use crate::gateways::Gateway;
use crate::processes;

/// How often, and how long in all.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Calls {
    /// How often.
    pub(crate) calls: u64,
    /// Milliseconds inside Postgres.
    pub(crate) milliseconds: f64,
}

/// Everything that only ever grows.
pub(crate) struct Snapshot {
    /// By the statement's name; `None` without pg_stat_statements.
    pub(crate) statements: Option<BTreeMap<String, Calls>>,
    /// By the transaction's name, reads among them, as the gateways count them.
    pub(crate) transactions: BTreeMap<String, u64>,
    /// Bytes of write-ahead log.
    pub(crate) wal_bytes: u64,
    /// CPU seconds.
    pub(crate) cpu: CpuSeconds,
}

/// Makes statements countable, where the server can.
pub(crate) async fn prepare(pool: &PgPool) {
    let extension = "-- fencepost-load\ncreate extension if not exists pg_stat_statements";
    if let Err(error) = sqlx::query(extension).execute(pool).await {
        eprintln!(
            "statements are not measured: {error} (the server needs \
             shared_preload_libraries = 'pg_stat_statements')"
        );
    }
}

impl Snapshot {
    /// As things are now.
    pub(crate) async fn take(
        database: &Database,
        gateways: &[Gateway],
        http: &reqwest::Client,
    ) -> Result<Self, LoadError> {
        let pool = &database.pool;
        let mut transactions = BTreeMap::new();
        for gateway in gateways {
            let url = format!("http://{}/metrics", gateway.admin);
            let text = http.get(url).send().await?.text().await?;
            count_transactions(&text, &mut transactions);
        }
        let gateway = gateways
            .iter()
            .map(|gateway| processes::cpu_seconds(gateway.pid()))
            .sum();
        Ok(Self {
            statements: statements(pool).await,
            transactions,
            wal_bytes: wal_bytes(pool).await?,
            cpu: CpuSeconds {
                postgres: database.pid().and_then(processes::cpu_seconds),
                gateway,
                load: processes::own_cpu_seconds(),
            },
        })
    }

    /// Statements since `before`, by name, without the ones that did not run.
    pub(crate) fn statements_since(&self, before: &Self) -> Option<BTreeMap<String, Calls>> {
        let (now, then) = (self.statements.as_ref()?, before.statements.as_ref()?);
        let difference = now.iter().map(|(name, calls)| {
            let then = then.get(name).copied().unwrap_or_default();
            let calls = Calls {
                calls: calls.calls.saturating_sub(then.calls),
                milliseconds: calls.milliseconds - then.milliseconds,
            };
            (name.clone(), calls)
        });
        Some(difference.filter(|(_, calls)| calls.calls > 0).collect())
    }

    /// Transactions since `before`, by name.
    pub(crate) fn transactions_since(&self, before: &Self) -> BTreeMap<String, u64> {
        let difference = self.transactions.iter().map(|(name, count)| {
            let then = before.transactions.get(name).copied().unwrap_or_default();
            (name.clone(), count.saturating_sub(then))
        });
        difference.filter(|(_, count)| *count > 0).collect()
    }
}

/// Rows that were replaced and not yet cleared away.
pub(crate) async fn dead_tuples(pool: &PgPool) -> Result<u64, LoadError> {
    let dead: i64 = sqlx::query_scalar(
        "-- fencepost-load\nselect coalesce(sum(n_dead_tup), 0)::bigint from pg_stat_user_tables",
    )
    .fetch_one(pool)
    .await?;
    Ok(dead.unsigned_abs())
}

async fn statements(pool: &PgPool) -> Option<BTreeMap<String, Calls>> {
    let rows: Vec<(String, i64, f64)> = sqlx::query_as(
        "-- fencepost-load\nselect query, calls, total_exec_time from pg_stat_statements \
         where dbid = (select oid from pg_database where datname = current_database())",
    )
    .fetch_all(pool)
    .await
    .ok()?;
    let mut by_name: BTreeMap<String, Calls> = BTreeMap::new();
    for (query, calls, milliseconds) in rows {
        let name = name_of(&query);
        if name != "fencepost-load" {
            let sum = by_name.entry(name).or_default();
            sum.calls += calls.unsigned_abs();
            sum.milliseconds += milliseconds;
        }
    }
    Some(by_name)
}

async fn wal_bytes(pool: &PgPool) -> Result<u64, LoadError> {
    let bytes: i64 = sqlx::query_scalar(
        "-- fencepost-load\nselect (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint",
    )
    .fetch_one(pool)
    .await?;
    Ok(bytes.unsigned_abs())
}

/// Fencepost's statements begin with a comment that names them; others are named by themselves.
fn name_of(query: &str) -> String {
    let line = query.trim_start().lines().next().unwrap_or("");
    match line.strip_prefix("-- ") {
        Some(name) => name.trim().to_owned(),
        None => line.chars().take(40).collect::<String>().to_lowercase(),
    }
}

/// Adds up lines such as `fencepost_tx_total{tx="submit_job",outcome="committed"} 12`.
fn count_transactions(metrics: &str, counts: &mut BTreeMap<String, u64>) {
    for line in metrics.lines() {
        let Some(rest) = line.strip_prefix("fencepost_tx_total{") else {
            continue;
        };
        let Some((labels, value)) = rest.rsplit_once("} ") else {
            continue;
        };
        let name = labels
            .split(',')
            .find_map(|label| label.strip_prefix("tx=\""));
        if let (Some(name), Ok(value)) = (name, value.trim().parse::<u64>()) {
            *counts
                .entry(name.trim_end_matches('"').to_owned())
                .or_default() += value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_known_by_the_comment_that_begins_them() {
        assert_eq!(
            name_of("-- submit_job: insert\nwith account"),
            "submit_job: insert"
        );
        assert_eq!(name_of("COMMIT"), "commit");
    }

    #[test]
    fn transactions_are_added_up_over_outcomes_and_gateways() {
        let mut counts = BTreeMap::new();
        let metrics = "# TYPE fencepost_tx_total counter\n\
            fencepost_tx_total{tx=\"submit_job\",outcome=\"committed\"} 12\n\
            fencepost_tx_total{outcome=\"rolled_back\",tx=\"submit_job\"} 1\n\
            fencepost_tx_seconds_sum{tx=\"submit_job\"} 3.5\n";
        count_transactions(metrics, &mut counts);
        count_transactions(metrics, &mut counts);
        assert_eq!(counts, BTreeMap::from([("submit_job".to_owned(), 26)]));
    }
}
