//! What HTTP requests ask of the store, asked together by those that come at the same time.
//!
//! Nothing is remembered between batches: every answer was read, or written, after its question was
//! put.

use std::future::Future;

use fencepost_domain::clock::ClockReading;
use fencepost_domain::ids::{DeviceId, JobId, OrgId};
use fencepost_domain::waiting::Waiting;
use fencepost_store::secrets::Credential;
use fencepost_store::tx::place_output::{OutputPlacing, Placed};
use fencepost_store::tx::submit_job::{NewJob, Submitted};
use fencepost_store::views::JobView;

use crate::batch::{Batcher, batch_call};

batch_call! {
    /// `submit_jobs` as a batch.
    SubmitCall = submit_jobs(NewJob) -> Submitted
}

batch_call! {
    /// `place_attempt_outputs` as a batch.
    PlaceCall = place_attempt_outputs(OutputPlacing) -> Placed, about |one| one.attempt
}

batch_call! {
    /// `jobs_by_id` as a batch.
    JobCall = jobs_by_id((OrgId, JobId)) -> Option<JobView>
}

batch_call! {
    /// `waiting` as a batch.
    WaitingCall = waiting((OrgId, String)) -> Option<Waiting>
}

batch_call! {
    /// `orgs_of_keys` as a batch.
    KeyCall = orgs_of_keys(Credential) -> Option<OrgId>
}

batch_call! {
    /// `devices_of_tokens` as a batch.
    DeviceCall = devices_of_tokens(Credential) -> Option<DeviceId>
}

batch_call! {
    /// `clock_for_each` as a batch.
    ClockCall = clock_for_each(()) -> ClockReading
}

/// The ways into the batches. Cheap to clone.
#[derive(Clone)]
pub struct SharedCalls {
    /// Creates jobs.
    pub submit: Batcher<SubmitCall>,
    /// Puts outputs in place.
    pub place: Batcher<PlaceCall>,
    /// Reads jobs, each of its org.
    pub job: Batcher<JobCall>,
    /// Finds out why jobs wait.
    pub waiting: Batcher<WaitingCall>,
    /// Finds the orgs of API keys.
    pub key: Batcher<KeyCall>,
    /// Finds the devices of device tokens.
    pub device: Batcher<DeviceCall>,
    /// Reads Postgres's clock.
    pub clock: Batcher<ClockCall>,
}
