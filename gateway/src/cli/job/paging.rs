//! Lists that are longer than one answer.

use clap::Args;
use serde_json::Value;

use super::JobError;
use super::api::Api;

/// The most that one asks for without `--all`.
const MOST: u32 = 1000;

/// How much of a list is wanted.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct Limit {
    /// At most so many, the newest, 1 to 1000.
    #[arg(long, default_value_t = 20, value_name = "NUMBER", value_parser = number)]
    limit: u32,
    /// All of them, fetched as they are read.
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

fn number(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|n| (1..=MOST).contains(n));
    number.ok_or_else(|| format!("must be between 1 and {MOST}; for everything there is --all"))
}

/// Fetches a list page by page, each when the one before was shown; `show` says how many were on it.
pub(super) async fn pages(
    api: &Api,
    path: &str,
    query: Vec<(String, String)>,
    page: u32,
    limit: Limit,
    show: &mut dyn FnMut(&Value) -> Result<usize, JobError>,
) -> Result<(), JobError> {
    let mut left = if limit.all { u32::MAX } else { limit.limit };
    let mut cursor: Option<String> = None;
    while left > 0 {
        let mut query = query.clone();
        query.push(("limit".to_owned(), left.min(page).to_string()));
        query.extend(cursor.map(|cursor| ("cursor".to_owned(), cursor)));
        let answer = api.get(path, &query).await?;
        let shown = u32::try_from(show(&answer)?).unwrap_or(u32::MAX);
        if !limit.all {
            left = left.saturating_sub(shown);
        }
        cursor = answer["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    Ok(())
}
