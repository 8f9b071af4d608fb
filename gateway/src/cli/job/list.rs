//! `fencepost job list`: page by page, as far as somebody reads.

use clap::Args;
use console::Style;
use fencepost_domain::job::JobStatus;
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::JobError;
use super::api::Api;
use super::paging::{Limit, pages};
use super::parsing;
use super::screen::Screen;
use super::view::{Job, minute};
use crate::cli::table::Table;

/// The most jobs of one page.
const PAGE: u32 = 100;

const EXAMPLES: &str = "\
Examples:
  fencepost job list --status failed --limit 5
  fencepost job list --metadata order=42 --service transcode.v1
  fencepost job list --all --created-after 2026-11-01T00:00:00Z --json | jq -r .id

COST is what a job has cost, or holds at the moment; failed and cancelled jobs are free.";

/// The newest jobs.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ListArgs {
    /// Only those in this status.
    #[arg(long, value_parser = status)]
    status: Option<JobStatus>,
    /// Only those of this service.
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// Only those with this word of yours. Repeatable, up to five times.
    #[arg(long, value_name = "NAME=TEXT", value_parser = parsing::word)]
    metadata: Vec<(String, String)>,
    /// Only those that were posted later, such as 2026-11-30T12:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    created_after: Option<String>,
    /// Only those that were posted earlier.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    created_before: Option<String>,
    #[command(flatten)]
    limit: Limit,
}

pub(super) async fn run(api: &Api, screen: &Screen, args: &ListArgs) -> Result<(), JobError> {
    let mut query = Vec::new();
    for (name, value) in [
        (
            "status",
            args.status.map(|status| status.as_str().to_owned()),
        ),
        ("service", args.service.clone()),
        ("created_after", args.created_after.clone()),
        ("created_before", args.created_before.clone()),
    ] {
        query.extend(value.map(|value| (name.to_owned(), value)));
    }
    for (name, text) in &args.metadata {
        query.push((format!("metadata[{name}]"), text.clone()));
    }
    let headings = &["JOB", "SERVICE", "IS", "COST", "CREATED"];
    let mut table = Table::new(headings).painting(2, colour);
    let mut show = |page: &Value| {
        let jobs = page["jobs"].as_array().map_or(&[][..], Vec::as_slice);
        if screen.is_json() {
            for job in jobs {
                screen.result("", job)?;
            }
            return Ok(jobs.len());
        }
        let rows = jobs.iter().map(|job| Job::read(job).map(|job| row(&job)));
        Screen::lines(&table.lines(&rows.collect::<Result<Vec<_>, _>>()?))?;
        Ok(jobs.len())
    };
    pages(api, "v1/jobs", query, PAGE, args.limit, &mut show).await
}

fn row(job: &Job) -> Vec<String> {
    let failure = job.failure.as_ref();
    let failure = failure.map(|failure| format!(": {}", failure.code));
    vec![
        job.id.clone(),
        job.service.clone(),
        format!("{}{}", job.doing(), failure.unwrap_or_default()),
        job.cost(),
        minute(&job.created_at),
    ]
}

/// How a job is, at a glance.
fn colour(what: &str) -> Style {
    let style = Style::new();
    match what.split([':', ' ']).next() {
        Some("succeeded") => style.green(),
        Some("failed") => style.red(),
        Some("cancelled" | "cancelling") => style.dim(),
        Some("queued") => style.yellow(),
        _ => style.cyan(),
    }
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

fn instant(text: &str) -> Result<String, String> {
    OffsetDateTime::parse(text, &Rfc3339)
        .map(|_| text.to_owned())
        .map_err(|_| "write it like 2026-11-30T12:00:00Z".to_owned())
}
