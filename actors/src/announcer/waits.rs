//! Why watched jobs wait: asked for all of them together, and seldom, since the answer is about devices.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use fencepost_domain::ids::OrgId;
use fencepost_domain::waiting::Waiting;
use fencepost_store::views::JobNews;
use fencepost_store::{Store, StoreError};

/// How long an answer is good for.
const GOOD_FOR: Duration = Duration::from_secs(2);

/// What is known of why jobs wait.
#[derive(Debug, Default)]
pub(super) struct Waits {
    known: HashMap<(OrgId, String), Option<Waiting>>,
    asked_at: Option<Instant>,
}

impl Waits {
    /// Says of each job that could be leased why it is not.
    pub(super) async fn explain(
        &mut self,
        store: &Store,
        news: &mut [Option<JobNews>],
    ) -> Result<(), StoreError> {
        let lanes: BTreeSet<_> = news.iter().flatten().filter_map(lane_of).collect();
        let is_old = self.asked_at.is_none_or(|at| at.elapsed() > GOOD_FOR);
        let is_known = lanes.iter().all(|lane| self.known.contains_key(lane));
        if !lanes.is_empty() && (is_old || !is_known) {
            let lanes: Vec<_> = lanes.into_iter().collect();
            let why = store.waiting(lanes.clone()).await?;
            self.known = lanes.into_iter().zip(why).collect();
            self.asked_at = Some(Instant::now());
        }
        for one in news.iter_mut().flatten() {
            let why = lane_of(one).and_then(|lane| self.known.get(&lane));
            one.state.waits = why.cloned().flatten();
        }
        Ok(())
    }
}

fn lane_of(news: &JobNews) -> Option<(OrgId, String)> {
    Some((news.org, news.ready_lane.clone()?))
}
