//! The jobs that are running, each a task of its own.

use std::collections::HashMap;
use std::sync::Arc;

use fencepost_domain::ids::AttemptId;
use fencepost_media::StopSignal;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{Id, JoinError, JoinSet};

use crate::clock::Moment;
use crate::core::{JobOutcome, LinkAnswer, Wanted, Work};
use crate::job_runner::{self, Shop};
use crate::power::{Awake, Power};
use crate::reporter::{JobNews, Reporter};
use crate::transfer::LeaseWatch;
use crate::transfer::link::{LinkDesk, LinkWish};

/// News on their way to the session; more are dropped or wait.
const NEWS_IN_FLIGHT: usize = 64;

/// What happened to a job.
#[derive(Debug)]
pub enum JobEvent {
    /// It got further.
    News(JobNews),
    /// It needs a fresh link for the object of this name, to `get` or to `put` it.
    LinkWanted(AttemptId, Wanted),
    /// It has ended: nothing of it is left on this machine.
    Ended(AttemptId, JobOutcome),
}

/// All running jobs. Dropping it kills them and their children.
pub struct Jobs {
    shop: Arc<Shop>,
    tasks: JoinSet<JobOutcome>,
    running: HashMap<Id, Running>,
    /// Where jobs run: not on the thread that keeps their leases.
    workers: Handle,
    news: (mpsc::Sender<JobNews>, mpsc::Receiver<JobNews>),
    wishes: (mpsc::Sender<LinkWish>, mpsc::Receiver<LinkWish>),
    power: Box<dyn Power>,
    awake: Option<Awake>,
}

struct Running {
    attempt: AttemptId,
    stop: StopSignal,
    deadline: watch::Sender<Moment>,
    /// Where the fresh link goes that it waits for.
    wish: Option<oneshot::Sender<LinkAnswer>>,
}

impl Jobs {
    /// No job yet. They will run on `workers`.
    pub fn new(shop: Arc<Shop>, power: Box<dyn Power>, workers: Handle) -> Self {
        Self {
            shop,
            tasks: JoinSet::new(),
            running: HashMap::new(),
            workers,
            news: mpsc::channel(NEWS_IN_FLIGHT),
            wishes: mpsc::channel(NEWS_IN_FLIGHT),
            power,
            awake: None,
        }
    }

    /// Begins an attempt's work.
    pub fn start(&mut self, work: Work, deadline: Moment) {
        let attempt = work.attempt_id;
        let stop = StopSignal::new();
        let (sender, receiver) = watch::channel(deadline);
        let live = LeaseWatch {
            stop: stop.clone(),
            deadline: receiver,
        };
        let reporter = Reporter::new(attempt, self.news.0.clone());
        let desk = LinkDesk::new(attempt, self.wishes.0.clone());
        let job = job_runner::run(Arc::clone(&self.shop), work, live, (reporter, desk));
        let task = self.tasks.spawn_on(job, &self.workers);
        self.running.insert(
            task.id(),
            Running {
                attempt,
                stop,
                deadline: sender,
                wish: None,
            },
        );
        if self.awake.is_none() {
            self.awake = self
                .power
                .hold()
                .inspect_err(|error| tracing::warn!(%error, "this Mac may fall asleep at work"))
                .ok();
        }
    }

    /// Tells a job to stop; [`Jobs::next`] says when it has.
    pub fn stop(&mut self, attempt: AttemptId) {
        self.of(attempt).for_each(|running| running.stop.cancel());
    }

    /// Tells every job to stop.
    pub fn stop_all(&mut self) {
        self.running
            .values()
            .for_each(|running| running.stop.cancel());
    }

    /// Moves the end of a job's lease.
    pub fn move_deadline(&mut self, attempt: AttemptId, deadline: Moment) {
        self.of(attempt).for_each(|running| {
            running.deadline.send_replace(deadline);
        });
    }

    /// Answers the job's wish for a fresh link, if it still waits.
    pub fn give_link(&mut self, attempt: AttemptId, answer: LinkAnswer) {
        let running = self.running.values_mut().find(|job| job.attempt == attempt);
        if let Some(wish) = running.and_then(|running| running.wish.take()) {
            // A job that has stopped waiting asks again if it needs to.
            let _ = wish.send(answer);
        }
    }

    /// Whether nothing is running.
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// The next thing that happens; waits for ever if no job is running. May be dropped and called
    /// again without losing anything.
    pub async fn next(&mut self) -> JobEvent {
        tokio::select! {
            // In this order, so that all news of a job come before its end.
            biased;
            Some(news) = self.news.1.recv() => JobEvent::News(news),
            Some(wish) = self.wishes.1.recv() => self.wished(wish),
            Some(ended) = self.tasks.join_next_with_id() => self.ended(ended),
            else => std::future::pending().await,
        }
    }

    fn wished(&mut self, wish: LinkWish) -> JobEvent {
        let LinkWish {
            attempt,
            wanted,
            answer,
        } = wish;
        if let Some(running) = self.running.values_mut().find(|job| job.attempt == attempt) {
            running.wish = Some(answer);
        }
        JobEvent::LinkWanted(attempt, wanted)
    }

    fn ended(&mut self, ended: Result<(Id, JobOutcome), JoinError>) -> JobEvent {
        let (id, outcome) = match ended {
            Ok(done) => done,
            Err(error) => {
                tracing::error!(%error, "a job did not end in an orderly way");
                let message = "the agent's own code failed".to_owned();
                (
                    error.id(),
                    JobOutcome::Failed {
                        code: "internal_error",
                        message,
                    },
                )
            }
        };
        let attempt = self.running.remove(&id).map(|running| running.attempt);
        if self.running.is_empty() {
            self.awake = None;
        }
        JobEvent::Ended(
            attempt.expect("every task is entered when it is spawned"),
            outcome,
        )
    }

    fn of(&self, attempt: AttemptId) -> impl Iterator<Item = &Running> {
        self.running
            .values()
            .filter(move |running| running.attempt == attempt)
    }
}
