//! Fetches an input from a host of the buyer's choice: through the guard, without following anything, and
//! going on where it was cut if the host can do that.
//!
//! Whatever the host says that asking again does not change is the buyer's to mend, and ends the job as
//! `input_invalid`; what may pass is tried a few times and then left to the next attempt. The address,
//! which may carry a signature, is in no message.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use fencepost_egress::{Failed, Refused};
use fencepost_protocol::InputGrant;
use reqwest::header::{ACCEPT_ENCODING, IF_RANGE, RANGE};
use reqwest::{Method, RequestBuilder, Response};
use tokio::sync::mpsc;
use tokio::time::timeout;
use url::Url;

use super::answer::{self, Begins};
use super::partial::Partial;
use super::{Network, StepError, TRIES, TryError};
use crate::clock::{self, Moment};

/// Chunks on their way from the network to the disk.
const CHUNKS_IN_FLIGHT: usize = 16;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause that a host may ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(20);
/// A try that got so much further than every one before it is not counted, in bytes.
const PROGRESS_BYTES: u64 = 1 << 20;
/// The least that must come within [`Network::pace`], in bytes: slower hosts hold a slot for nothing.
const SLOWEST_BYTES: u64 = 256 * 1024;

const CODE: &str = "download_failed";
const INVALID: &str = "input_invalid";

/// Called with the bytes received so far, and with all of them if that is known.
pub type OnFetched<'a> = &'a (dyn Fn(u64, Option<u64>) + Send + Sync);

/// What is fetched, for the words in which it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What<'a> {
    /// An input that is one file.
    Input,
    /// The manifest of an input that is a bundle.
    Manifest,
    /// The file of a bundle that is called so, in words that can be shown.
    BundleFile(&'a str),
}

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
                return Err(StepError::failed(CODE, message));
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

    /// Whether all of it is there, and the right thing.
    fn judge_whole(
        &self,
        mut partial: Partial,
        body: Result<(), TryError>,
    ) -> (Partial, Result<(), TryError>) {
        let size = partial.size();
        let judged = match (body, self.grant.size_bytes) {
            (Err(error), _) => Err(error),
            // A connection that ends early looks like this where no length was announced.
            (Ok(()), Some(promised)) if size < promised => {
                partial.forget_tag();
                let message = self.other_size(size, promised);
                Err(TryError::Again(self.says(&message)))
            }
            (Ok(()), _) if partial.has(self.grant.sha256.as_deref()) => Ok(()),
            // Parts of two versions, perhaps.
            (Ok(()), _) if partial.was_resumed() => {
                partial.forget_tag();
                Err(TryError::Again(
                    self.says("it changed while it was fetched"),
                ))
            }
            (Ok(()), _) => {
                let order = self.what.promised_by();
                let message = format!("it has another SHA-256 than {order} says");
                Err(TryError::Final(self.invalid(&message)))
            }
        };
        (partial, judged)
    }

    /// The most bytes that are taken here.
    fn most(&self) -> u64 {
        // There is room for what was promised: the offer was taken with that in mind.
        let room = self.grant.size_bytes.or(self.room);
        self.allowed().min(room.unwrap_or(u64::MAX))
    }

    /// The most bytes that any device takes.
    fn allowed(&self) -> u64 {
        self.grant.max_bytes.unwrap_or(0)
    }

    fn check_size(&self, total: Option<u64>) -> Result<(), StepError> {
        let Some(total) = total else {
            return Ok(());
        };
        match self.grant.size_bytes {
            Some(promised) if promised != total => {
                Err(self.invalid(&self.other_size(total, promised)))
            }
            _ if total > self.most() => Err(self.too_large(total)),
            _ => Ok(()),
        }
    }

    /// What it means that it has at least so many bytes, which is more than [`Self::most`].
    fn too_large(&self, size: u64) -> StepError {
        let allowed = self.allowed();
        match self.grant.size_bytes {
            // Also on a device that has no room for it: no other one would take it either.
            _ if size > allowed => self.invalid(&format!(
                "it has more than {allowed} bytes, {}",
                self.what.limit()
            )),
            Some(promised) => self.invalid(&format!("it has more than {promised} bytes")),
            None => self.no_room(),
        }
    }

    fn other_size(&self, size: u64, promised: u64) -> String {
        let order = self.what.promised_by();
        format!("it has {size} bytes, and {order} says {promised}")
    }

    fn no_room(&self) -> StepError {
        self.failed(
            "there is too little room for it on this device; say size_bytes in the order, and it goes to \
             one that has room",
        )
    }

    fn guarded(&self, refused: Refused) -> TryError {
        let message = format!("its address {refused}");
        match refused {
            // It may be this device that cannot find it.
            Refused::Unknown => TryError::Again(self.says(&message)),
            Refused::Form | Refused::Credentials | Refused::InClear | Refused::NotPublic => {
                TryError::Final(self.invalid(&message))
            }
        }
    }

    fn broken(&self, error: reqwest::Error) -> TryError {
        match Failed::from(error) {
            Failed::Refused(refused) => self.guarded(refused),
            failed => TryError::Again(self.says(&failed.to_string())),
        }
    }

    fn refused(&self, answer: answer::Refused) -> TryError {
        match answer {
            answer::Refused::Final(what) => TryError::Final(self.invalid(&what)),
            answer::Refused::Again(None, what) | answer::Refused::StartOver(what) => {
                TryError::Again(self.says(&what))
            }
            answer::Refused::Again(Some(wait), what) => TryError::Later(wait, self.says(&what)),
        }
    }

    fn cannot_keep(&self, error: &std::io::Error) -> StepError {
        let is_full = matches!(
            error.kind(),
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded
        );
        if is_full && self.grant.size_bytes.is_none() {
            // Nobody said how large it is: that is not the device's fault.
            return self.no_room();
        }
        StepError::device("the input cannot be kept", error)
    }

    fn invalid(&self, what: &str) -> StepError {
        StepError::failed(INVALID, self.says(what))
    }

    fn failed(&self, what: &str) -> StepError {
        StepError::failed(CODE, self.says(what))
    }

    fn says(&self, problem: &str) -> String {
        self.what.says(&self.grant.name, problem)
    }
}

impl What<'_> {
    /// A problem of it, as a part of the input of this name.
    pub(super) fn says(self, input: &str, problem: &str) -> String {
        match self {
            Self::Input => format!("input {input:?}: {problem}"),
            Self::Manifest => format!("input {input:?}, its manifest: {problem}"),
            Self::BundleFile(path) => format!("input {input:?}, file {path:?}: {problem}"),
        }
    }

    /// What says of it how large it is, and its digest.
    fn promised_by(self) -> &'static str {
        match self {
            Self::Input | Self::Manifest => "the order",
            Self::BundleFile(_) => "the manifest",
        }
    }

    /// The limit that it is above when it is larger than anybody takes it.
    fn limit(self) -> &'static str {
        match self {
            Self::Input | Self::BundleFile(_) => "the most that an input may have here (max_bytes)",
            Self::Manifest => "the most that a manifest may have",
        }
    }
}

/// Whether enough comes.
struct Pace {
    within: Duration,
    until: Moment,
    bytes: u64,
}

impl Pace {
    fn new(within: Duration) -> Self {
        Self {
            within,
            until: clock::now().after(within),
            bytes: 0,
        }
    }

    fn is_kept(&mut self, bytes: u64) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        if clock::now() < self.until {
            return true;
        }
        let is_kept = self.bytes >= SLOWEST_BYTES;
        *self = Self::new(self.within);
        is_kept
    }
}
