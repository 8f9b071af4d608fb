//! A job as a buyer orders it: every rule that can be judged without the database.

use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::field::FieldError;
use fencepost_domain::ids::{EndpointId, JobId, OrgId};
use fencepost_domain::matcher::{input_url_word, label_word, lane, own_device_word};
use fencepost_domain::service::{InputForm, ServiceName, ServiceParams};
use fencepost_store::tx::submit_job::{IdempotencyKey, NewJob, Priority};
use fencepost_store::vault::Vault;
use serde_json::{Map, Value};

use super::input::{self, Input};
use crate::config::Config;
use crate::http::body::Fields;

const MAX_METADATA_BYTES: usize = 16 * 1024;
/// Each can be searched for, so there is a row for each.
const MAX_METADATA_KEYS: usize = 50;
const MAX_LABELS: usize = 10;
const MAX_LABEL_BYTES: usize = 63;
const DEFAULT_OUTPUT_SECONDS: i64 = 600;
const MAX_OUTPUT_SECONDS: i64 = 24 * 3600;
const MAX_DEADLINE_SECONDS: i64 = 24 * 3600;

/// A checked order, of nobody yet.
#[derive(Debug)]
pub(super) struct Order {
    service: ServiceName,
    params: ServiceParams,
    raw_params: Value,
    inputs: Vec<(String, Input)>,
    metadata: Value,
    max_attempts: i32,
    deadline: LeaseDuration,
    priority: Priority,
    max_output_seconds: u32,
    placement: Placement,
    max_run: LeaseDuration,
    terms: fencepost_domain::ledger::PriceTerms,
    webhook: Option<EndpointId>,
}

/// Where the job may run.
#[derive(Debug, Default)]
struct Placement {
    own: bool,
    labels: Vec<String>,
}

/// Reads an order out of a body.
pub(super) fn read(body: Value, config: &Config) -> Result<Order, FieldError> {
    let mut fields = Fields::of_body(body)?;
    let service = read_service(&mut fields, config)?;
    let raw_params = fields
        .value("params")
        .unwrap_or_else(|| Value::Object(Map::new()));
    if !raw_params.is_object() {
        return Err(fields.complaint("params", "must be an object"));
    }
    let params = ServiceParams::parse(service, &raw_params).map_err(|error| {
        if error.field.is_empty() {
            FieldError::new("params", error.problem)
        } else {
            error.within("params")
        }
    })?;
    let inputs = read_inputs(&mut fields, &params, config)?;
    let order = Order {
        service,
        params,
        raw_params,
        inputs,
        max_attempts: read_max_attempts(&mut fields, config)?,
        deadline: read_deadline(&mut fields, config)?,
        priority: read_priority(&mut fields)?,
        max_output_seconds: read_limits(&mut fields)?,
        placement: read_placement(&mut fields)?,
        metadata: read_metadata(&mut fields)?,
        webhook: read_webhook(&mut fields)?,
        max_run: config.leases.run_time,
        terms: config.price_of(service),
    };
    fields.finish()?;
    Ok(order)
}

impl Order {
    /// Its inputs by name.
    pub(super) fn inputs(&self) -> &[(String, Input)] {
        &self.inputs
    }

    /// The order as `org`'s new job; `vault` seals what is secret in it.
    pub(super) fn of(
        self,
        org: OrgId,
        idempotency: Option<IdempotencyKey>,
        vault: &Vault,
    ) -> NewJob {
        let mut words = self.params.requirements();
        if self.inputs.iter().any(|(_, input)| input.url().is_some()) {
            words.insert(input_url_word());
        }
        words.extend(self.placement.labels.iter().map(|label| label_word(label)));
        if self.placement.own {
            words.insert(own_device_word(org));
        }
        let id = JobId::new();
        let inputs = self.inputs.into_iter().map(|(name, input)| {
            let input = input.of(id, &name, vault);
            (name, input)
        });
        NewJob {
            id,
            org,
            service: self.service.as_str().to_owned(),
            params: self.raw_params,
            inputs: inputs.collect(),
            metadata: self.metadata,
            lane: lane(&words),
            max_attempts: self.max_attempts,
            deadline: self.deadline,
            priority: self.priority,
            max_output_seconds: self.max_output_seconds,
            max_run: self.max_run,
            terms: self.terms,
            webhook: self.webhook,
            idempotency,
        }
    }
}

fn read_service(fields: &mut Fields, config: &Config) -> Result<ServiceName, FieldError> {
    let name: String = fields.required("service", "the name of a service")?;
    let known = ServiceName::parse(&name).filter(|service| config.offers(*service));
    known.ok_or_else(|| {
        let offered: Vec<_> = ServiceName::ALL
            .iter()
            .filter(|service| config.offers(**service))
            .map(|service| service.as_str())
            .collect();
        fields.complaint("service", format!("must be one of {}", offered.join(", ")))
    })
}

/// Exactly the inputs that the service takes, in the order of the catalogue.
fn read_inputs(
    fields: &mut Fields,
    params: &ServiceParams,
    config: &Config,
) -> Result<Vec<(String, Input)>, FieldError> {
    let service = params.service();
    let given = match fields.object("inputs")? {
        Some(inputs) => inputs.rest_as_objects()?,
        None if service.inputs().is_empty() => Vec::new(),
        None => {
            let expected = service.inputs_in_words();
            let problem = format!("is missing; it must be an object with the inputs {expected}");
            return Err(fields.complaint("inputs", problem));
        }
    };
    let names: Vec<&str> = given.iter().map(|(name, _)| name.as_str()).collect();
    params.check_inputs(&names)?;
    let mut inputs = Vec::new();
    for (name, fields) in given {
        let form = service.form_of_input(&name).unwrap_or(InputForm::File);
        let input = input::read(fields, form, config.artifacts.max_upload_bytes)?;
        inputs.push((name, input));
    }
    inputs.sort_by_key(|(name, _)| service.place_of_input(name));
    input::check_room(&inputs)?;
    Ok(inputs)
}

fn read_max_attempts(fields: &mut Fields, config: &Config) -> Result<i32, FieldError> {
    let number = fields.integer("max_attempts", 1..=10)?;
    Ok(number
        .and_then(|number| i32::try_from(number).ok())
        .unwrap_or(config.leases.max_attempts))
}

fn read_deadline(fields: &mut Fields, config: &Config) -> Result<LeaseDuration, FieldError> {
    let seconds = fields.integer("deadline_seconds", 1..=MAX_DEADLINE_SECONDS)?;
    Ok(seconds.map_or(config.leases.admission_deadline, LeaseDuration::seconds))
}

fn read_priority(fields: &mut Fields) -> Result<Priority, FieldError> {
    let expected = "low, normal or high";
    let Some(word) = fields.optional::<String>("priority", expected)? else {
        return Ok(Priority::default());
    };
    Priority::parse(&word)
        .ok_or_else(|| fields.complaint("priority", format!("must be {expected}")))
}

fn read_limits(fields: &mut Fields) -> Result<u32, FieldError> {
    let mut seconds = None;
    if let Some(mut limits) = fields.object("limits")? {
        seconds = limits.integer("max_output_seconds", 1..=MAX_OUTPUT_SECONDS)?;
        limits.finish()?;
    }
    // Within u32 by its bounds.
    Ok(u32::try_from(seconds.unwrap_or(DEFAULT_OUTPUT_SECONDS)).unwrap_or(u32::MAX))
}

fn read_placement(fields: &mut Fields) -> Result<Placement, FieldError> {
    let Some(mut placement) = fields.object("placement")? else {
        return Ok(Placement::default());
    };
    let kind: String = placement.required("kind", "shared or own")?;
    let own = match kind.as_str() {
        "shared" => false,
        "own" => true,
        _ => return Err(placement.complaint("kind", "must be shared or own")),
    };
    let expected = "an array of at most 10 texts";
    let labels: Vec<String> = placement.optional("labels", expected)?.unwrap_or_default();
    if labels.len() > MAX_LABELS {
        return Err(placement.complaint("labels", format!("must be {expected}")));
    }
    if let Some(position) = labels.iter().position(|label| !is_label(label)) {
        let problem = "must be 1 to 63 of the characters a-z, 0-9, '.', '_' and '-'";
        return Err(placement.complaint(&format!("labels[{position}]"), problem));
    }
    placement.finish()?;
    Ok(Placement { own, labels })
}

/// Labels are words of a lane, which are separated by blanks.
pub(crate) fn is_label(label: &str) -> bool {
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    (1..=MAX_LABEL_BYTES).contains(&label.len()) && label.bytes().all(allowed)
}

/// An endpoint that is told of this job, whatever it is subscribed to.
fn read_webhook(fields: &mut Fields) -> Result<Option<EndpointId>, FieldError> {
    let Some(mut webhook) = fields.object("webhook")? else {
        return Ok(None);
    };
    let endpoint = webhook.required("endpoint_id", "the id of a webhook endpoint of your org")?;
    webhook.finish()?;
    Ok(Some(endpoint))
}

fn read_metadata(fields: &mut Fields) -> Result<Value, FieldError> {
    let Some(metadata) = fields.value("metadata") else {
        return Ok(Value::Object(Map::new()));
    };
    let Some(entries) = metadata.as_object() else {
        return Err(fields.complaint("metadata", "must be an object"));
    };
    if entries.len() > MAX_METADATA_KEYS {
        let problem = format!("must have at most {MAX_METADATA_KEYS} keys");
        return Err(fields.complaint("metadata", problem));
    }
    if metadata.to_string().len() > MAX_METADATA_BYTES {
        return Err(fields.complaint("metadata", "must be at most 16 KiB of JSON"));
    }
    Ok(metadata)
}

#[cfg(test)]
#[path = "order_tests.rs"]
mod tests;
