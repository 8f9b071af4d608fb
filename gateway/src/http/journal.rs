//! `/v1/journal`: every movement of an org's money.

use actix_web::{HttpRequest, HttpResponse, web};
use fencepost_domain::field::FieldError;
use fencepost_domain::ledger::{PostingKind, PostingName};
use fencepost_domain::period::{Period, UtcMonth};
use fencepost_store::views::{JournalFilter, PostingView};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use super::auth::Buyer;
use super::balance::Balance;
use super::openapi::{Operation, Parameter, Tag, Time, Who};
use super::problem::{Problem, ProblemCode};
use super::query::Query;
use super::state::AppState;

const DEFAULT_LIMIT: i64 = 50;
const MAX_LIMIT: i64 = 500;

/// A page of the journal.
#[derive(Debug, Serialize, JsonSchema)]
struct Journal {
    /// The latest first.
    postings: Vec<Posting>,
    /// The `cursor` of the next page, if there is one.
    next_cursor: Option<String>,
    /// The balances around the time that was asked for.
    period: Option<Statement>,
}

/// One movement of an org's money.
#[derive(Debug, Serialize, JsonSchema)]
struct Posting {
    /// Its name, which no other movement has.
    id: String,
    /// Why it moved.
    #[schemars(extend("enum" = PostingKind::ALL.map(PostingKind::as_str)))]
    kind: &'static str,
    /// How much.
    amount_micros: i64,
    /// What that did to what is available.
    available_change_micros: i64,
    /// What that did to what is held.
    held_change_micros: i64,
    /// The job that it is about.
    job_id: Option<Uuid>,
    /// When it moved.
    at: Time,
}

/// The balances at the beginning and the end of a time.
#[derive(Debug, Serialize, JsonSchema)]
struct Statement {
    /// Its beginning.
    from: Time,
    /// Its end, which is not in it.
    until: Time,
    /// What the org had at the beginning.
    opening: Balance,
    /// What the org had at the end.
    closing: Balance,
}

/// `GET /v1/journal`.
pub(super) fn operation() -> Operation {
    let limit = json!({
        "type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT,
    });
    let kind = json!({ "type": "string", "enum": PostingKind::ALL.map(PostingKind::as_str) });
    let month = json!({ "type": "string", "pattern": r"^\d{4}-(0[1-9]|1[0-2])$" });
    let time = || json!({ "type": "string", "format": "date-time" });
    let cursor = json!({ "type": "string", "pattern": "^[a-z_]{4,16}_[0-9a-f-]{36}$" });
    Operation::get("/v1/journal", "list_postings", list)
        .says(
            "Every movement of the org's money",
            "The latest first, page by page; with a time (`month`, or `from` and `until`) also the \
             balances at its beginning and end.",
        )
        .of(Tag::Money)
        .by(Who::Buyer)
        .reads(Parameter::query(
            "month",
            month,
            "A month of UTC such as `2026-11`.",
        ))
        .reads(Parameter::query(
            "from",
            time(),
            "From then on; together with `until`.",
        ))
        .reads(Parameter::query(
            "until",
            time(),
            "Before then; together with `from`.",
        ))
        .reads(Parameter::query(
            "kind",
            kind,
            "Only movements of this kind.",
        ))
        .reads(Parameter::query("limit", limit, "How many."))
        .reads(Parameter::query(
            "cursor",
            cursor,
            "The `next_cursor` of an earlier answer.",
        ))
        .answers::<Journal>(200, "A page of the journal.")
        .refuses(&[ProblemCode::InvalidRequest])
}

async fn list(
    request: HttpRequest,
    buyer: Buyer,
    state: web::Data<AppState>,
) -> Result<HttpResponse, Problem> {
    let mut filter = read_filter(request.query_string())?;
    let (limit, period) = (filter.limit, filter.period);
    // One more than asked for tells whether there is another page.
    filter.limit += 1;
    let mut postings = state.store.journal(buyer.org, filter).await?;
    let has_more = postings.len() > usize::try_from(limit).unwrap_or(usize::MAX);
    if has_more {
        postings.pop();
    }
    let next_cursor = postings.last().filter(|_| has_more).map(|last| last.name);
    let statement = match period {
        Some(period) => state.store.statement(buyer.org, period).await?,
        None => None,
    };
    let period = period.zip(statement).map(|(period, statement)| Statement {
        from: Time(period.from),
        until: Time(period.until),
        opening: statement.opening.into(),
        closing: statement.closing.into(),
    });
    Ok(HttpResponse::Ok().json(Journal {
        postings: postings.iter().map(Posting::of).collect(),
        next_cursor: next_cursor.map(|name| name.to_string()),
        period,
    }))
}

fn read_filter(query: &str) -> Result<JournalFilter, FieldError> {
    let mut query = Query::parse(query)?;
    let limit = |text: &str| text.parse().ok().filter(|n| (1..=MAX_LIMIT).contains(n));
    let limit = query.take("limit", limit, "a whole number between 1 and 500")?;
    let cursor = "the next_cursor of an earlier answer";
    let before = query.take("cursor", PostingName::parse, cursor)?;
    let kinds = PostingKind::ALL.map(PostingKind::as_str).join(", ");
    let kind = query.take("kind", PostingKind::parse, &format!("one of {kinds}"))?;
    let period = read_period(&mut query)?;
    query.finish()?;
    Ok(JournalFilter {
        period,
        kind,
        before,
        limit: limit.unwrap_or(DEFAULT_LIMIT),
    })
}

/// A month, or any two instants.
fn read_period(query: &mut Query) -> Result<Option<Period>, FieldError> {
    let month = |text: &str| text.parse::<UtcMonth>().ok();
    let month = query.take("month", month, "a month of UTC such as 2026-11")?;
    let instant = |text: &str| OffsetDateTime::parse(text, &Rfc3339).ok();
    let expected = "a time such as 2026-11-30T12:00:00Z";
    let from = query.take("from", instant, expected)?;
    let until = query.take("until", instant, expected)?;
    match (month, from, until) {
        (None, None, None) => Ok(None),
        (Some(month), None, None) => Ok(Some(month.period())),
        (None, Some(from), Some(until)) if from < until => Ok(Some(Period { from, until })),
        (None, Some(_), Some(_)) => Err(FieldError::new("until", "must be after from")),
        (None, Some(_), None) => Err(FieldError::new("until", "is missing: give both or none")),
        (None, None, Some(_)) => Err(FieldError::new("from", "is missing: give both or none")),
        (Some(_), _, _) => Err(FieldError::new(
            "month",
            "cannot be given with from and until",
        )),
    }
}

impl Posting {
    fn of(posting: &PostingView) -> Self {
        let kind = posting.name.kind;
        let (available, held) = kind.effect(posting.amount_micros);
        Self {
            id: posting.name.to_string(),
            kind: kind.as_str(),
            amount_micros: posting.amount_micros,
            available_change_micros: available,
            held_change_micros: held,
            job_id: posting.name.job(),
            at: Time(posting.created_at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_month_or_two_instants_in_order() {
        let month = read_filter("month=2026-03").unwrap().period.unwrap();
        let from = "from=2026-03-01T01:00:00%2B01:00&until=2026-04-01T00:00:00Z";
        assert_eq!(read_filter(from).unwrap().period, Some(month));
        for (query, field) in [
            ("month=2026-3", "month"),
            ("month=2026-03&from=2026-03-01T00:00:00Z", "month"),
            ("from=2026-03-01T00:00:00Z", "until"),
            ("until=2026-03-01T00:00:00Z", "from"),
            (
                "from=2026-03-01T00:00:00Z&until=2026-03-01T00:00:00Z",
                "until",
            ),
            ("from=yesterday", "from"),
            ("kind=refund", "kind"),
            ("limit=501", "limit"),
        ] {
            assert_eq!(read_filter(query).unwrap_err().field, field, "{query}");
        }
    }
}
