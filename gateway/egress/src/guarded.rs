//! A client whose connections go only to addresses that were judged.

use std::error::Error as _;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use reqwest::dns::{Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder};
use url::Url;

use crate::guard::{Guard, Refused, in_clear};

const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// Nobody has that much to say about an answer.
const MAX_HEADERS: usize = 100;

/// Sends requests through a [`Guard`]. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Guarded {
    guard: Guard,
    https: Client,
    http: Client,
}

/// How much of a request's end is waited for and read.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// For everything: finding the address, connecting, sending, and reading the answer.
    pub total: Duration,
    /// The most bytes of the answer's body that are read.
    pub body_bytes: usize,
}

/// What the other side said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// `Retry-After` as it came.
    pub retry_after: Option<String>,
    /// The body, or its beginning.
    pub body: Vec<u8>,
}

/// Why there was no answer. Holds no address, which may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failed {
    /// The guard refused.
    #[error("the address {0}")]
    Refused(#[from] Refused),
    /// Not all of the answer came in time.
    #[error("no complete answer came within {0} s")]
    TooLate(u64),
    /// The connection could not be made, or broke.
    #[error("{0}")]
    Broken(String),
}

/// Resolves names for the client: it connects to what the guard has judged, and to nothing else.
struct Judged {
    guard: Guard,
    in_clear: bool,
}

impl Resolve for Judged {
    fn resolve(&self, name: Name) -> Resolving {
        let (guard, in_clear) = (self.guard.clone(), self.in_clear);
        async move {
            let found = guard.addresses(name.as_str(), in_clear).await?;
            // The port is the URL's.
            let found = found.into_iter().map(|ip| SocketAddr::new(ip, 0));
            Ok(Box::new(found.collect::<Vec<_>>().into_iter()) as _)
        }
        .boxed()
    }
}

impl Guarded {
    /// A client that goes where `guard` lets it.
    ///
    /// # Errors
    /// If this machine has no TLS to speak of.
    pub fn new(guard: Guard, user_agent: &str) -> Result<Self, reqwest::Error> {
        let build = |in_clear| {
            let resolver = Judged {
                guard: guard.clone(),
                in_clear,
            };
            Client::builder()
                .user_agent(user_agent)
                .redirect(Policy::none())
                // A proxy would look names up itself.
                .no_proxy()
                .dns_resolver(std::sync::Arc::new(resolver))
                // A connection that is kept was judged long ago.
                .pool_max_idle_per_host(0)
                .connect_timeout(CONNECT_WITHIN)
                .http1_only()
                .http1_max_headers(MAX_HEADERS)
                .build()
        };
        Ok(Self {
            https: build(false)?,
            http: build(true)?,
            guard,
        })
    }

    /// The guard.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Begins a request.
    ///
    /// # Errors
    /// If the address may not be used by its form alone; its name is judged when it is sent.
    pub fn request(&self, method: Method, url: &Url) -> Result<RequestBuilder, Refused> {
        self.guard.judge_form(url)?;
        let client = if in_clear(url) {
            &self.http
        } else {
            &self.https
        };
        Ok(client.request(method, url.clone()))
    }

    /// POSTs `body` and reads the answer within the limits.
    ///
    /// # Errors
    /// If there was no answer in time, or none at all.
    pub async fn post(
        &self,
        url: &Url,
        headers: &[(&'static str, String)],
        body: impl Into<Bytes>,
        limits: Limits,
    ) -> Result<Answer, Failed> {
        let mut request = self.request(Method::POST, url)?.body(body.into());
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let asking = ask(request, limits.body_bytes);
        match tokio::time::timeout(limits.total, asking).await {
            Ok(answer) => answer,
            Err(_) => Err(Failed::TooLate(limits.total.as_secs())),
        }
    }
}

async fn ask(request: RequestBuilder, body_bytes: usize) -> Result<Answer, Failed> {
    let mut response = request.send().await?;
    let header = response.headers().get(reqwest::header::RETRY_AFTER);
    let retry_after = header.and_then(|value| value.to_str().ok().map(ToOwned::to_owned));
    let mut body = Vec::new();
    while body.len() < body_bytes {
        let Some(chunk) = response.chunk().await? else {
            break;
        };
        let room = body_bytes - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
    }
    Ok(Answer {
        status: response.status().as_u16(),
        retry_after,
        body,
    })
}

/// The causes of an error without the address. What the guard said comes through the client.
impl From<reqwest::Error> for Failed {
    fn from(error: reqwest::Error) -> Self {
        let error = error.without_url();
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            if let Some(refused) = inner.downcast_ref::<Refused>() {
                return Self::Refused(*refused);
            }
            let said = inner.to_string();
            if !text.ends_with(&said) {
                text = format!("{text}: {said}");
            }
            cause = inner.source();
        }
        Self::Broken(text)
    }
}

#[cfg(test)]
#[path = "guarded_tests.rs"]
mod tests;
