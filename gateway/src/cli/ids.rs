//! Ids on the command line, and what is said of words that are none.

use std::str::FromStr;

const EXAMPLE: &str = "019adf00-0000-7000-8000-000000000001";

/// Reads an id; `shown_by` is the command that shows such ids.
pub(super) fn id<T: FromStr>(
    shown_by: &'static str,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| text.trim().parse().map_err(|_| no_id(shown_by))
}

/// What an id is and where it is found.
pub(super) fn no_id(shown_by: &str) -> String {
    format!("that is no id: one looks like {EXAMPLE}, and `{shown_by}` shows them")
}
