//! `/v1/journal`: every movement of an org's money.

use actix_web::{HttpRequest, HttpResponse, web};
use fencepost_domain::field::FieldError;
use fencepost_domain::ledger::PostingKind;
use fencepost_domain::period::{Period, UtcMonth};
use fencepost_store::views::{Balance, JournalFilter, PostingView};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::auth::Buyer;
use super::problem::Problem;
use super::query::Query;
use super::state::AppState;

const DEFAULT_LIMIT: i64 = 50;
const MAX_LIMIT: i64 = 500;

/// `GET /v1/journal?month|from&until&kind&limit&cursor` → the latest first, page by page; with a
/// time, also the balances at its beginning and end.
pub async fn list(
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
    let next_cursor = postings.last().filter(|_| has_more).map(|last| last.id);
    let statement = match period {
        Some(period) => state.store.statement(buyer.org, period).await?,
        None => None,
    };
    let period = period.zip(statement).map(|(period, statement)| {
        json!({
            "from": at(period.from),
            "until": at(period.until),
            "opening": balance(statement.opening),
            "closing": balance(statement.closing),
        })
    });
    let postings: Vec<Value> = postings.iter().map(posting).collect();
    Ok(HttpResponse::Ok().json(json!({
        "postings": postings,
        "next_cursor": next_cursor.map(|id| id.to_string()),
        "period": period,
    })))
}

fn read_filter(query: &str) -> Result<JournalFilter, FieldError> {
    let mut query = Query::parse(query)?;
    let limit = |text: &str| text.parse().ok().filter(|n| (1..=MAX_LIMIT).contains(n));
    let limit = query.take("limit", limit, "a whole number between 1 and 500")?;
    let before = |text: &str| text.parse().ok();
    let before = query.take("cursor", before, "the next_cursor of an earlier answer")?;
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

fn posting(posting: &PostingView) -> Value {
    let (available, held) = posting.kind.effect(posting.amount_micros);
    json!({
        "id": posting.id.to_string(),
        "kind": posting.kind.as_str(),
        "amount_micros": posting.amount_micros,
        "available_change_micros": available,
        "held_change_micros": held,
        "job_id": posting.job_id,
        "at": at(posting.created_at),
    })
}

fn balance(balance: Balance) -> Value {
    json!({
        "available_micros": balance.available_micros,
        "held_micros": balance.held_micros,
    })
}

fn at(instant: OffsetDateTime) -> Option<String> {
    instant.format(&Rfc3339).ok()
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
