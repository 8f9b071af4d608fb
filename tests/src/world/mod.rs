//! The world that a test begins with, in a few lines: an org with credit, a provider, devices, jobs,
//! and leases in the state that the test is about. The clock stands still until a test moves it.

mod steps;

use std::time::Duration;

use fencepost_domain::commit_token::CommitToken;
use fencepost_domain::duration::LeaseDuration;
use fencepost_domain::ids::{
    DeviceId, InstanceId, JobId, OrgId, ProviderId, SessionNumber, UploadId,
};
use fencepost_domain::ledger::PriceTerms;
use fencepost_domain::matcher;
use fencepost_domain::service::{Capability, ServiceName, ServiceParams};
use fencepost_domain::verification::Verdict;
use fencepost_store::admin::NewEnrollment;
use fencepost_store::secrets::Credential;
use fencepost_store::tx::begin_session::{Held, HelloFacts, SessionAnswer};
use fencepost_store::tx::begin_verification::{CommitAnswer, CommitRequest};
use fencepost_store::tx::place_output::Placed;
use fencepost_store::tx::submit_job::{NewInput, NewJob, Priority, Submitted};
use fencepost_store::{Store, StoreSettings};
use serde_json::json;

use crate::clock::Clock;
use crate::db::TestDb;
use crate::lease::Device;
pub use crate::lease::settlement;

/// Credit of the org of a new world, in micros.
pub const CREDIT: i64 = 1_000_000_000;
/// Price of a job of the world: held 6,000 micros, of which one minute of output costs 1,500.
pub const TERMS: PriceTerms = PriceTerms {
    base_micros: 1_000,
    per_minute_micros: 500,
    provider_share_bps: 7_000,
};
/// What is held for a job of the world, in micros.
pub const HELD: i64 = 6_000;
/// Digest of every output that the world commits.
pub const OUTPUT_SHA256: [u8; 32] = [7; 32];
/// The lease of an accepted attempt.
pub const TTL: Duration = Duration::from_mins(1);
/// How long an offer waits.
pub const OFFER: Duration = Duration::from_secs(10);
/// The services that a sweep of the world may verify.
pub const SERVICES: [&str; 1] = ["transcode.v1"];

/// An org with credit, a provider, and a store, on a database of their own.
pub struct World {
    /// The store under test.
    pub store: Store,
    /// Its clock, frozen.
    pub clock: Clock,
    /// The buyer.
    pub org: OrgId,
    /// Who owns the devices.
    pub provider: ProviderId,
    /// The database, checked and deleted when the world ends.
    pub db: TestDb,
}

/// A good verdict on an output of `seconds`.
pub fn good(duration_seconds: f64) -> Verdict {
    Verdict::Good { duration_seconds }
}

/// A token that nobody was given.
pub fn foreign_token() -> CommitToken {
    CommitToken::from_entropy([0xAB; fencepost_domain::commit_token::TOKEN_BYTES])
}

impl World {
    /// A world with the default lengths of time.
    pub async fn new() -> Self {
        Self::with(StoreSettings::default()).await
    }

    /// A world with other lengths of time.
    pub async fn with(settings: StoreSettings) -> Self {
        Self::on(TestDb::new().await, settings).await
    }

    /// A world on a database that was prepared for it.
    pub async fn on(db: TestDb, settings: StoreSettings) -> Self {
        let clock = Clock::new(db.pool.clone());
        clock.freeze().await;
        let store = db.open_store(settings);
        let org = store
            .create_org("acme", None)
            .await
            .expect("an org can be made");
        store
            .add_credit(org, CREDIT)
            .await
            .expect("credit can be added");
        let provider = store
            .create_provider("macs")
            .await
            .expect("a provider can be made");
        Self {
            store,
            clock,
            org,
            provider,
            db,
        }
    }

    /// A device with four slots that can do everything that the world's jobs need.
    pub async fn device(&self, name: &str) -> Device {
        self.device_with(name, 4, &["transcode.v1", "encode.h264"])
            .await
    }

    /// A paired device whose session has begun.
    pub async fn device_with(&self, name: &str, slots: u32, words: &[&str]) -> Device {
        let code = self.enrollment(None).await;
        let paired = self
            .store
            .pair_device(&code, name)
            .await
            .expect("pairing runs");
        let paired = paired.expect("the code is good");
        let mut device = Device {
            id: paired.device,
            token: paired.token,
            session: SessionNumber(0),
            slots,
            words: words.iter().map(|&word| word.to_owned()).collect(),
            instance: InstanceId::new(),
        };
        self.reconnect(&mut device, Vec::new()).await;
        device
    }

    /// A code to pair a new device, or one again.
    pub async fn enrollment(&self, device: Option<DeviceId>) -> Credential {
        let new = NewEnrollment {
            provider: self.provider,
            device,
            own_org: None,
            labels: Vec::new(),
            valid_for: LeaseDuration::seconds(900),
        };
        let code = self
            .store
            .create_enrollment(new)
            .await
            .expect("a code can be made");
        code.expect("the provider exists")
    }

    /// The hello of a device's new session.
    pub fn hello(&self, device: &Device, held: Vec<Held>) -> HelloFacts {
        HelloFacts {
            device: device.id,
            session: device.session,
            instance: device.instance,
            agent_version: "1.0.0".to_owned(),
            slots: device.slots,
            capabilities: device.words.iter().map(Capability::new).collect(),
            held,
        }
    }

    /// Begins a new session of a device.
    pub async fn reconnect(&self, device: &mut Device, held: Vec<Held>) -> SessionAnswer {
        let minted = self
            .store
            .mint_session(&device.token)
            .await
            .expect("minting runs");
        device.session = minted.expect("the token is good").1;
        let hello = self.hello(device, held);
        self.store.begin_session(hello).await.expect("hello runs")
    }

    /// A file of the org, completely stored.
    pub async fn upload(&self) -> UploadId {
        let upload = UploadId::new();
        self.store
            .create_upload(self.org, upload, 1_000_000)
            .await
            .expect("an upload can be made");
        let placed = self
            .store
            .place_upload(upload, 500_000, [1; 32], Box::new(|| Ok(())))
            .await;
        assert_eq!(placed.expect("placing runs"), Placed::Done);
        upload
    }

    /// A transcode to H.264 as the API would make it, of a new upload.
    pub async fn new_job(&self) -> NewJob {
        let upload = self.upload().await;
        self.new_job_of(upload)
    }

    /// A transcode to H.264 of a given upload.
    pub fn new_job_of(&self, upload: UploadId) -> NewJob {
        let params = json!({"codec": "h264"});
        let parsed = ServiceParams::parse(ServiceName::TranscodeV1, &params)
            .expect("these are the smallest parameters there are");
        NewJob {
            id: JobId::new(),
            org: self.org,
            service: ServiceName::TranscodeV1.as_str().to_owned(),
            params,
            inputs: vec![("source".to_owned(), NewInput::Upload(upload))],
            metadata: json!({}),
            lane: matcher::lane(&parsed.requirements()),
            max_attempts: 3,
            deadline: LeaseDuration::seconds(24 * 3_600),
            priority: Priority::Normal,
            max_output_seconds: 600,
            max_run: LeaseDuration::seconds(6 * 3_600),
            terms: TERMS,
            webhook: None,
            idempotency: None,
        }
    }

    /// A queued job.
    pub async fn submit(&self) -> JobId {
        self.submit_with(|_| {}).await
    }

    /// A queued job that differs from the usual one.
    pub async fn submit_with(&self, change: impl FnOnce(&mut NewJob)) -> JobId {
        let mut job = self.new_job().await;
        change(&mut job);
        let id = job.id;
        let submitted = self.store.submit_job(job).await.expect("submitting runs");
        assert!(
            matches!(submitted, Submitted::Queued { .. }),
            "{submitted:?}"
        );
        id
    }

    /// `count` queued jobs of one upload.
    pub async fn submit_many(&self, count: usize) -> Vec<JobId> {
        let upload = self.upload().await;
        let mut jobs = Vec::with_capacity(count);
        for _ in 0..count {
            let job = self.new_job_of(upload);
            jobs.push(job.id);
            self.store.submit_job(job).await.expect("submitting runs");
        }
        jobs
    }
}

/// Presents one commit to one of several stores.
pub async fn commit_on(store: &Store, request: CommitRequest) -> CommitAnswer {
    let mut answers = store
        .begin_verification(vec![request])
        .await
        .expect("commit runs");
    answers.pop().expect("one question, one answer")
}
