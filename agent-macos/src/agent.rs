//! Drives the core: the one task that hears, says, keeps the time and writes the outbox.
//!
//! Nothing slow happens here, and nothing else on this thread. Media runs in child processes,
//! transfers and digests on other threads, the outbox is written by one of its own, so that a
//! renewal is never late because of the work that it is for.

mod dialling;
mod effects;
mod writing;

use std::pin::Pin;
use std::time::Duration;

use fencepost_protocol::{GatewayEnvelope, GatewayFrame};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval};
use url::Url;
use writing::{Writing, Written};

use crate::backoff::Backoff;
use crate::clock::{self, Moment};
use crate::closing::Farewell;
use crate::connection::{Connection, DialError, Heard};
use crate::core::Core;
use crate::credential::DeviceToken;
use crate::jobs::{JobEvent, Jobs};
use crate::kept::KeptRuns;
use crate::machine::Machine;
use crate::outbox::Outbox;
use crate::state_dir::StateDirError;
use crate::status::Board;

/// Several times in the two seconds that stopping may take.
const TICK: Duration = Duration::from_millis(200);
/// How often the machine is looked at while it has no room for work.
const LOOK_MS: u64 = 1_000;
/// How long the agent tries to hand back what it holds, once its children are gone or not.
const DRAIN_MS: u64 = 8_000;
/// How long children may need to go when there is nobody to tell.
const STOP_TIME: Duration = Duration::from_secs(3);

/// How a run ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The gateway said that we must not come back.
    #[error(transparent)]
    Farewell(#[from] Farewell),
    /// Told to stop a second time.
    #[error("interrupted: what is held was not handed back")]
    Interrupted,
    /// The state folder.
    #[error(transparent)]
    StateDir(#[from] StateDirError),
    /// The operating system refused something basic.
    #[error("{0}")]
    System(String),
}

type Dialling = Pin<Box<dyn Future<Output = Result<Connection, DialError>> + Send>>;

/// Everything a run needs.
pub struct Agent {
    core: Core,
    jobs: Jobs,
    writing: Writing,
    machine: Machine,
    looked: Moment,
    board: Board,
    session_url: Url,
    token: DeviceToken,
    link: Option<Connection>,
    dialling: Option<Dialling>,
    backoff: Backoff,
    /// Handshakes refused for the token, in a row.
    unauthorized: u32,
    drain_until: Option<Moment>,
}

/// What [`Agent::new`] puts together.
pub struct Parts {
    /// The state machine.
    pub core: Core,
    /// The jobs.
    pub jobs: Jobs,
    /// The outbox.
    pub outbox: Outbox,
    /// What failed runs left.
    pub kept: KeptRuns,
    /// This machine.
    pub machine: Machine,
    /// What `status` shows.
    pub board: Board,
    /// Where to dial.
    pub session_url: Url,
    /// Who we are.
    pub token: DeviceToken,
}

/// Terminal and launchd ask us to end with one of these.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Listens from now on.
    pub fn listen() -> Result<Self, RunError> {
        let listen = |kind| signal(kind).map_err(|error| RunError::System(error.to_string()));
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// The next one.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

enum Event {
    Tick,
    Heard(Heard),
    Dialled(Result<Connection, DialError>),
    Job(JobEvent),
    Written(Written),
    Signal,
}

impl Agent {
    /// An agent that has not dialled yet.
    ///
    /// # Errors
    /// The operating system gives no thread.
    pub fn new(parts: Parts) -> Result<Self, RunError> {
        let writing = Writing::start(parts.outbox, parts.kept)
            .map_err(|error| RunError::System(error.to_string()))?;
        Ok(Self {
            core: parts.core,
            jobs: parts.jobs,
            writing,
            machine: parts.machine,
            looked: clock::now(),
            board: parts.board,
            session_url: parts.session_url,
            token: parts.token,
            link: None,
            dialling: None,
            backoff: Backoff::default(),
            unauthorized: 0,
            drain_until: None,
        })
    }

    /// Runs until a signal or the gateway ends it. On return no child of ours is left.
    pub async fn run(mut self, signals: &mut Signals) -> Result<(), RunError> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.look(clock::now());
        self.dial(Duration::ZERO);
        let end = loop {
            if let Err(farewell) = self.carry_out() {
                break Err(farewell.into());
            }
            self.show(clock::now());
            if self.is_finished(clock::now()) {
                break Ok(());
            }
            let event = tokio::select! {
                _ = ticks.tick() => Event::Tick,
                heard = hear(self.link.as_mut()) => Event::Heard(heard),
                dialled = dialled(self.dialling.as_mut()) => Event::Dialled(dialled),
                event = self.jobs.next() => Event::Job(event),
                written = self.writing.next() => Event::Written(written),
                () = signals.next() => Event::Signal,
            };
            if let Err(error) = self.handle(event, clock::now()) {
                break Err(error);
            }
        };
        self.go_down(end).await
    }

    fn handle(&mut self, event: Event, now: Moment) -> Result<(), RunError> {
        match event {
            Event::Tick => self.on_tick(now),
            Event::Heard(Heard::Frame(envelope)) => self.on_frame(*envelope, now),
            Event::Heard(Heard::Closed { code, why }) => self.on_closed(code, &why, now)?,
            Event::Dialled(dialled) => self.on_dialled(dialled, now)?,
            Event::Job(JobEvent::News(news)) => {
                self.core
                    .on_job_progress(news.attempt, news.phase, news.percent, now);
            }
            Event::Job(JobEvent::Ended(attempt, outcome)) => {
                tracing::info!(attempt.id = %attempt, %outcome, "the work on a job has ended");
                // Its children are gone, or they are not: no new work before that is known.
                self.look(now);
                self.core.on_job_ended(attempt, outcome, now);
            }
            Event::Job(JobEvent::LinkWanted(attempt, wanted)) => {
                self.core.on_link_wanted(attempt, wanted, now);
            }
            Event::Written(written) => self.on_written(&written),
            Event::Signal if self.drain_until.is_some() => return Err(RunError::Interrupted),
            Event::Signal => {
                tracing::info!("shutting down: handing back what is not finished");
                self.drain_until = Some(now.after_millis(DRAIN_MS));
                self.core.drain(now);
            }
        }
        Ok(())
    }

    fn on_tick(&mut self, now: Moment) {
        // Deadlines first: looking may take a moment.
        self.core.on_tick(now);
        let due = now.millis_since(self.looked) >= LOOK_MS;
        if due && self.core.is_short_of_room() {
            self.look(now);
        }
    }

    fn look(&mut self, now: Moment) {
        self.looked = now;
        self.core.on_room(self.machine.look(), now);
    }

    fn on_frame(&mut self, envelope: GatewayEnvelope, now: Moment) {
        if matches!(envelope.frame, GatewayFrame::LeaseOffer(_)) {
            self.look(now);
        }
        let was_up = self.core.session().is_some();
        self.core.on_frame(envelope, now);
        if let (false, Some(session)) = (was_up, self.core.session()) {
            tracing::info!(session.id = %session, "connected");
            self.board.now.connected_since_boot_ms = Some(now.as_millis());
        }
    }

    fn is_finished(&self, now: Moment) -> bool {
        self.drain_until
            .is_some_and(|until| self.core.is_drained() || now >= until)
    }

    async fn go_down(mut self, end: Result<(), RunError>) -> Result<(), RunError> {
        let state = match &end {
            Err(RunError::Farewell(_)) => "told to stay away",
            Ok(()) | Err(_) => "stopped",
        };
        state.clone_into(&mut self.board.now.state);
        if let Err(error) = &end {
            self.board.now.last_error = Some(error.to_string());
        }
        self.board.now.held.clear();
        if !matches!(end, Err(RunError::Interrupted)) {
            self.jobs.stop_all();
            let all_gone = async {
                while !self.jobs.is_empty() {
                    self.jobs.next().await;
                }
            };
            if tokio::time::timeout(STOP_TIME, all_gone).await.is_err() {
                tracing::error!("a job did not stop in time; it is killed with the agent");
            }
            if let Some(link) = self.link.take() {
                link.close().await;
            }
        }
        self.writing.close().await;
        self.board.close().await;
        end
    }

    fn show(&mut self, now: Moment) {
        let state = match (self.drain_until, self.core.session()) {
            (Some(_), _) => "draining",
            (None, Some(_)) => "connected",
            (None, None) => "connecting",
        };
        let status = &mut self.board.now;
        state.clone_into(&mut status.state);
        status.session_id = self.core.session().map(|session| session.0);
        status.held = self.core.view().into_iter().map(Into::into).collect();
        if self.core.session().is_none() {
            status.connected_since_boot_ms = None;
        }
        if let Some((path, status)) = self.board.due(now) {
            self.writing.show(path, status);
        }
    }
}

async fn hear(link: Option<&mut Connection>) -> Heard {
    match link {
        Some(link) => link.hear().await,
        None => std::future::pending().await,
    }
}

async fn dialled(dialling: Option<&mut Dialling>) -> Result<Connection, DialError> {
    match dialling {
        Some(dialling) => dialling.await,
        None => std::future::pending().await,
    }
}
