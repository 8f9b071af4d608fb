//! `fencepost job watch`, and what `submit --wait` does after it has ordered.

use clap::Args;
use fencepost_domain::ids::JobId;
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::JobError;
use super::SHOWN_BY;
use super::api::Api;
use super::follow::{Follower, Heard, State};
use super::screen::Screen;
use super::signals::Interrupts;
use super::view::{Job, doing};
use crate::cli::ids::id;

/// Follows a job to its end.
#[derive(Debug, Args)]
pub(super) struct WatchArgs {
    /// The job's id.
    #[arg(value_parser = id::<JobId>(SHOWN_BY))]
    job: JobId,
    #[command(flatten)]
    pub(super) interrupt: OnInterrupt,
}

/// What Ctrl-C does.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct OnInterrupt {
    /// Ctrl-C cancels the job (a second one leaves it); otherwise the job goes on.
    #[arg(long)]
    cancel_on_interrupt: bool,
}

pub(super) async fn run(api: &Api, screen: &Screen, args: &WatchArgs) -> Result<(), JobError> {
    let job = to_the_end(api, screen, args.job, args.interrupt).await?;
    finish(screen, &job)
}

/// Says how the job ended; the error that its exit code comes from, unless it succeeded.
pub(super) fn finish(screen: &Screen, job: &Value) -> Result<(), JobError> {
    let shown = Job::read(job)?;
    let verdict = shown.verdict();
    if screen.is_json() || verdict.is_ok() {
        screen.result(&shown.sentence(), &with_type("job", job))?;
    }
    verdict
}

/// Follows a job, telling what is heard, and gives it as it ended.
pub(super) async fn to_the_end(
    api: &Api,
    screen: &Screen,
    job: JobId,
    on: OnInterrupt,
) -> Result<Value, JobError> {
    let mut interrupts = Interrupts::listen()?;
    screen.set_sees_to_interrupts(true);
    screen.leaves(format!(
        "the job goes on. To follow it: fencepost job watch {job}; to end it: fencepost job cancel {job}"
    ));
    let mut teller = Teller::new(screen);
    let mut follower = Follower::new(api, job);
    let mut cancels = on.cancel_on_interrupt;
    loop {
        let mut tell = |heard: &Heard| teller.tell(heard);
        let ended = tokio::select! {
            ended = follower.follow(&mut tell) => Some(ended),
            () = interrupts.next() => None,
        };
        match ended {
            Some(ended) => {
                teller.finish();
                screen.set_sees_to_interrupts(false);
                ended?;
                return api.job(job).await;
            }
            None if cancels => {
                cancels = false;
                teller.say("cancelling the job; Ctrl-C again leaves it as it is")?;
                tokio::select! {
                    cancelled = api.cancel(job) => drop(cancelled?),
                    () = interrupts.next() => return Err(screen.interrupted()),
                }
            }
            None => {
                teller.finish();
                return Err(screen.interrupted());
            }
        }
    }
}

/// Tells what is heard: a bar on a terminal, lines elsewhere, JSON to programs.
struct Teller<'a> {
    screen: &'a Screen,
    bar: ProgressBar,
    last: String,
}

impl<'a> Teller<'a> {
    fn new(screen: &'a Screen) -> Self {
        Self {
            screen,
            bar: screen.percent_bar(),
            last: String::new(),
        }
    }

    fn tell(&mut self, heard: &Heard) -> Result<(), JobError> {
        match heard {
            Heard::State(state) => self.tell_state(state),
            Heard::Event(kind, data) => self.tell_event(kind, data),
            Heard::Lost if self.screen.has_bars() => {
                self.bar.set_message("connecting again");
                Ok(())
            }
            Heard::Lost => self.say("the connection is gone; trying again"),
        }
    }

    fn tell_state(&mut self, state: &State) -> Result<(), JobError> {
        let phase = state.phase.as_deref();
        if self.screen.is_json() {
            let line = json!({
                "type": "status", "status": state.status, "phase": phase,
                "percent": state.percent, "attempts": state.attempts,
                "waiting": state.waiting.as_ref().map(|waiting| &waiting.reason),
            });
            return Ok(self.screen.result("", &line)?);
        }
        let mut what = doing(&state.status, phase, None);
        if state.attempts > 1 {
            what = format!("{what} (attempt {})", state.attempts);
        }
        if let Some(waiting) = &state.waiting {
            what = format!("{what} ({})", waiting.sentence());
        }
        let percent = whole(state.percent.unwrap_or(0.0));
        if self.screen.has_bars() {
            self.bar.set_message(what);
            self.bar.set_position(percent);
            return Ok(());
        }
        // A line for each phase, and for each quarter of one.
        let line = match percent / 25 * 25 {
            0 => what,
            quarter => format!("{what} {quarter} %"),
        };
        if line != self.last {
            self.say(&line)?;
            self.last = line;
        }
        Ok(())
    }

    fn tell_event(&self, kind: &str, data: &Value) -> Result<(), JobError> {
        if self.screen.is_json() {
            return Ok(self.screen.result("", &with_type(kind, data))?);
        }
        let told = &data["data"];
        let number = &told["attempt_number"];
        match kind {
            "attempt.event" => {
                let what = told["kind"].as_str().unwrap_or("?");
                self.say(&format!("attempt {number}: {what} {}", told["payload"]))
            }
            "attempt.artifact" => {
                let name = told["name"].as_str().unwrap_or("?");
                self.say(&format!(
                    "attempt {number}: file {name}, {} bytes",
                    told["size_bytes"]
                ))
            }
            // The end is said by itself, and what is new in the gateway is not known here.
            _ => Ok(()),
        }
    }

    /// Above the bar, where there is one.
    fn say(&self, line: &str) -> Result<(), JobError> {
        if self.screen.has_bars() {
            self.bar.println(line);
            return Ok(());
        }
        Ok(self.screen.say(line)?)
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// The same object with its type, so that lines of a stream can be told apart.
pub(super) fn with_type(kind: &str, value: &Value) -> Value {
    let mut value = value.clone();
    if let Value::Object(fields) = &mut value {
        fields.insert("type".to_owned(), kind.into());
    }
    value
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is clamped into the range first"
)]
fn whole(percent: f64) -> u64 {
    percent.clamp(0.0, 100.0) as u64
}
