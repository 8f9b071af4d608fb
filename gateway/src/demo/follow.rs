//! Watching a job as its buyer can: a bar on a terminal, a few lines elsewhere.

use std::time::Duration;

use fencepost_domain::ids::JobId;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::{Instant, sleep};

use super::buyer::{Buyer, Job};
use super::error::DemoError;
use super::report::Narrator;

const PAUSE: Duration = Duration::from_millis(200);
/// A job in which nothing moves for this long is stuck.
const PATIENCE: Duration = Duration::from_mins(3);

/// Watches until the job has ended, and returns how.
pub(super) async fn to_the_end(buyer: &Buyer, job: JobId, say: Narrator) -> Result<Job, DemoError> {
    let mut shown = Shown::new(say);
    let mut last: Option<Job> = None;
    let mut moved = Instant::now();
    loop {
        let now = buyer.job(job).await?;
        shown.update(&now);
        if matches!(now.status.as_str(), "succeeded" | "failed" | "cancelled") {
            shown.bar.finish_and_clear();
            return Ok(now);
        }
        if last.as_ref() != Some(&now) {
            moved = Instant::now();
        } else if moved.elapsed() > PATIENCE {
            let what = format!("the job {job} has been {} for 3 minutes", doing(&now));
            return Err(DemoError::untrue(what));
        }
        last = Some(now);
        sleep(PAUSE).await;
    }
}

struct Shown {
    bar: ProgressBar,
    say: Narrator,
    last: String,
}

impl Shown {
    fn new(say: Narrator) -> Self {
        let bar = ProgressBar::new(100);
        // The template is ours and right; a bar without one would do as well.
        if let Ok(style) = ProgressStyle::with_template("  {msg:12} [{bar:40}] {pos:>3} %") {
            bar.set_style(style.progress_chars("=> "));
        }
        Self {
            bar,
            say,
            last: String::new(),
        }
    }

    fn update(&mut self, job: &Job) {
        let percent = whole(job.percent.unwrap_or(0.0));
        let doing = doing(job);
        if self.bar.is_hidden() {
            // Not a terminal: a line for each phase, and for each quarter of the encoding.
            let line = match percent / 25 * 25 {
                0 => doing.to_owned(),
                quarter => format!("{doing} {quarter} %"),
            };
            if line != self.last {
                self.say.step(&line);
                self.last = line;
            }
        } else {
            self.bar.set_message(doing.to_owned());
            self.bar.set_position(percent);
        }
    }
}

fn doing(job: &Job) -> &str {
    match (job.status.as_str(), &job.phase) {
        ("active", Some(phase)) => phase,
        (status, _) => status,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is clamped into the range first"
)]
fn whole(percent: f64) -> u64 {
    percent.clamp(0.0, 100.0) as u64
}
