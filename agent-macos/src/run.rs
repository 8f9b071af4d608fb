//! `fencepost-agent run`: puts an agent together and lets it run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::ids::InstanceId;
use fencepost_egress::AllowList;
use fencepost_media::{MediaFailure, Overrides, Roster, StopSignal};
use tokio::runtime::Handle;

use crate::address::{AddressError, Gateway};
use crate::agent::{Agent, Parts, RunError, Signals};
use crate::clock;
use crate::core::{Core, Identity};
use crate::credential::{CredentialError, DeviceFile};
use crate::job_runner::Shop;
use crate::jobs::Jobs;
use crate::kept::KeptRuns;
use crate::machine::Machine;
use crate::outbox::Outbox;
use crate::runner::Runner;
use crate::state_dir::{StateDir, StateDirError, io_at};
use crate::status::{Board, Status};
use crate::transfer::Network;
use crate::{http, power, workspace};

/// What the command line says.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The state folder.
    pub state_dir: PathBuf,
    /// How many attempts at once.
    pub slots: u32,
    /// Which FFmpeg.
    pub tools: Overrides,
    /// How long the log of a failed run is kept; not at all if nothing.
    pub retain_failed_for: Option<LeaseDuration>,
    /// Networks that inputs may be fetched from although they are not public.
    pub egress_allow: AllowList,
    /// When told to stay away, wait to be stopped instead of ending: whoever supervises the agent
    /// would only start it again.
    pub supervised: bool,
}

/// Why an agent did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The state folder.
    #[error(transparent)]
    StateDir(#[from] StateDirError),
    /// The credential.
    #[error(transparent)]
    Credential(#[from] CredentialError),
    /// The gateway's address.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// FFmpeg, or what was named to render Remotion with.
    #[error("this machine cannot work: {}", .0.message())]
    Media(#[from] MediaFailure),
    /// The HTTP client.
    #[error("the HTTP client cannot be made: {0}")]
    Http(#[from] reqwest::Error),
    /// The run itself.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Runs an agent to its end. Its jobs run on `workers`, itself on the thread of the caller, so that
/// nothing they do keeps a renewal waiting.
pub async fn run(settings: Settings, workers: Handle) -> Result<(), StartError> {
    let state = StateDir::open(&settings.state_dir)?;
    // Before anything is touched: a second agent must not clean up under the first.
    let _lock = state.lock()?;
    let device = DeviceFile::read(&state.device_file())?;
    let gateway = Gateway::parse(&device.gateway)?;
    let mut signals = Signals::listen()?;
    let work_folder = state.work()?;
    let children = state.children()?;
    let at_children = |error| io_at(&children, error);
    let roster = Roster::open(children.clone()).map_err(at_children)?;
    let reserve = state.reserve();
    let machine = Machine::new(work_folder.clone(), roster.clone(), reserve.clone());
    machine.end_earlier_run().await.map_err(at_children)?;
    workspace::clean_leftovers(&work_folder).map_err(|error| io_at(&work_folder, error))?;
    let tools = (&settings.tools, roster);
    let Some(runner) = prove(tools, &work_folder, &mut signals).await? else {
        return Ok(());
    };
    let outbox = Outbox::new(state.leases()?).with_reserve(reserve);
    let identity = Identity {
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        instance_id: InstanceId::new(),
        slots: settings.slots,
        capabilities: runner.capabilities(),
    };
    let board = Board::new(state.status_file(), first_status(&device, &identity));
    let kept = KeptRuns::new(state.kept()?);
    let retain_for = settings.retain_failed_for;
    let left = kept.load(retain_for.map_or(Duration::ZERO, LeaseDuration::std))?;
    let now = clock::now();
    let mut core = Core::new(identity, outbox.load()?, now);
    core.keep_for(retain_for, left, now);
    let session_url = gateway.session_url()?;
    let client = http::client(&gateway)?;
    if !settings.egress_allow.is_empty() {
        tracing::warn!(
            networks = %settings.egress_allow,
            "inputs are also fetched from these networks, which are not public"
        );
    }
    let shop = Arc::new(Shop {
        network: Network::new(&gateway, client, settings.egress_allow)?,
        gateway,
        runner,
        work_folder,
        slots: settings.slots,
    });
    let jobs = Jobs::new(shop, power::of_this_machine(), workers);
    let token = device.device_token;
    let agent = Agent::new(Parts {
        core,
        jobs,
        outbox,
        kept,
        machine,
        board,
        session_url,
        token,
    })?;
    match agent.run(&mut signals).await {
        Err(RunError::Farewell(farewell)) if settings.supervised => {
            tracing::error!(%farewell, "staying away until stopped");
            signals.next().await;
            Ok(())
        }
        ended => Ok(ended?),
    }
}

/// Finds out what this machine can do; nothing if a signal ends it before.
async fn prove(
    (tools, roster): (&Overrides, Roster),
    work_folder: &Path,
    signals: &mut Signals,
) -> Result<Option<Runner>, StartError> {
    let folder = tempfile::Builder::new()
        .prefix("trial-")
        .tempdir_in(work_folder)
        .map_err(|error| io_at(work_folder, error))?;
    let stop = StopSignal::new();
    let proving = Runner::prove(tools, folder.path(), roster, &stop);
    tokio::pin!(proving);
    tokio::select! {
        runner = &mut proving => Ok(Some(runner?)),
        () = signals.next() => {
            stop.cancel();
            // So that no child outlives us; what was found does not matter any more.
            let _ = proving.await;
            Ok(None)
        }
    }
}

fn first_status(device: &DeviceFile, identity: &Identity) -> Status {
    Status {
        pid: std::process::id(),
        gateway: device.gateway.clone(),
        device_id: device.device_id,
        device_name: device.device_name.clone(),
        state: "connecting".to_owned(),
        session_id: None,
        connected_since_boot_ms: None,
        slots: identity.slots,
        capabilities: identity
            .capabilities
            .iter()
            .map(|word| word.0.clone())
            .collect(),
        held: Vec::new(),
        last_error: None,
    }
}
