//! `fencepost job list` and `get`.

use clap::Args;
use fencepost_domain::ids::JobId;
use fencepost_domain::job::JobStatus;
use serde_json::Value;

use super::JobError;
use super::api::Api;
use super::screen::Screen;
use super::view::Job;
use crate::cli::table;

/// The most jobs of one page.
const PAGE: u32 = 100;

/// The newest jobs.
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Only those in this status.
    #[arg(long, value_parser = status)]
    status: Option<JobStatus>,
    /// At most so many.
    #[arg(long, default_value_t = 20, value_name = "NUMBER")]
    limit: u32,
}

/// One job.
#[derive(Debug, Args)]
pub(super) struct GetArgs {
    /// The job.
    job: JobId,
}

pub(super) async fn list(api: &Api, screen: &Screen, args: &ListArgs) -> Result<(), JobError> {
    let mut jobs: Vec<Value> = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let left = args
            .limit
            .saturating_sub(u32::try_from(jobs.len()).unwrap_or(u32::MAX));
        if left == 0 {
            break;
        }
        let mut query = vec![("limit", left.min(PAGE).to_string())];
        query.extend(
            args.status
                .map(|status| ("status", status.as_str().to_owned())),
        );
        query.extend(cursor.map(|cursor| ("cursor", cursor)));
        let page = api.jobs(&query).await?;
        jobs.extend(page["jobs"].as_array().into_iter().flatten().cloned());
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    if screen.is_json() {
        for job in &jobs {
            screen.result("", job)?;
        }
        return Ok(());
    }
    let rows = jobs.iter().map(|job| Job::read(job).map(|job| row(&job)));
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    let table = table(&["JOB", "SERVICE", "IS", "MICROS", "CREATED"], &rows);
    Ok(screen.result(&table, &Value::Null)?)
}

fn row(job: &Job) -> Vec<String> {
    let micros = if job.output.is_some() {
        job.money.captured_micros
    } else {
        job.money.held_micros
    };
    let failure = job
        .failure
        .as_ref()
        .map(|failure| format!(": {}", failure.code));
    vec![
        job.id.clone(),
        job.service.clone(),
        format!("{}{}", job.doing(), failure.unwrap_or_default()),
        micros.to_string(),
        job.created_at.clone(),
    ]
}

pub(super) async fn get(api: &Api, screen: &Screen, args: &GetArgs) -> Result<(), JobError> {
    let job = api.job(args.job).await?;
    let sentence = Job::read(&job)?.sentence();
    Ok(screen.result(&sentence, &job)?)
}

fn status(text: &str) -> Result<JobStatus, String> {
    JobStatus::parse(text).ok_or_else(|| {
        let known: Vec<_> = JobStatus::ALL
            .iter()
            .map(|status| status.as_str())
            .collect();
        format!("must be one of {}", known.join(", "))
    })
}
