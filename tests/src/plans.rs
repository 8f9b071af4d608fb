//! How Postgres carries out the statements of the store.

use std::path::Path;

use serde_json::Value;
use sqlx::{AssertSqlSafe, PgConnection};

/// The production statement of this name, as it is prepared.
pub fn statement(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.sqlx");
    let files = std::fs::read_dir(folder).expect("query data");
    let mut found = files.filter_map(|file| {
        let text = std::fs::read_to_string(file.ok()?.path()).ok()?;
        let data: Value = serde_json::from_str(&text).ok()?;
        let query = data["query"].as_str()?.to_owned();
        query.starts_with(&format!("-- {name}\n")).then_some(query)
    });
    found.next().unwrap_or_else(|| panic!("there is no {name}"))
}

/// Runs a statement by the plan that is made without looking at its arguments, as it is after a few
/// times; what every node of the plan did.
pub async fn explain(conn: &mut PgConnection, name: &str, arguments: &str) -> Vec<Value> {
    let prepare = format!("deallocate all; prepare s as {}", statement(name));
    for preparation in ["set plan_cache_mode = force_generic_plan", &prepare] {
        let prepared = sqlx::raw_sql(AssertSqlSafe(preparation.to_owned()));
        prepared.execute(&mut *conn).await.expect("it prepares");
    }
    let explain = format!("explain (analyze, format json) execute s({arguments})");
    let plan = sqlx::raw_sql(AssertSqlSafe(explain)).fetch_one(&mut *conn);
    let plan: Value = sqlx::Row::get(&plan.await.expect("a plan"), 0);
    nodes(&plan[0]["Plan"]).into_iter().cloned().collect()
}

/// How many rows a node looked at.
pub fn rows_read(node: &Value) -> f64 {
    let rows = |key: &str| node[key].as_f64().unwrap_or(0.0);
    (rows("Actual Rows") + rows("Rows Removed by Filter")) * rows("Actual Loops")
}

/// Every node of a plan.
fn nodes(plan: &Value) -> Vec<&Value> {
    let within = plan["Plans"].as_array().into_iter().flatten();
    [vec![plan], within.flat_map(nodes).collect()].concat()
}
