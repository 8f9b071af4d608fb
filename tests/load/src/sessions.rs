//! Sessions that only wait: what it costs to have a device connected that has nothing to do.

use std::net::SocketAddr;
use std::time::Duration;

use fencepost_domain::ids::RequestId;
use fencepost_protocol::{AgentFrame, GatewayFrame};
use fencepost_store::secrets::Credential;
use indicatif::ProgressBar;
use serde_json::json;
use tokio::task::JoinSet;

use crate::cli::{Cli, SessionsArgs};
use crate::database::Database;
use crate::error::LoadError;
use crate::figures::{per, round};
use crate::gateways;
use crate::observe::{self, Snapshot};
use crate::people;
use crate::processes::resident_bytes;
use crate::report::{Report, shown};
use crate::sockets::{Socket, unexpected};

/// Sessions that are there before memory is measured: the first ones also pay for what all share.
const FIRST: usize = 50;
const AT_ONCE: usize = 16;
/// How long everything may come to rest after the last one connected.
const REST: Duration = Duration::from_secs(3);

/// Runs the scenario.
pub(crate) async fn run(
    cli: &Cli,
    args: &SessionsArgs,
    database: &Database,
) -> Result<Report, LoadError> {
    eprintln!("pairing {} devices …", args.devices);
    let people = people::set_up(database, 1, args.devices).await?;
    observe::prepare(&database.pool).await;
    let mut gateways = gateways::start(cli, database, 1).await?;
    let (address, pid) = (gateways[0].http, gateways[0].pid());
    let http = reqwest::Client::builder().no_proxy().build()?;
    let first = people.devices.len().min(FIRST) / 2;
    let bar = ProgressBar::new(u64::from(args.devices));
    let mut idlers = JoinSet::new();
    connect(address, &people.devices[..first], &mut idlers, &bar).await?;
    tokio::time::sleep(REST).await;
    let memory_before = resident_bytes(pid);
    connect(address, &people.devices[first..], &mut idlers, &bar).await?;
    bar.finish_and_clear();
    tokio::time::sleep(REST).await;
    let before = Snapshot::take(database, &gateways, &http).await?;
    let seconds = Duration::from_secs(args.seconds);
    tokio::select! {
        () = tokio::time::sleep(seconds) => {}
        Some(ended) = idlers.join_next() => {
            gateways[0].check()?;
            ended.map_err(|error| LoadError::Unexpected(error.to_string()))??;
        }
    }
    let after = Snapshot::take(database, &gateways, &http).await?;
    let memory_after = resident_bytes(pid);
    let grown = memory_after
        .zip(memory_before)
        .map(|(now, then)| now.saturating_sub(then));
    let added = u64::try_from(people.devices.len() - first).unwrap_or(1);
    Ok(report(
        args,
        grown.map(|bytes| round(per(bytes, added), 0)),
        &before,
        &after,
    ))
}

/// Connects devices, some at once, and lets them idle.
async fn connect(
    gateway: SocketAddr,
    tokens: &[Credential],
    idlers: &mut JoinSet<Result<(), LoadError>>,
    bar: &ProgressBar,
) -> Result<(), LoadError> {
    for some in tokens.chunks(AT_ONCE) {
        let dialling = some.iter().map(|token| Socket::open(gateway, token, 1));
        for socket in futures_util::future::join_all(dialling).await {
            idlers.spawn(idle(socket?));
            bar.inc(1);
        }
    }
    Ok(())
}

/// Asks for work, and is there.
async fn idle(mut socket: Socket) -> Result<(), LoadError> {
    let beat = Duration::from_millis(socket.intervals.heartbeat_ms.max(1));
    let mut beat = tokio::time::interval(beat);
    let pull = AgentFrame::Pull { slots_free: 1 };
    socket.say(RequestId::new(), pull.clone()).await?;
    loop {
        tokio::select! {
            heard = socket.hear() => match heard?.frame {
                GatewayFrame::NoWork | GatewayFrame::Busy { .. } => {
                    socket.say(RequestId::new(), pull.clone()).await?;
                }
                other => return Err(unexpected("an idle pull", &other)),
            },
            _ = beat.tick() => socket.say(RequestId::new(), AgentFrame::Heartbeat).await?,
        }
    }
}

fn report(
    args: &SessionsArgs,
    bytes_per_session: Option<f64>,
    before: &Snapshot,
    after: &Snapshot,
) -> Report {
    let statements = after.statements_since(before);
    let statements_per_second = statements.as_ref().map(|all| {
        round(
            per(all.values().map(|one| one.calls).sum(), args.seconds),
            2,
        )
    });
    let thousands = per(1_000, u64::from(args.devices));
    let cpu = after
        .cpu
        .since(before.cpu, thousands * per(1, args.seconds));
    let title = format!(
        "{} idle sessions on one gateway, {} s",
        args.devices, args.seconds
    );
    let mut report = Report::new(
        &title,
        json!({
            "bytes_per_session": bytes_per_session,
            "cpu_seconds_per_second_per_1000_sessions": cpu,
            "statements_per_second": statements_per_second,
        }),
    );
    report.line("bytes per session", shown(bytes_per_session));
    report.line("CPU per 1,000 sessions: postgres", shown(cpu.postgres));
    report.line("CPU per 1,000 sessions: gateway", shown(cpu.gateway));
    report.line("CPU per 1,000 sessions: load", shown(cpu.load));
    report.line("statements per second", shown(statements_per_second));
    if let Some(statements) = &statements {
        report.statements(statements, ("per second", args.seconds));
    }
    report
}
