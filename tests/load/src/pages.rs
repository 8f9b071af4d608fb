//! Pages of an org's jobs, among few jobs and among very many: what a page costs must not depend on
//! how many there are.
//!
//! The jobs are written straight into the database, ended and of all kinds; the pages are asked for
//! over HTTP.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use sqlx::PgPool;

use crate::cli::{Cli, PagesArgs};
use crate::database::Database;
use crate::error::LoadError;
use crate::figures::{Percentiles, round};
use crate::gateways::{self, Gateway};
use crate::people;
use crate::report::Report;

/// Jobs that are written by one statement.
const STEP: u64 = 50_000;

/// The pages that are asked for: their names, and their parameters without the cursor.
const PAGES: [(&str, &str); 5] = [
    ("newest", "limit=50"),
    ("status=failed (1 of 1,000)", "limit=50&status=failed"),
    ("metadata (1 of 10)", "limit=50&metadata[shop]=b"),
    ("metadata (1 of 5,000)", "limit=50&metadata[order]=1000"),
    (
        "two words of metadata",
        "limit=50&metadata[shop]=b&metadata[order]=1000",
    ),
];

/// One row of the report.
struct Row {
    page: String,
    few: Percentiles,
    many: Percentiles,
}

/// Runs the scenario.
pub(crate) async fn run(
    cli: &Cli,
    args: &PagesArgs,
    database: &Database,
) -> Result<Report, LoadError> {
    let people = people::set_up(database, 1, 0).await?;
    let gateways = gateways::start(cli, database, 1).await?;
    let asker = Asker {
        http: reqwest::Client::builder().no_proxy().build()?,
        gateway: &gateways[0],
        key: people.keys[0].expose().to_owned(),
        rounds: args.rounds,
    };
    let bar = ProgressBar::new(args.jobs);
    // Only for people; the template is our own.
    let style =
        ProgressStyle::with_template("writing jobs {wide_bar} {human_pos}/{human_len} {eta}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let few = args.jobs.min(args.few);
    write_jobs(&database.pool, 0, few, &bar).await?;
    let among_few = asker.ask_all().await?;
    write_jobs(&database.pool, few, args.jobs, &bar).await?;
    bar.finish_and_clear();
    let among_many = asker.ask_all().await?;
    let rows = among_few.into_iter().zip(among_many);
    let rows: Vec<_> = rows
        .map(|((page, few), (_, many))| Row { page, few, many })
        .collect();
    Ok(report(args, &rows))
}

/// Ended jobs of the one org, a second apart, the oldest first. 1 of 1,000 has failed, the rest was
/// cancelled; 1 of 10 is of another shop, and 5,000 jobs are between two of one order number.
async fn write_jobs(pool: &PgPool, from: u64, to: u64, bar: &ProgressBar) -> Result<(), LoadError> {
    let mut next = from;
    while next < to {
        let end = (next + STEP).min(to);
        let numbers = [next, end - 1].map(|n| i64::try_from(n).unwrap_or(i64::MAX));
        sqlx::query(WRITE_JOBS)
            .bind(numbers[0])
            .bind(numbers[1])
            .execute(pool)
            .await?;
        bar.set_position(end);
        next = end;
    }
    // As autovacuum does it in time.
    sqlx::query("vacuum analyze jobs, job_words")
        .execute(pool)
        .await?;
    Ok(())
}

const WRITE_JOBS: &str = "
    with written as (
        insert into jobs (id, org_id, service, params, inputs, metadata, lane, max_output_seconds,
            max_run_micros, max_attempts, admission_deadline, base_micros, per_minute_micros,
            provider_share_bps, held_micros, order_key, created_at, status, ended_at,
            cancel_requested_at, failure_code)
        select (lpad(to_hex(1600000000000 + n * 1000), 12, '0') || '70008000'
                || lpad(to_hex(n), 12, '0'))::uuid,
            orgs.id, 'noop.v1', '{}', '[]',
            jsonb_build_object('shop', case when n % 10 = 0 then 'b' else 'a' end,
                'order', (n % 5000)::text),
            'noop.v1', 600, 3600000000, 3, at, 0, 0, 0, 0, at, at,
            case when n % 1000 = 0 then 'failed' else 'cancelled' end::job_status, at,
            case when n % 1000 <> 0 then at end, case when n % 1000 = 0 then 'runner_failed' end
        from orgs, generate_series($1::bigint, $2) n,
            lateral (select to_timestamp(1600000000 + n)) as posted(at)
        returning id, org_id, metadata
    )
    insert into job_words (org_id, word, job_id)
    select org_id, job_word(m.key, m.value #>> '{}'), id
    from written, jsonb_each(metadata) m
    -- in the order of the index
    order by 1, 2, 3";

/// Who asks for pages, one after the other.
struct Asker<'a> {
    http: reqwest::Client,
    gateway: &'a Gateway,
    key: String,
    rounds: u32,
}

impl Asker<'_> {
    /// Each page at the front, and each in the middle of all jobs.
    async fn ask_all(&self) -> Result<Vec<(String, Percentiles)>, LoadError> {
        let newest = self.page("limit=1").await?;
        let newest = newest["jobs"][0]["id"].as_str().map(str::to_owned);
        let newest = newest.ok_or_else(|| LoadError::Unexpected("no job is listed".to_owned()))?;
        let middle = middle_of(&newest)?;
        let mut all = Vec::new();
        for (place, cursor) in [("", None), (", middle", Some(&middle))] {
            for (name, parameters) in PAGES {
                let address = cursor.map_or_else(
                    || parameters.to_owned(),
                    |cursor| format!("{parameters}&cursor={cursor}"),
                );
                all.push((format!("{name}{place}"), self.time(&address).await?));
            }
        }
        Ok(all)
    }

    async fn time(&self, parameters: &str) -> Result<Percentiles, LoadError> {
        let mut times: Vec<Duration> = Vec::new();
        // The first one only warms up.
        for _ in 0..=self.rounds {
            let asked = Instant::now();
            self.page(parameters).await?;
            times.push(asked.elapsed());
        }
        times.remove(0);
        Ok(Percentiles::of(times))
    }

    async fn page(&self, parameters: &str) -> Result<Value, LoadError> {
        let url = format!("http://{}/v1/jobs?{parameters}", self.gateway.http);
        let response = self.http.get(url).bearer_auth(&self.key).send().await?;
        let status = response.status();
        if status != reqwest::StatusCode::OK {
            let what = format!("a page was answered {status}: {}", response.text().await?);
            return Err(LoadError::Unexpected(what));
        }
        Ok(response.json().await?)
    }
}

/// The id of the job in the middle: ids begin with the second that a job was posted at.
fn middle_of(newest: &str) -> Result<String, LoadError> {
    let strange = |_| LoadError::Unexpected(format!("{newest} is no id of a job"));
    let number = |id: &str| u64::from_str_radix(&id.replace('-', "")[..12], 16).map_err(strange);
    let (first, last) = (1_600_000_000_000, number(newest)?);
    let middle = format!("{:012x}", u64::midpoint(first, last));
    Ok(format!(
        "{}-{}-7000-8000-000000000000",
        &middle[..8],
        &middle[8..]
    ))
}

fn report(args: &PagesArgs, rows: &[Row]) -> Report {
    let json_rows = rows.iter().map(|row| {
        json!({ "page": row.page, "few_ms": row.few, "many_ms": row.many,
            "ratio_p50": ratio(row) })
    });
    let title = format!(
        "pages of 50 among {} and among {} jobs, {} times each",
        args.few.min(args.jobs),
        args.jobs,
        args.rounds
    );
    let json = json!({ "jobs": args.jobs, "few": args.few, "pages": json_rows.collect::<Value>() });
    let mut report = Report::new(&title, json);
    report.line("ms: p50 and p99 among few, many", "ratio of p50");
    for row in rows {
        let times = format!(
            "{:>7} {:>7}  {:>7} {:>7}  {:>6}",
            row.few.p50,
            row.few.p99,
            row.many.p50,
            row.many.p99,
            ratio(row)
        );
        report.line(&row.page, times);
    }
    report
}

fn ratio(row: &Row) -> f64 {
    round(row.many.p50 / row.few.p50.max(0.01), 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_between_the_first_second_and_the_last() {
        // 1,600,000,010,000 ms in hexadecimal, and half as far from the first.
        let newest = format!("{:012x}", 1_600_000_010_000_u64);
        let newest = format!("{}-{}-7000-8000-00000000000a", &newest[..8], &newest[8..]);
        let middle = middle_of(&newest).unwrap();
        let expected = format!("{:012x}", 1_600_000_005_000_u64);
        assert_eq!(middle.replace('-', "")[..12], expected[..]);
    }
}
