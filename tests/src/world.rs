//! The world that a test begins with, in a few lines: an org with credit, a provider, devices, jobs,
//! and leases in the state that the test is about. The clock stands still until a test moves it.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
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
use fencepost_store::tx::begin_verification::{CommitAnswer, CommitRequest, VerificationTicket};
use fencepost_store::tx::cancel_job::Cancelled;
use fencepost_store::tx::end_by_agent::{AgentEnd, AgentEndAnswer};
use fencepost_store::tx::expire_due::SweepReport;
use fencepost_store::tx::hand_off::{HandOff, HandOffAnswer};
use fencepost_store::tx::lease_round::Cursor;
use fencepost_store::tx::place_output::Placed;
use fencepost_store::tx::record_progress::ProgressAnswer;
use fencepost_store::tx::settle_commit::Settled;
use fencepost_store::tx::submit_job::{NewJob, Priority, Submitted};
use fencepost_store::tx::write_artifacts::NewArtifact;
use fencepost_store::tx::write_events::{JournalAnswer, NewEvent};
use fencepost_store::{FinalizedAttempt, Store, StoreSettings};
use serde_json::json;

use crate::clock::Clock;
use crate::db::TestDb;
pub use crate::lease::settlement;
use crate::lease::{Device, Lease};

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
            inputs: vec![("source".to_owned(), upload)],
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

    /// One round for one device: what it gets for `slots_free` free slots.
    pub async fn pull(&self, device: &Device, slots_free: u32) -> Vec<Lease> {
        let pulls = vec![device.pull(slots_free)];
        let round = self.store.lease_round(pulls, Cursor::default()).await;
        round
            .expect("a round runs")
            .leased
            .into_iter()
            .map(Lease)
            .collect()
    }

    /// The next lease of a device, which there must be.
    pub async fn lease(&self, device: &Device) -> Lease {
        self.pull(device, 1)
            .await
            .pop()
            .expect("there is a job for the device")
    }

    /// Records an agent's progress.
    pub async fn progress(&self, lease: &Lease, phase: Phase) -> ProgressAnswer {
        let progress = vec![lease.progress(phase)];
        let mut answers = self
            .store
            .record_progress(progress)
            .await
            .expect("progress runs");
        answers.pop().expect("one question, one answer")
    }

    /// A new job, leased and accepted, in a phase.
    pub async fn in_phase(&self, device: &Device, phase: Phase) -> Lease {
        self.in_phase_with(device, phase, |_| {}).await
    }

    /// The same for a job that differs from the usual one.
    pub async fn in_phase_with(
        &self,
        device: &Device,
        phase: Phase,
        change: impl FnOnce(&mut NewJob),
    ) -> Lease {
        let job = self.submit_with(change).await;
        let lease = self.lease(device).await;
        assert_eq!(lease.job, job, "another job waited before this one");
        let answer = self.progress(&lease, phase).await;
        assert!(matches!(answer, ProgressAnswer::Renewed(_)), "{answer:?}");
        lease
    }

    /// Presents a commit.
    pub async fn commit(&self, lease: &Lease) -> CommitAnswer {
        commit_on(&self.store, lease.commit()).await
    }

    /// Presents a commit that must be accepted.
    pub async fn begin_verification(&self, lease: &Lease) -> VerificationTicket {
        match self.commit(lease).await {
            CommitAnswer::Verify(ticket) => *ticket,
            other => panic!("the commit was not accepted: {other:?}"),
        }
    }

    /// Settles a verdict.
    pub async fn settle(&self, ticket: &VerificationTicket, verdict: Verdict) -> Settled {
        let settle = settlement(ticket, verdict);
        let mut settled = self
            .store
            .settle_commit(vec![settle])
            .await
            .expect("settling runs");
        settled.pop().expect("one question, one answer")
    }

    /// Commits and verifies what is uploading: its job succeeds with half a minute of output.
    pub async fn win(&self, lease: &Lease) -> FinalizedAttempt {
        let ticket = self.begin_verification(lease).await;
        match self.settle(&ticket, good(30.0)).await {
            Settled::Final(end) => end,
            other => panic!("the verdict did not settle it: {other:?}"),
        }
    }

    /// Writes an event.
    pub async fn event(&self, event: &NewEvent) -> JournalAnswer {
        let mut answers = self
            .store
            .write_events(vec![event.clone()])
            .await
            .expect("writing runs");
        answers.pop().expect("one question, one answer")
    }

    /// An object for an artifact of the lease's attempt.
    pub async fn grant_artifact(&self, lease: &Lease, name: &str) -> String {
        let granted = self.store.grant_artifact(lease.claim(), name).await;
        let granted = granted.expect("granting runs").expect("it holds the lease");
        granted.artifact_key.expect("an artifact was asked for")
    }

    /// Names an artifact.
    pub async fn artifact(&self, artifact: &NewArtifact) -> JournalAnswer {
        let mut answers = self
            .store
            .write_artifacts(vec![artifact.clone()])
            .await
            .expect("writing runs");
        answers.pop().expect("one question, one answer")
    }

    /// Hands a workspace over.
    pub async fn hand_off(&self, hand_off: &HandOff) -> HandOffAnswer {
        let mut answers = self
            .store
            .hand_off(vec![hand_off.clone()])
            .await
            .expect("handing over runs");
        answers.pop().expect("one question, one answer")
    }

    /// What the devices are told to reap.
    pub async fn reaps(&self, devices: &[&Device]) -> Vec<String> {
        let connected = devices.iter().map(|mac| (mac.id, mac.session)).collect();
        let reaps = self.store.claim_reaps(connected, 100).await;
        let reaps = reaps.expect("claiming runs").into_iter();
        reaps.map(|reap| reap.handle).collect()
    }

    /// Ends an attempt as its agent says.
    pub async fn end(&self, end: AgentEnd) -> AgentEndAnswer {
        let mut answers = self
            .store
            .end_by_agent(vec![end])
            .await
            .expect("ending runs");
        answers.pop().expect("one question, one answer")
    }

    /// The buyer cancels a job, which exists.
    pub async fn cancel(&self, job: JobId) -> Cancelled {
        let cancelled = self
            .store
            .cancel_job(self.org, job)
            .await
            .expect("cancelling runs");
        cancelled.expect("the job exists")
    }

    /// One sweep of attempts and of the queue.
    pub async fn sweep(&self) -> SweepReport {
        let report = self
            .store
            .expire_due(100, &SERVICES)
            .await
            .expect("a sweep runs");
        self.store.tend_queue(100).await.expect("a sweep runs");
        report
    }

    /// Lets the lease of an attempt run out, and sweeps.
    pub async fn expire(&self, lease: &Lease) {
        self.clock.advance(TTL).await;
        let report = self.sweep().await;
        let mut ended = report.ended.iter();
        assert!(
            ended.any(|end| end.attempt() == lease.attempt),
            "it did not expire"
        );
    }
}

impl World {
    /// Moves the clock's mark up to the clock, as a gateway does.
    pub async fn mark(&self) {
        let reading = self.store.read_clock().await.expect("the clock is read");
        let advanced = self.store.advance_mark(reading).await;
        advanced.expect("the mark is moved");
    }

    /// The clock goes ahead, takes its mark with it, and comes back: it is behind by so much.
    pub async fn regress(&self, by: Duration) {
        self.clock.advance(by).await;
        self.mark().await;
        self.clock.go_back(by).await;
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
