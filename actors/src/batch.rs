//! Group commit: while one transaction runs, what arrives is gathered for the next.
//!
//! Under load this turns a hundred renewals into one transaction; when it is quiet, a batch is one
//! request and nothing waits for company. A failed batch is repeated one by one, so that nobody's
//! trouble reaches another; but not where it is not known whether it failed.

use std::collections::HashSet;
use std::future::Future;

use fencepost_domain::ids::AttemptId;
use fencepost_store::StoreError;
use tokio::sync::{mpsc, oneshot};

const MAX_BATCH: usize = 200;
const MAX_WAITING: usize = 4096;

/// A store call that takes many and answers each, in order.
pub trait BatchCall: Send + Sync + 'static {
    /// One request.
    type Request: Clone + Send + 'static;
    /// Its answer.
    type Answer: Send + 'static;
    /// What a request is about, if that matters. Two about the same attempt never share a batch: the
    /// second must see what the first wrote.
    fn subject(request: &Self::Request) -> Option<AttemptId>;
    /// Answers `requests`, as many and in order.
    fn call(
        &self,
        requests: Vec<Self::Request>,
    ) -> impl Future<Output = Result<Vec<Self::Answer>, StoreError>> + Send;
}

/// Declares a store call that takes many as a [`BatchCall`]; without `about`, any two may share a
/// batch.
macro_rules! batch_call {
    ($(#[$doc:meta])* $name:ident = $call:ident($request:ty) -> $answer:ty) => {
        $crate::batch::batch_call! { @ $(#[$doc])* $name = $call($request) -> $answer, |_| None }
    };
    ($(#[$doc:meta])* $name:ident = $call:ident($request:ty) -> $answer:ty, about $subject:expr) => {
        $crate::batch::batch_call! {
            @ $(#[$doc])* $name = $call($request) -> $answer,
            |request| {
                let subject: fn(&$request) -> fencepost_domain::ids::AttemptId = $subject;
                Some(subject(request))
            }
        }
    };
    (@ $(#[$doc:meta])* $name:ident = $call:ident($request:ty) -> $answer:ty, $subject:expr) => {
        $(#[$doc])*
        pub struct $name(pub fencepost_store::Store);

        impl $crate::batch::BatchCall for $name {
            type Request = $request;
            type Answer = $answer;
            fn subject(request: &$request) -> Option<fencepost_domain::ids::AttemptId> {
                let subject: fn(&$request) -> Option<fencepost_domain::ids::AttemptId> = $subject;
                subject(request)
            }
            fn call(
                &self,
                requests: Vec<$request>,
            ) -> impl Future<Output = Result<Vec<$answer>, fencepost_store::StoreError>> + Send
            {
                self.0.$call(requests)
            }
        }
    };
}
pub(crate) use batch_call;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// Too much is waiting already.
    #[error("too many requests are waiting")]
    Full,
    /// The store could not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The batcher is gone.
    #[error("the gateway is going down")]
    Gone,
}

/// The way into a batcher. Cheap to clone.
pub struct Batcher<C: BatchCall> {
    sender: mpsc::Sender<Waiting<C>>,
}

impl<C: BatchCall> Clone for Batcher<C> {
    fn clone(&self) -> Self {
        Self {
            sender: self.sender.clone(),
        }
    }
}

struct Waiting<C: BatchCall> {
    request: C::Request,
    answer: oneshot::Sender<Result<C::Answer, StoreError>>,
}

impl<C: BatchCall> Batcher<C> {
    /// A batcher and the future that does its work, to be run until the last handle is dropped.
    pub fn new(call: C) -> (Self, impl Future<Output = ()> + Send) {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        (Self { sender }, work(call, receiver))
    }

    /// Has a request answered together with others.
    ///
    /// The request is queued when this is *called*, not when the future is first polled, so that
    /// requests take effect in the order in which they were made.
    pub fn call(
        &self,
        request: C::Request,
    ) -> impl Future<Output = Result<C::Answer, BatchError>> + Send + 'static {
        let (answer, receiver) = oneshot::channel();
        let queued = self.sender.try_send(Waiting { request, answer });
        async move {
            match queued {
                Ok(()) => {}
                Err(mpsc::error::TrySendError::Full(_)) => return Err(BatchError::Full),
                Err(mpsc::error::TrySendError::Closed(_)) => return Err(BatchError::Gone),
            }
            receiver
                .await
                .map_err(|_| BatchError::Gone)?
                .map_err(BatchError::from)
        }
    }
}

async fn work<C: BatchCall>(call: C, mut receiver: mpsc::Receiver<Waiting<C>>) {
    let mut gathered = Vec::with_capacity(MAX_BATCH);
    while receiver.recv_many(&mut gathered, MAX_BATCH).await > 0 {
        while !gathered.is_empty() {
            let (batch, later) = distinct(std::mem::take(&mut gathered));
            answer_all(&call, batch).await;
            gathered = later;
        }
    }
}

/// The first request about each subject, and the rest, both in order.
fn distinct<C: BatchCall>(gathered: Vec<Waiting<C>>) -> (Vec<Waiting<C>>, Vec<Waiting<C>>) {
    let mut seen = HashSet::new();
    gathered.into_iter().partition(|waiting| {
        C::subject(&waiting.request).is_none_or(|subject| seen.insert(subject))
    })
}

async fn answer_all<C: BatchCall>(call: &C, mut batch: Vec<Waiting<C>>) {
    let requests = batch
        .iter()
        .map(|waiting| waiting.request.clone())
        .collect();
    match call.call(requests).await {
        Ok(answers) => {
            for (waiting, answer) in batch.into_iter().zip(answers) {
                // Whoever asked may be gone; what was written stays written.
                let _ = waiting.answer.send(Ok(answer));
            }
        }
        Err(error) if batch.len() == 1 => {
            tracing::warn!(%error, "a store call failed");
            if let Some(waiting) = batch.pop() {
                let _ = waiting.answer.send(Err(error));
            }
        }
        Err(StoreError::Unavailable(why)) => {
            // It may have been committed. The store, which knows that it asks again, has asked long
            // enough; whoever asked here anew would take what they wrote for somebody else's.
            tracing::warn!(why, "it is not known what became of a batch");
            for waiting in batch {
                let _ = waiting
                    .answer
                    .send(Err(StoreError::Unavailable(why.clone())));
            }
        }
        Err(error) => {
            tracing::warn!(%error, "a batch failed and is repeated one by one");
            for waiting in batch {
                Box::pin(answer_all(call, vec![waiting])).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Whether the database is away, or does not like one of the requests, which is 13.
    struct Trouble {
        is_away: bool,
        sizes: Mutex<Vec<usize>>,
    }

    impl BatchCall for &'static Trouble {
        type Request = u32;
        type Answer = u32;

        fn subject(_: &u32) -> Option<AttemptId> {
            None
        }

        async fn call(&self, requests: Vec<u32>) -> Result<Vec<u32>, StoreError> {
            self.sizes.lock().unwrap().push(requests.len());
            match requests.contains(&13) {
                _ if self.is_away => Err(StoreError::Unavailable("it is away".to_owned())),
                true => Err(StoreError::Inconsistency {
                    table: "jobs",
                    what: "13".to_owned(),
                }),
                false => Ok(requests),
            }
        }
    }

    /// What three requests at once are answered, and in what batches they were asked.
    async fn asked(is_away: bool) -> (Vec<Result<u32, BatchError>>, Vec<usize>) {
        let sizes = Mutex::default();
        let trouble: &Trouble = Box::leak(Box::new(Trouble { is_away, sizes }));
        let (batcher, work) = Batcher::new(trouble);
        let answers = [1, 13, 3].map(|request| batcher.call(request));
        drop(batcher);
        let (answers, ()) = tokio::join!(futures_util::future::join_all(answers), work);
        (answers, trouble.sizes.lock().unwrap().clone())
    }

    #[tokio::test]
    async fn nobodys_trouble_reaches_another() {
        let (answers, sizes) = asked(false).await;
        assert!(matches!(answers[..], [Ok(1), Err(_), Ok(3)]), "{answers:?}");
        assert_eq!(sizes, [3, 1, 1, 1]);
    }

    #[tokio::test]
    async fn what_may_have_been_committed_is_not_asked_as_if_it_were_new() {
        let (answers, sizes) = asked(true).await;
        for answer in &answers {
            let is_unknown = matches!(answer, Err(BatchError::Store(StoreError::Unavailable(_))));
            assert!(is_unknown, "{answer:?}");
        }
        assert_eq!(sizes, [3]);
    }
}
