//! Fetches an input from a host of the buyer's choice: through the guard, without following anything, and
//! going on where it was cut if the host can do that.
//!
//! Whatever the host says that asking again does not change is the buyer's to mend, and ends the job as
//! `input_invalid`; what may pass is tried a few times and then left to the next attempt, and so, at once,
//! is what only this device must not reach. The address, which may carry a signature, is in no message.

mod answer;
mod pace;
mod partial;
mod verdict;
mod what;

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use fencepost_egress::Refused;
use fencepost_protocol::InputGrant;
use reqwest::header::{ACCEPT_ENCODING, IF_RANGE, RANGE};
use reqwest::{Method, RequestBuilder, Response};
use tokio::sync::mpsc;
use tokio::time::timeout;
use url::Url;

use super::{Network, StepError, TRIES, TryError};
use answer::Begins;
use pace::Pace;
use partial::Partial;
pub use what::What;

/// Chunks on their way from the network to the disk.
const CHUNKS_IN_FLIGHT: usize = 16;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause that a host may ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(20);
/// A try that got so much further than every one before it is not counted, in bytes.
const PROGRESS_BYTES: u64 = 1 << 20;

/// Called with the bytes received so far, and with all of them if that is known.
pub type OnFetched<'a> = &'a (dyn Fn(u64, Option<u64>) + Send + Sync);

/// One file to fetch.
pub struct Fetch<'a> {
    /// What it is.
    pub what: What<'a>,
    /// The network.
    pub network: &'a Network,
    /// What was offered.
    pub grant: &'a InputGrant,
    /// Where it goes.
    pub file: &'a Path,
    /// Bytes that there is room for where no size was promised; none if that is not known.
    pub room: Option<u64>,
    /// Is told how far it is.
    pub received: OnFetched<'a>,
}

impl Fetch<'_> {
    /// Fetches it; gives its size. A try is one request. [`TRIES`] in a row that got nowhere end it;
    /// which is measured at the most that was ever there, for a host that makes us start over could send
    /// the same bytes for ever.
    ///
    /// # Errors
    /// `input_invalid` if the buyer has to change something, `download_failed` if it may pass.
    pub async fn run(&self) -> Result<u64, StepError> {
        let url = Url::parse(&self.grant.url);
        let url = url.map_err(|_| self.failed("there is no address to fetch it from"))?;
        let mut partial = Partial::create(self.file).map_err(|error| self.cannot_keep(&error))?;
        let (mut tries_left, mut pause) = (TRIES, FIRST_PAUSE);
        let mut furthest = 0;
        loop {
            let (kept, tried) = self.try_once(&url, partial).await?;
            partial = kept;
            let (wait, message) = match tried {
                Ok(()) => return Ok(partial.size()),
                Err(TryError::Final(error)) => return Err(error),
                Err(TryError::Later(wait, message)) => (wait.clamp(pause, LONGEST_PAUSE), message),
                Err(
                    TryError::Again(message) | TryError::Away(message) | TryError::Expired(message),
                ) => (pause, message),
            };
            if partial.size() >= PROGRESS_BYTES.saturating_add(furthest) {
                (tries_left, pause) = (TRIES, FIRST_PAUSE);
            } else {
                tries_left -= 1;
            }
            furthest = partial.size().max(furthest);
            if tries_left == 0 {
                return Err(StepError::failed(verdict::CODE, message));
            }
            // Not as `message`, which is what the log calls the text itself.
            tracing::warn!(
                why = message,
                tries_left,
                "an input was not fetched; trying again"
            );
            tokio::time::sleep(wait).await;
            pause *= 2;
        }
    }

    /// One request. What is on disk comes back whatever became of it, unless the disk is the trouble.
    async fn try_once(
        &self,
        url: &Url,
        mut partial: Partial,
    ) -> Result<(Partial, Result<(), TryError>), StepError> {
        if !partial.can_go_on() {
            partial
                .start_over()
                .map_err(|error| self.cannot_keep(&error))?;
        }
        let asked = partial.size();
        let response = match self.ask(url, &partial).await {
            Ok(response) => response,
            Err(error) => return Ok((partial, Err(error))),
        };
        let begins = match answer::judge(&response, asked, partial.tag()) {
            Ok(begins) => begins,
            Err(answer) => {
                if matches!(answer, answer::Refused::StartOver(_)) {
                    partial.forget_tag();
                }
                return Ok((partial, Err(self.refused(answer))));
            }
        };
        if begins.at == 0 && asked > 0 {
            partial
                .start_over()
                .map_err(|error| self.cannot_keep(&error))?;
        }
        partial.comes_with(begins.tag.clone());
        if let Err(error) = self.check_size(begins.total) {
            return Ok((partial, Err(TryError::Final(error))));
        }
        let (chunks, incoming) = mpsc::channel(CHUNKS_IN_FLIGHT);
        let writing = tokio::task::spawn_blocking(move || partial.write(incoming));
        let body = self.receive(response, &begins, chunks).await;
        // Also after trouble: the next try must not find somebody else writing to its file.
        let written = writing.await;
        let written =
            written.map_err(|_| StepError::failed("internal_error", "the writer is gone"))?;
        let partial = written.map_err(|error| self.cannot_keep(&error))?;
        Ok(self.judge_whole(partial, body))
    }

    async fn ask(&self, url: &Url, partial: &Partial) -> Result<Response, TryError> {
        let request = self.request(url).map_err(|refused| self.guarded(refused))?;
        // Packed, its size and digest would be those of something else.
        let request = request.header(ACCEPT_ENCODING, "identity");
        let request = match partial.tag() {
            Some(tag) if partial.size() > 0 => request
                .header(RANGE, format!("bytes={}-", partial.size()))
                .header(IF_RANGE, tag),
            _ => request,
        };
        let answer = timeout(self.network.idle, request.send()).await;
        let answer = answer.map_err(|_| TryError::Again(self.says("the host does not answer")))?;
        answer.map_err(|error| self.broken(error))
    }

    fn request(&self, url: &Url) -> Result<RequestBuilder, Refused> {
        self.network.elsewhere.request(Method::GET, url)
    }

    /// Hands the body to the writer.
    async fn receive(
        &self,
        mut response: Response,
        begins: &Begins,
        chunks: mpsc::Sender<Bytes>,
    ) -> Result<(), TryError> {
        let mut size = begins.at;
        let mut pace = Pace::new(self.network.pace);
        loop {
            let chunk = timeout(self.network.idle, response.chunk()).await;
            let chunk =
                chunk.map_err(|_| TryError::Again(self.says("the download stands still")))?;
            let Some(chunk) = chunk.map_err(|error| self.broken(error))? else {
                return Ok(());
            };
            let length = chunk.len() as u64;
            size = size.saturating_add(length);
            if size > self.most() {
                return Err(TryError::Final(self.too_large(size)));
            }
            if !pace.is_kept(length) {
                return Err(TryError::Again(self.says("the download is too slow")));
            }
            (self.received)(size, begins.total);
            if chunks.send(chunk).await.is_err() {
                // The writer has failed and says why.
                return Ok(());
            }
        }
    }
}
