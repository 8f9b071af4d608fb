//! `fencepost device …`

use clap::{Args, Subcommand};
use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::ids::DeviceId;
use fencepost_store::admin::NewEnrollment;
use fencepost_store::views::DeviceView;
use fencepost_store::{FinalizedAttempt, Store};
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;

use super::error::CliError;
use super::ids::id;
use super::report::Report;
use super::table::table;
use super::text::{LONGEST_NOTE, readable};
use super::{org, provider};
use crate::http::jobs::is_label;

const SHORTEST: LeaseDuration = LeaseDuration::seconds(60);
const LONGEST: LeaseDuration = LeaseDuration::seconds(3600);
/// What shows ids of devices.
const SHOWN_BY: &str = "fencepost device list";

/// Macs.
#[derive(Debug, Subcommand)]
pub(super) enum DeviceCommand {
    /// Make a one-use code with which a Mac is paired.
    Enroll(EnrollArgs),
    /// List all devices.
    List,
    /// Let a device work no more: its leases end without a charge, its sessions are closed.
    ///
    /// An output that it has delivered already, and that is being checked, still counts.
    Disable {
        /// The device's id.
        #[arg(value_parser = id::<DeviceId>(SHOWN_BY))]
        device: DeviceId,
        /// Why, for those who look at the list of devices.
        #[arg(long)]
        note: Option<String>,
    },
    /// Let a device work again, and forgive it what it failed before.
    Enable {
        /// The device's id.
        #[arg(value_parser = id::<DeviceId>(SHOWN_BY))]
        device: DeviceId,
    },
    /// Give a device no new work; what it holds goes on.
    Drain {
        /// The device's id.
        #[arg(value_parser = id::<DeviceId>(SHOWN_BY))]
        device: DeviceId,
    },
    /// Give a drained device work again.
    Undrain {
        /// The device's id.
        #[arg(value_parser = id::<DeviceId>(SHOWN_BY))]
        device: DeviceId,
    },
}

/// What a code is for.
#[derive(Debug, Args)]
pub(super) struct EnrollArgs {
    /// The provider (id or name) who owns the device and earns.
    #[arg(long)]
    provider: String,
    /// The device to pair again, which voids its token; without it, a new one. If it is another
    /// provider's, pairing hands it over, and the leases that it holds end.
    #[arg(long, value_parser = id::<DeviceId>(SHOWN_BY))]
    device: Option<DeviceId>,
    /// The org (id or name) whose own device it is, for jobs that ask for own devices.
    #[arg(long)]
    own_org: Option<String>,
    /// A label for placement. May be repeated.
    #[arg(long = "label", value_name = "LABEL")]
    labels: Vec<String>,
    /// How long the code can be used, 60s to 1h.
    #[arg(long, default_value = "15m")]
    valid_for: LeaseDuration,
}

pub(super) async fn run(store: &Store, command: &DeviceCommand) -> Result<Report, CliError> {
    match command {
        DeviceCommand::Enroll(args) => enroll(store, args).await,
        DeviceCommand::List => list(store).await,
        DeviceCommand::Disable { device, note } => disable(store, *device, note.as_deref()).await,
        DeviceCommand::Enable { device } => {
            let found = store.enable_device(*device).await?;
            switched(*device, found, "is enabled")
        }
        DeviceCommand::Drain { device } => {
            let found = store.set_device_draining(*device, true).await?;
            switched(*device, found, "gets no new work")
        }
        DeviceCommand::Undrain { device } => {
            let found = store.set_device_draining(*device, false).await?;
            switched(*device, found, "gets work again")
        }
    }
}

async fn disable(store: &Store, device: DeviceId, note: Option<&str>) -> Result<Report, CliError> {
    let note = note.map(|note| readable("--note", note, LONGEST_NOTE));
    let note = note.transpose()?;
    let ended = store.disable_device(device, note).await?;
    let ended = ended.ok_or_else(|| CliError::unknown("device", device))?;
    let text = match ended.len() {
        0 => format!("The device {device} is disabled; it held no lease."),
        1 => format!("The device {device} is disabled; the lease that it held has ended."),
        many => format!("The device {device} is disabled; the {many} leases it held have ended."),
    };
    let attempts: Vec<_> = ended.iter().map(FinalizedAttempt::attempt).collect();
    Ok(Report::new(
        text,
        json!({ "device_id": device, "ended_attempts": attempts }),
    ))
}

async fn enroll(store: &Store, args: &EnrollArgs) -> Result<Report, CliError> {
    if !(SHORTEST..=LONGEST).contains(&args.valid_for) {
        let problem = format!("--valid-for must be between {SHORTEST} and {LONGEST}");
        return Err(CliError::Refused(problem));
    }
    if let Some(label) = args.labels.iter().find(|label| !is_label(label)) {
        let problem = "is not a label: 1 to 63 of the characters a-z, 0-9, '.', '_' and '-'";
        return Err(CliError::Refused(format!("{label:?} {problem}")));
    }
    let own_org = match &args.own_org {
        Some(org) => Some(org::find(store, org).await?),
        None => None,
    };
    let provider = provider::find(store, &args.provider).await?;
    let enrollment = NewEnrollment {
        provider,
        device: args.device,
        own_org,
        labels: args.labels.clone(),
        valid_for: args.valid_for,
    };
    let code = store.create_enrollment(enrollment).await?;
    let code = code.ok_or_else(|| CliError::unknown("such provider or device", provider))?;
    let text = format!(
        "{}\nThe code works once, within {}. On the Mac: fencepost-agent pair",
        code.expose(),
        args.valid_for
    );
    let json = json!({
        "code": code.expose(),
        "provider_id": provider,
        "valid_for": args.valid_for,
    });
    Ok(Report::new(text, json))
}

async fn list(store: &Store) -> Result<Report, CliError> {
    let devices = store.devices().await?;
    let rows: Vec<_> = devices.iter().map(row).collect();
    let headings = &[
        "DEVICE",
        "NAME",
        "PROVIDER",
        "STATE",
        "CONNECTED",
        "SLOTS",
        "AGENT",
        "NOTE",
    ];
    let json: Vec<Value> = devices.iter().map(as_json).collect();
    Ok(Report::new(
        table(headings, &rows),
        json!({ "devices": json }),
    ))
}

fn state(device: &DeviceView) -> &'static str {
    match (device.enabled, device.draining, device.closed_until) {
        (false, ..) => "disabled",
        (true, true, _) => "draining",
        (true, false, Some((_, true))) => "quarantined",
        (true, false, Some((_, false))) => "backed off",
        (true, false, None) => "enabled",
    }
}

/// Why it gets no work, as far as anybody said it or it follows from its last attempts.
fn note(device: &DeviceView) -> String {
    let until = device.closed_until.map(|(until, _)| {
        let until = until.format(&Rfc3339).unwrap_or_default();
        format!("failed too often of late: no work until {until}, or until it is enabled")
    });
    device.note.clone().or(until).unwrap_or_default()
}

fn row(device: &DeviceView) -> Vec<String> {
    vec![
        device.id.to_string(),
        device.name.clone(),
        device.provider.clone(),
        state(device).to_owned(),
        if device.connected { "yes" } else { "no" }.to_owned(),
        format!("{}/{}", device.live_attempts, device.slots),
        device
            .agent_version
            .clone()
            .unwrap_or_else(|| "never connected".to_owned()),
        note(device),
    ]
}

fn as_json(device: &DeviceView) -> Value {
    json!({
        "device_id": device.id,
        "name": device.name,
        "provider": device.provider,
        "state": state(device),
        "note": device.note,
        "closed_until": device.closed_until.and_then(|(at, _)| at.format(&Rfc3339).ok()),
        "connected": device.connected,
        "slots": device.slots,
        "live_attempts": device.live_attempts,
        "words": device.words,
        "agent_version": device.agent_version,
        "connected_at": device.connected_at.and_then(|at| at.format(&Rfc3339).ok()),
    })
}

fn switched(device: DeviceId, found: bool, what: &str) -> Result<Report, CliError> {
    if !found {
        return Err(CliError::unknown("device", device));
    }
    Ok(Report::new(
        format!("The device {device} {what}."),
        json!({ "device_id": device }),
    ))
}
