//! What agents, buyers and sweeps do in a world, one call each, that is expected to run.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::ids::JobId;
use fencepost_domain::verification::Verdict;
use fencepost_store::FinalizedAttempt;
use fencepost_store::tx::begin_verification::{CommitAnswer, VerificationTicket};
use fencepost_store::tx::cancel_job::Cancelled;
use fencepost_store::tx::end_by_agent::{AgentEnd, AgentEndAnswer};
use fencepost_store::tx::expire_due::SweepReport;
use fencepost_store::tx::hand_off::{HandOff, HandOffAnswer};
use fencepost_store::tx::lease_round::Cursor;
use fencepost_store::tx::record_progress::ProgressAnswer;
use fencepost_store::tx::settle_commit::Settled;
use fencepost_store::tx::submit_job::NewJob;
use fencepost_store::tx::write_artifacts::NewArtifact;
use fencepost_store::tx::write_events::{JournalAnswer, NewEvent};

use crate::lease::{Device, Lease};

use super::{SERVICES, TTL, World, commit_on, good, settlement};
impl World {
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
