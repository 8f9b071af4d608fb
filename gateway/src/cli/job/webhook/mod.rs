//! `fencepost webhook …`: a buyer's endpoints, their secrets and deliveries.

mod deliveries;

use clap::{Args, Subcommand};
use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::ids::EndpointId;
use fencepost_domain::webhook::EventType;
use serde_json::{Value, json};

use super::JobError;
use super::api::Api;
use super::screen::Screen;
use super::view::seconds;
use crate::cli::ids::id;
use crate::cli::table::{facts, table};

const PATH: &str = "v1/webhook-endpoints";
/// What shows ids of endpoints.
const SHOWN_BY: &str = "fencepost webhook list";
pub(super) const EXAMPLES: &str = "\
Examples:
  fencepost webhook create https://you.example/hooks
  fencepost webhook create https://you.example/failures --event job.failed
  fencepost webhook deliveries ENDPOINT --state failed
  fencepost webhook redeliver ENDPOINT --since 2026-11-30T00:00:00Z

A secret is shown once, when it is made; receivers check signatures with it.";

/// Where events are sent.
#[derive(Debug, Subcommand)]
pub(super) enum WebhookCommand {
    /// Your endpoints.
    List,
    /// Make an endpoint. Its secret is shown this once.
    Create(CreateArgs),
    /// Send to an endpoint again that was switched off. What was held waits for `redeliver`.
    Enable(Endpoint),
    /// Send nothing to an endpoint any more; what is for it is held.
    Disable(Endpoint),
    /// Delete an endpoint and what was on its way to it.
    Delete(Endpoint),
    /// Make a new secret, which is shown this once.
    Rotate(RotateArgs),
    /// What was sent to an endpoint, the latest first, and what became of it.
    Deliveries(deliveries::DeliveriesArgs),
    /// Send one delivery again, or all since a time that failed or were held.
    Redeliver(deliveries::RedeliverArgs),
}

/// One endpoint.
#[derive(Debug, Args)]
pub(super) struct Endpoint {
    /// The endpoint's id.
    #[arg(value_parser = id::<EndpointId>(SHOWN_BY))]
    endpoint: EndpointId,
}

/// A new endpoint.
#[derive(Debug, Args)]
pub(super) struct CreateArgs {
    /// An https address that leads to the public Internet.
    url: String,
    /// Which events it is sent; without it, the ends of all jobs. Repeatable.
    #[arg(long = "event", value_name = "TYPE",
        value_parser = EventType::ALL.map(EventType::as_str))]
    events: Vec<String>,
    /// It is sent nothing but the ends of jobs that name it (`job submit --webhook`).
    #[arg(long, conflicts_with = "events")]
    named_only: bool,
}

/// A new secret.
#[derive(Debug, Args)]
pub(super) struct RotateArgs {
    #[command(flatten)]
    endpoint: Endpoint,
    /// For how long the secret before signs too, such as 1h; 0s: not at all. Without it, a day.
    #[arg(long, value_name = "TIME", value_parser = keep)]
    keep: Option<i64>,
}

pub(super) async fn run(
    api: &Api,
    screen: &Screen,
    command: &WebhookCommand,
) -> Result<(), JobError> {
    match command {
        WebhookCommand::List => list(api, screen).await,
        WebhookCommand::Create(args) => create(api, screen, args).await,
        WebhookCommand::Enable(one) => switch(api, screen, one, true).await,
        WebhookCommand::Disable(one) => switch(api, screen, one, false).await,
        WebhookCommand::Delete(one) => {
            api.delete(&one.path()).await?;
            let text = format!("the endpoint {} is deleted", one.endpoint);
            let json = json!({ "type": "deleted", "endpoint_id": one.endpoint });
            Ok(screen.result(&text, &json)?)
        }
        WebhookCommand::Rotate(args) => rotate(api, screen, args).await,
        WebhookCommand::Deliveries(args) => deliveries::list(api, screen, args).await,
        WebhookCommand::Redeliver(args) => deliveries::redeliver(api, screen, args).await,
    }
}

impl Endpoint {
    fn path(&self) -> String {
        format!("{PATH}/{}", self.endpoint)
    }
}

async fn list(api: &Api, screen: &Screen) -> Result<(), JobError> {
    let answer = api.get(PATH, &[]).await?;
    let endpoints = answer["webhook_endpoints"].as_array().into_iter().flatten();
    let rows: Vec<_> = endpoints
        .map(|one| {
            let events = one["event_types"].as_array().into_iter().flatten();
            let events: Vec<_> = events.filter_map(Value::as_str).collect();
            let events = Some(events.join(" ")).filter(|events| !events.is_empty());
            vec![
                word(&one["id"]),
                state(one),
                word(&one["url"]),
                events.unwrap_or_else(|| "of jobs that name it".to_owned()),
            ]
        })
        .collect();
    let text = table(&["ENDPOINT", "STATE", "URL", "EVENTS"], &rows);
    Ok(screen.result(&text, &answer)?)
}

fn state(endpoint: &Value) -> String {
    match (
        endpoint["disabled"]["reason"].as_str(),
        endpoint["failing_since"].as_str(),
    ) {
        (Some(reason), _) => format!("off ({reason})"),
        (None, Some(since)) => format!("failing since {}", seconds(since)),
        (None, None) => "works".to_owned(),
    }
}

async fn create(api: &Api, screen: &Screen, args: &CreateArgs) -> Result<(), JobError> {
    let mut body = json!({ "url": args.url });
    if args.named_only || !args.events.is_empty() {
        body["event_types"] = json!(args.events);
    }
    let lost = "it may have been made all the same: look with `fencepost webhook list`";
    screen.leaves(lost);
    let made = api.post_once(PATH, &body, lost).await?;
    Ok(screen.result(&with_secret("endpoint", &made), &made)?)
}

async fn rotate(api: &Api, screen: &Screen, args: &RotateArgs) -> Result<(), JobError> {
    let body = args
        .keep
        .map_or_else(|| json!({}), |keep| json!({ "keep_seconds": keep }));
    let path = format!("{}/rotate-secret", args.endpoint.path());
    let lost = "there may be a new secret that nobody has seen: rotate it again";
    screen.leaves(lost);
    let made = api.post_once(&path, &body, lost).await?;
    Ok(screen.result(&with_secret("endpoint", &made), &made)?)
}

/// The one time that a secret is shown.
fn with_secret(what: &str, made: &Value) -> String {
    let until = made["previous_secret_valid_until"].as_str();
    let secret = format!(
        "{}\nshown this once: keep it where your receiver finds it",
        word(&made["secret"])
    );
    facts(&[
        (what, Some(word(&made["id"]))),
        ("url", made["url"].as_str().map(str::to_owned)),
        ("secret", Some(secret)),
        (
            "old secret",
            until.map(|until| format!("signs too until {}", seconds(until))),
        ),
    ])
}

async fn switch(api: &Api, screen: &Screen, one: &Endpoint, enabled: bool) -> Result<(), JobError> {
    let answer = api
        .patch(&one.path(), &json!({ "enabled": enabled }))
        .await?;
    let what = if enabled { "on" } else { "off" };
    let text = format!("the endpoint {} is switched {what}", one.endpoint);
    Ok(screen.result(&text, &answer)?)
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or("?").to_owned()
}

/// Whole seconds; none at all is a time too.
fn keep(text: &str) -> Result<i64, String> {
    if matches!(text, "0" | "0s") {
        return Ok(0);
    }
    let time: LeaseDuration = text
        .parse()
        .map_err(|_| "write it like 1h, or 0s".to_owned())?;
    Ok(time.micros() / 1_000_000)
}
