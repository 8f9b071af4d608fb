//! How a job tells the session what it is doing, without ever being held up by it.

use std::sync::atomic::{AtomicU32, Ordering};

use fencepost_domain::attempt::Phase;
use fencepost_domain::ids::AttemptId;
use tokio::sync::mpsc;

/// One piece of news.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobNews {
    /// Whose.
    pub attempt: AttemptId,
    /// In which phase.
    pub phase: Phase,
    /// How much of it is done; none when the phase begins.
    pub percent: Option<f32>,
}

/// The sending end of one job.
#[derive(Debug)]
pub struct Reporter {
    attempt: AttemptId,
    news: mpsc::Sender<JobNews>,
    /// The last whole percent that was sent in this phase.
    last: AtomicU32,
}

impl Reporter {
    /// A reporter of `attempt` into a bounded channel.
    pub fn new(attempt: AttemptId, news: mpsc::Sender<JobNews>) -> Self {
        Self {
            attempt,
            news,
            last: AtomicU32::new(0),
        }
    }

    /// A phase begins. Waits for room: a phase must not be lost.
    pub async fn phase(&self, phase: Phase) {
        self.last.store(0, Ordering::Relaxed);
        let news = JobNews {
            attempt: self.attempt,
            phase,
            percent: None,
        };
        // Nobody listens only when the agent is going down.
        let _ = self.news.send(news).await;
    }

    /// The phase got further. Whole percents only, and dropped if nobody keeps up.
    pub fn percent(&self, phase: Phase, percent: f32) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped to 0 to 100 first"
        )]
        let whole = percent.clamp(0.0, 100.0) as u32;
        if self.last.fetch_max(whole, Ordering::Relaxed) < whole {
            let percent = Some(percent);
            let _ = self.news.try_send(JobNews {
                attempt: self.attempt,
                phase,
                percent,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn percents_are_whole_and_growing_and_a_full_channel_drops_them() {
        let (news, mut heard) = mpsc::channel(2);
        let reporter = Reporter::new(AttemptId::new(), news);
        reporter.phase(Phase::Running).await;
        for percent in [0.4, 1.0, 1.5, 0.9, 2.0, 3.0] {
            reporter.percent(Phase::Running, percent);
        }
        let percents: Vec<_> = std::iter::from_fn(|| heard.try_recv().ok())
            .map(|news| news.percent)
            .collect();
        assert_eq!(percents, [None, Some(1.0)]);
    }
}
