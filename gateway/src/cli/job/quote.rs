//! `fencepost job quote`, and what a submit asks before it sends anything.

use clap::Args;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::JobError;
use super::api::Api;
use super::error::Problem;
use super::order::{self, OrderArgs};
use super::parsing::Source;
use super::screen::Screen;
use super::view::{Price, Slot, Waits};
use crate::cli::amount::show;
use crate::cli::table::facts;

const EXAMPLES: &str = "\
Examples:
  fencepost job quote --service transcode.v1 --param codec=h264 --max-output-seconds 90
  fencepost job quote --service transcode.v1 --param codec=hevc --json | jq .hold_micros

No file is needed, sent or read.";

/// What a job would cost.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct QuoteArgs {
    #[command(flatten)]
    order: OrderArgs,
}

/// What is read of the answer.
#[derive(Debug, Deserialize)]
pub(super) struct Quote {
    service: String,
    price: Price,
    max_output_seconds: u32,
    hold_micros: i64,
    available_micros: i64,
    is_covered: bool,
    needs: Vec<String>,
    waiting: Option<Waits>,
}

pub(super) async fn run(api: &Api, screen: &Screen, args: &QuoteArgs) -> Result<(), JobError> {
    let order = &args.order;
    let mut inputs = inputs(order)?;
    let mut unsent: Vec<String> = order.files().map(|(name, _)| name.to_owned()).collect();
    // Who asks for a price need not have the files: those that the service takes and nobody named.
    let catalogue = api.get("v1/services", &[]).await?;
    let services = catalogue["services"].as_array().into_iter().flatten();
    let slots = services.filter(|one| one["name"] == order.service());
    for slot in slots.flat_map(Slot::all_of) {
        let stands_for_it = if slot.is_bundle() {
            order::unsent_bundle()
        } else {
            order::unsent()
        };
        for name in slot.needed() {
            if !inputs.contains_key(&name) {
                inputs.insert(name.clone(), stands_for_it.clone());
                unsent.push(name);
            }
        }
    }
    let unsent: Vec<_> = unsent.iter().map(String::as_str).collect();
    let answer = api.quote(&order.body(inputs)?, &unsent).await?;
    Ok(screen.result(&Quote::read(&answer)?.text(), &answer)?)
}

/// Asks whether an order could be taken, before its files are sent; says what it would hold.
pub(super) async fn ask(api: &Api, screen: &Screen, order: &OrderArgs) -> Result<(), JobError> {
    let unsent: Vec<_> = order.files().map(|(name, _)| name).collect();
    let answer = api.quote(&order.body(inputs(order)?)?, &unsent).await?;
    let quote = Quote::read(&answer)?;
    if !quote.is_covered {
        return Err(JobError::Refused(Problem {
            status: 402,
            code: Some("insufficient_funds".to_owned()),
            detail: Some(format!(
                "the job needs a hold of {}, and {} is available: add credit, or lower \
                 --max-output-seconds; nothing was sent",
                show(quote.hold_micros),
                show(quote.available_micros)
            )),
            ..Problem::default()
        }));
    }
    let hold = show(quote.hold_micros);
    let (price, available) = (quote.price.sentence(), show(quote.available_micros));
    screen.say(&format!(
        "this holds {hold} of your {available} ({price}; up to {} s)",
        quote.max_output_seconds
    ))?;
    if let Some(waiting) = &quote.waiting {
        screen.say(&format!("it would wait now: {}", waiting.sentence()))?;
    }
    Ok(())
}

/// The inputs as far as they are there.
fn inputs(order: &OrderArgs) -> Result<Map<String, Value>, JobError> {
    let inputs = order.inputs()?.into_iter().map(|(name, source)| {
        let input = match source {
            Source::Upload(id) => order::sent(*id),
            Source::Url(address) => order::elsewhere(address),
            Source::File(_) => order::unsent(),
        };
        (name.to_owned(), input)
    });
    Ok(inputs.collect())
}

impl Quote {
    fn read(answer: &Value) -> Result<Self, JobError> {
        Self::deserialize(answer).map_err(|error| {
            JobError::Local(format!("the gateway's quote is not understood: {error}"))
        })
    }

    fn text(&self) -> String {
        let hold = format!(
            "{} at most, for up to {} s of output; what is not used is released",
            show(self.hold_micros),
            self.max_output_seconds
        );
        let mut available = show(self.available_micros);
        if !self.is_covered {
            available.push_str(", which is too little");
        }
        facts(&[
            ("service", Some(self.service.clone())),
            ("price", Some(self.price.sentence())),
            ("holds", Some(hold)),
            ("available", Some(available)),
            ("needs", Some(self.needs.join(" "))),
            ("waits", self.waiting.as_ref().map(Waits::sentence)),
        ])
    }
}
