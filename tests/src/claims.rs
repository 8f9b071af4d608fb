//! Leases that are claimed outside a session, at the store.

use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::ids::RequestId;
use fencepost_store::Store;
use fencepost_store::tx::claim_lease::{ClaimAnswer, LeaseRequest};
use fencepost_store::tx::end_by_agent::{AgentEnd, AgentEndAnswer, AgentEndKind};
use fencepost_store::tx::lease_round::Cursor;
use fencepost_store::tx::record_progress::{Progress, ProgressAnswer};
use fencepost_store::tx::{Asked, RequestKey};

use crate::lease::{Device, Lease};
use crate::world::World;

/// A claim of a device for what its agent said that it can do.
pub fn claim_of(device: &Device, id: RequestId) -> LeaseRequest {
    LeaseRequest {
        device: device.id,
        token: device.token.clone(),
        id,
        capabilities: None,
        slots: 1,
    }
}

/// Asks a store for a lease.
pub async fn claim_on(store: &Store, request: LeaseRequest) -> Asked<ClaimAnswer> {
    let asked = store.claim_lease(request, Cursor::default()).await;
    asked.expect("a claim runs").0
}

/// A request that means its attempt, its epoch and some content.
pub fn key(lease: &Lease, operation: &'static str, id: RequestId, content: &str) -> RequestKey {
    let attempt = lease.attempt.to_string();
    let epoch = lease.epoch.to_string();
    let parts = [attempt.as_bytes(), epoch.as_bytes(), content.as_bytes()];
    RequestKey::new(lease.device, operation, id, &parts)
}

impl World {
    /// What a claim of a device is answered.
    pub async fn ask(&self, device: &Device, id: RequestId) -> Asked<ClaimAnswer> {
        claim_on(&self.store, claim_of(device, id)).await
    }

    /// A lease that a device claims, which there must be.
    pub async fn claim(&self, device: &Device) -> Lease {
        self.claim_as(device, RequestId::new()).await
    }

    /// The same by a request of this id.
    pub async fn claim_as(&self, device: &Device, id: RequestId) -> Lease {
        match self.ask(device, id).await {
            Asked::First(ClaimAnswer::Leased(lease)) => Lease(*lease),
            other => panic!("nothing was claimed: {other:?}"),
        }
    }

    /// Progress under a request's id.
    pub async fn progress_once(
        &self,
        id: RequestId,
        lease: &Lease,
        progress: Progress,
    ) -> Asked<ProgressAnswer> {
        let content = format!("{:?}", progress.phase);
        let key = key(lease, "progress", id, &content);
        let asked = self.store.record_progress_once(key, progress).await;
        asked.expect("progress runs")
    }

    /// A renewal to so many seconds, or to a whole lease.
    pub async fn renew(&self, lease: &Lease, seconds: Option<i64>) -> ProgressAnswer {
        let length = seconds.map(LeaseDuration::seconds);
        let key = key(lease, "renew", RequestId::new(), "");
        let asked = self.store.renew_lease(key, lease.claim(), length).await;
        match asked.expect("a renewal runs") {
            Asked::First(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    /// Gives a claim back by its request's id.
    pub async fn give_back(&self, lease: &Lease, claim_request: RequestId) -> AgentEndAnswer {
        let kind = AgentEndKind::GiveBack {
            claim_request,
            reason: "the answer was lost".to_owned(),
        };
        let claim = lease.claim();
        self.end(AgentEnd { claim, kind }).await
    }
}
