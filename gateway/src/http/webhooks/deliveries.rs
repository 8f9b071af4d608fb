//! `GET /v1/webhook-endpoints/{endpoint}/deliveries`: newest first, page by page; or one.

use actix_web::{HttpRequest, HttpResponse, web};
use fencepost_store::views::DeliveryFilter;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::{endpoint_id, event_id, no_delivery, no_endpoint, view};
use crate::http::auth::Buyer;
use crate::http::openapi::{Operation, Parameter, Tag, Who};
use crate::http::problem::{Problem, ProblemCode};
use crate::http::query::Query;
use crate::http::state::AppState;

const DEFAULT_LIMIT: i64 = 50;
const MAX_LIMIT: i64 = 100;
const STATES: [&str; 4] = ["pending", "succeeded", "failed", "held"];

/// A page of deliveries.
#[derive(Debug, Serialize, JsonSchema)]
struct WebhookDeliveries {
    /// Newest first.
    deliveries: Vec<view::Delivery>,
    /// The `cursor` of the next page, if there is one.
    next_cursor: Option<Uuid>,
}

pub(super) fn list_operation() -> Operation {
    let limit = json!({
        "type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT,
    });
    let cursor = json!({ "type": "string", "format": "uuid" });
    let state = json!({ "type": "string", "enum": STATES });
    let path = "/v1/webhook-endpoints/{endpoint}/deliveries";
    let said = "The `next_cursor` of an earlier answer.";
    Operation::get(path, "list_webhook_deliveries", list)
        .says(
            "Deliveries to a webhook endpoint, newest first",
            "Each with what came of every try. Kept for 30 days.",
        )
        .of(Tag::Webhooks)
        .by(Who::Buyer)
        .reads(Parameter::query("limit", limit, "How many."))
        .reads(Parameter::query("cursor", cursor, said))
        .reads(Parameter::query(
            "state",
            state,
            "Only those that stand so.",
        ))
        .answers::<WebhookDeliveries>(200, "A page of deliveries.")
        .refuses(&[ProblemCode::InvalidRequest, ProblemCode::NotFound])
}

pub(super) fn get_operation() -> Operation {
    let path = "/v1/webhook-endpoints/{endpoint}/deliveries/{event}";
    Operation::get(path, "get_webhook_delivery", get)
        .says(
            "A delivery",
            "The event on its way to the endpoint, and every try.",
        )
        .of(Tag::Webhooks)
        .by(Who::Buyer)
        .answers::<view::Delivery>(200, "The delivery.")
        .refuses(&[ProblemCode::NotFound])
}

/// A page of deliveries, each with its tries.
async fn list(
    request: HttpRequest,
    buyer: Buyer,
    state: web::Data<AppState>,
    path: web::Path<String>,
) -> Result<HttpResponse, Problem> {
    let endpoint = endpoint_id(&path)?;
    let mut filter = read_filter(request.query_string())?;
    let limit = filter.limit;
    // One more than asked for tells whether there is another page.
    filter.limit += 1;
    let found = state.store.deliveries(buyer.org, endpoint, filter).await?;
    let mut found = found.ok_or_else(no_endpoint)?;
    let has_more = found.len() > usize::try_from(limit).unwrap_or(usize::MAX);
    if has_more {
        found.pop();
    }
    let next_cursor = found.last().filter(|_| has_more).map(|last| last.event_id);
    Ok(HttpResponse::Ok().json(WebhookDeliveries {
        deliveries: found.into_iter().map(view::Delivery::from).collect(),
        next_cursor,
    }))
}

/// One delivery.
async fn get(
    buyer: Buyer,
    state: web::Data<AppState>,
    path: web::Path<(String, String)>,
) -> Result<HttpResponse, Problem> {
    let (endpoint, event) = (endpoint_id(&path.0)?, event_id(&path.1)?);
    let filter = DeliveryFilter {
        event: Some(event),
        limit: 1,
        ..DeliveryFilter::default()
    };
    let found = state.store.deliveries(buyer.org, endpoint, filter).await?;
    let delivery = found.ok_or_else(no_endpoint)?.pop();
    let delivery = delivery.ok_or_else(no_delivery)?;
    Ok(HttpResponse::Ok().json(view::Delivery::from(delivery)))
}

fn read_filter(query: &str) -> Result<DeliveryFilter, Problem> {
    let mut query = Query::parse(query)?;
    let limit = |text: &str| text.parse().ok().filter(|n| (1..=MAX_LIMIT).contains(n));
    let limit = query.take("limit", limit, "a whole number between 1 and 100")?;
    let before = |text: &str| text.parse().ok();
    let before = query.take("cursor", before, "the next_cursor of an earlier answer")?;
    let state = |text: &str| STATES.contains(&text).then(|| text.to_owned());
    let state = query.take("state", state, &format!("one of {}", STATES.join(", ")))?;
    query.finish()?;
    Ok(DeliveryFilter {
        state,
        before,
        event: None,
        limit: limit.unwrap_or(DEFAULT_LIMIT),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_filters_are_refused_by_name() {
        for (query, field) in [
            ("limit=0", "limit"),
            ("cursor=x", "cursor"),
            ("state=lost", "state"),
            ("status=failed", "status"),
        ] {
            let problem = read_filter(query).unwrap_err();
            assert_eq!(problem.field.as_deref(), Some(field));
        }
        let filter = read_filter("state=failed&limit=5").unwrap();
        assert_eq!((filter.state.as_deref(), filter.limit), (Some("failed"), 5));
    }
}
