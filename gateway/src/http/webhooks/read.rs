//! What a buyer says about an endpoint, checked.

use fencepost_domain::field::FieldError;
use fencepost_domain::webhook::EventType;
use fencepost_egress::Guard;

use crate::http::address;
use crate::http::body::Fields;

const MAX_URL_BYTES: usize = 2_000;
const EXAMPLE: &str = "https://example.com/path";

/// The address, judged; as it will be used.
pub(super) async fn url(fields: &mut Fields, guard: &Guard) -> Result<Option<String>, FieldError> {
    let expected = format!("an address like {EXAMPLE}");
    let Some(text) = fields.optional::<String>("url", &expected)? else {
        return Ok(None);
    };
    let parsed = address::parse(&text, MAX_URL_BYTES, EXAMPLE);
    let mut url = parsed.map_err(|problem| fields.complaint("url", problem))?;
    url.set_fragment(None);
    match guard.admit(&url).await {
        Ok(()) => Ok(Some(url.into())),
        Err(refused) => Err(fields.complaint("url", refused.to_string())),
    }
}

/// The types of events, each once.
pub(super) fn event_types(fields: &mut Fields) -> Result<Option<Vec<String>>, FieldError> {
    let known: Vec<_> = EventType::ALL.iter().map(|kind| kind.as_str()).collect();
    let expected = format!("an array of some of {}", known.join(", "));
    let Some(words) = fields.optional::<Vec<String>>("event_types", &expected)? else {
        return Ok(None);
    };
    let is_unknown = |word: &String| EventType::parse(word).is_none();
    if let Some(position) = words.iter().position(is_unknown) {
        let field = format!("event_types[{position}]");
        return Err(fields.complaint(&field, format!("must be one of {}", known.join(", "))));
    }
    let chosen = known
        .into_iter()
        .filter(|kind| words.iter().any(|word| word == kind));
    Ok(Some(chosen.map(ToOwned::to_owned).collect()))
}
