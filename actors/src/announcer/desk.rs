//! Who listens to what, what they were told, and what to ask for them. No I/O.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost_domain::ids::OrgId;
use fencepost_store::views::{JobEvent, JobNews, JobState, NEWS_PAGE, NewsAfter};
use tokio::sync::mpsc;

use super::Listen;

/// The most that waits for one listener: a page of events and the states beside them.
const BUFFER: usize = 2 * PAGE;
const PAGE: usize = NEWS_PAGE as usize;
/// What a listener needs room for to be asked for: a page, the state before it and that at the end.
const ROOM: usize = PAGE + 2;
/// Who has made no room for so long is cut off.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many may listen.
#[derive(Debug, Clone, Copy)]
pub struct WatchLimits {
    /// At this gateway.
    pub streams: usize,
    /// Of one org, at this gateway.
    pub per_org: usize,
}

/// Why somebody may not listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ListenRefusal {
    /// Their org has as many streams as it may have.
    #[error("your org watches as many jobs here as it may, {0}")]
    Org(usize),
    /// The gateway has as many streams as it may have.
    #[error("too many jobs are watched here")]
    Full,
    /// The gateway stops.
    #[error("the gateway is going down")]
    Closed,
}

/// What a listener is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// How the job is now.
    State(JobState),
    /// What has happened to it.
    Event(Arc<JobEvent>),
}

struct Listener {
    org: OrgId,
    question: NewsAfter,
    /// How the job was when they were last told.
    state: Option<JobState>,
    sender: mpsc::Sender<Told>,
    cut: Option<Box<dyn FnOnce() + Send>>,
    /// Since when they have had no room.
    stuck_since: Option<Instant>,
}

/// Everybody who listens at this gateway.
pub(super) struct Desk {
    limits: WatchLimits,
    listeners: Vec<Listener>,
    closed: bool,
}

impl Desk {
    pub(super) fn new(limits: WatchLimits) -> Self {
        Self {
            limits,
            listeners: Vec::new(),
            closed: false,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.listeners.len()
    }

    /// Takes somebody in, if there is room.
    pub(super) fn listen(&mut self, who: Listen) -> Result<mpsc::Receiver<Told>, ListenRefusal> {
        self.forget_gone();
        if self.closed {
            return Err(ListenRefusal::Closed);
        }
        if self.listeners.len() >= self.limits.streams {
            return Err(ListenRefusal::Full);
        }
        let of_org = self.listeners.iter().filter(|one| one.org == who.org);
        if of_org.count() >= self.limits.per_org {
            return Err(ListenRefusal::Org(self.limits.per_org));
        }
        let (sender, receiver) = mpsc::channel(BUFFER);
        self.listeners.push(Listener {
            org: who.org,
            question: NewsAfter {
                job: who.job,
                after: who.after,
            },
            state: None,
            sender,
            cut: Some(who.cut),
            stuck_since: None,
        });
        Ok(receiver)
    }

    /// Ends all streams, and lets nobody in any more.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.listeners.clear();
    }

    /// What is to be asked, each question once. Those who are asked for first change from round to
    /// round, since not all may be answered at once.
    pub(super) fn questions(&mut self) -> Vec<NewsAfter> {
        self.forget_gone();
        if !self.listeners.is_empty() {
            self.listeners.rotate_left(1);
        }
        let mut seen = HashSet::new();
        let mut questions = Vec::new();
        for listener in self.listeners.iter().filter(|one| one.has_room()) {
            if seen.insert(listener.question) {
                questions.push(listener.question);
            }
        }
        questions
    }

    /// Tells everybody what is new to them; whether somebody could be told more at once.
    pub(super) fn deliver(&mut self, news: &[(NewsAfter, Option<JobNews>)]) -> bool {
        let news: HashMap<_, _> = news.iter().map(|(asked, news)| (*asked, news)).collect();
        let mut has_more = false;
        self.listeners.retain_mut(|listener| {
            let Some(news) = news.get(&listener.question) else {
                return true;
            };
            // A job that is there no more has nothing to tell.
            let Some(news) = news else { return false };
            // Whoever came after the questions were put may share one without having had room.
            let goes_on = !listener.has_room() || listener.tell(news);
            has_more |= goes_on && news.has_more && listener.has_room();
            goes_on
        });
        has_more
    }

    /// Forgets those who hung up, and cuts off those who take nothing.
    fn forget_gone(&mut self) {
        self.listeners.retain_mut(|listener| {
            if listener.sender.is_closed() {
                return false;
            }
            if listener.has_room() {
                listener.stuck_since = None;
                return true;
            }
            let since = *listener.stuck_since.get_or_insert_with(Instant::now);
            if since.elapsed() < PATIENCE {
                return true;
            }
            metrics::counter!("fencepost_event_streams_cut_total").increment(1);
            if let Some(cut) = listener.cut.take() {
                cut();
            }
            false
        });
    }
}

impl Listener {
    fn has_room(&self) -> bool {
        self.sender.capacity() >= ROOM
    }

    /// Tells news; whether there can be more.
    fn tell(&mut self, news: &JobNews) -> bool {
        // The state of an ended job is told with its end, after everything that led there.
        if news.ended_at.is_none() && !self.tell_state(&news.state) {
            return false;
        }
        for event in &news.events {
            if event.terminal && !self.tell_state(&at_the_end(event, &news.state)) {
                return false;
            }
            if self
                .sender
                .try_send(Told::Event(Arc::clone(event)))
                .is_err()
                || event.terminal
            {
                return false;
            }
        }
        self.question.after = news.through;
        // An ended job whose end was told before has nothing more to tell.
        news.ended_at.is_none() || news.has_more
    }

    /// Tells the state, if it is another than before; whether they still listen.
    fn tell_state(&mut self, state: &JobState) -> bool {
        if self.state.as_ref() == Some(state) {
            return true;
        }
        self.state = Some(state.clone());
        self.sender.try_send(Told::State(state.clone())).is_ok()
    }
}

/// The state that the end brought. What was read of the job itself may be from just before.
fn at_the_end(end: &JobEvent, read: &JobState) -> JobState {
    let status = end.kind.strip_prefix("job.").unwrap_or(&end.kind);
    JobState {
        status: status.to_owned(),
        phase: None,
        percent: None,
        attempts: read.attempts,
        wake_at: None,
        waits: None,
    }
}

#[cfg(test)]
mod tests;
