//! Offers and the links in them.

use fencepost_domain::fencing::{LeaseClaim, Operation};
use fencepost_domain::ids::AttemptId;
use fencepost_domain::journal::{MAX_ARTIFACT_BYTES, MAX_ARTIFACTS, check_artifact_name, is_full};
use fencepost_protocol::{Code, GatewayFrame, InputGrant, LeaseOffer, Limits, OutputGrant};
use fencepost_store::Store;
use fencepost_store::artifacts::{Bucket, Direction, Grant, Holder, Links};
use fencepost_store::tx::Refusal;
use fencepost_store::tx::grant_objects::Granted;
use fencepost_store::tx::lease_round::LeasedAttempt;
use fencepost_store::vault::Vault;
use time::OffsetDateTime;

use super::answers::{millis, refused, rejected, trouble};
use super::inputs::StoredInput;

/// Signs what an attempt may read and write.
#[derive(Debug, Clone)]
pub struct OfferLinks {
    links: Links,
    vault: Vault,
    max_bytes: u64,
}

impl OfferLinks {
    /// Links as `links` makes them, addresses as `vault` opens them; outputs of at most `max_bytes`, and
    /// as much of an input that is elsewhere.
    pub fn new(links: Links, vault: Vault, max_bytes: u64) -> Self {
        Self {
            links,
            vault,
            max_bytes,
        }
    }

    pub(super) fn bucket(&self) -> Option<&Bucket> {
        self.links.bucket()
    }

    /// The frame that hands a lease over.
    pub(super) fn offer(&self, leased: &LeasedAttempt) -> LeaseOffer {
        let until = leased.grant_expires_at;
        let inputs = StoredInput::all_of(&leased.inputs).into_iter();
        let inputs = inputs.map(|input| self.input(input, leased));
        LeaseOffer {
            job_id: leased.job,
            attempt_id: leased.attempt,
            attempt_number: leased.attempt_number,
            lease_epoch: leased.epoch,
            commit_token: leased.token.clone(),
            lease_expires_at: leased.expires_at,
            lease_remaining_ms: millis(leased.remaining),
            service: leased.service.clone(),
            params: leased.params.clone(),
            inputs: inputs.collect(),
            output: OutputGrant {
                url: self.put_output(&leased.output_key, leased.attempt, until),
                object_key: leased.output_key.clone(),
                max_bytes: self.max_bytes,
                parts_above: self.links.bucket().map(Bucket::part_bytes),
            },
            limits: Limits {
                max_output_seconds: leased.max_output_seconds,
                max_run_seconds: leased.max_run.as_secs(),
            },
            traceparent: None,
        }
    }

    fn input(&self, input: StoredInput, leased: &LeasedAttempt) -> InputGrant {
        match input {
            StoredInput::Upload(upload) => {
                let url = self.get(&upload.object_key, leased.attempt, leased.grant_expires_at);
                upload.grant(url)
            }
            StoredInput::Elsewhere(elsewhere) => {
                elsewhere.grant(leased.job, &self.vault, self.max_bytes)
            }
        }
    }

    /// A new link for an object of a live lease.
    pub(super) async fn regrant(
        &self,
        store: &Store,
        claim: LeaseClaim,
        name: &str,
        direction: &str,
    ) -> GatewayFrame {
        let granted = match Self::artifact_asked(name, direction) {
            Err(frame) => return *frame,
            Ok(None) => store.grant_objects(claim).await,
            Ok(Some(artifact)) => store.grant_artifact(claim, &artifact).await,
        };
        match granted {
            Ok(granted) => self.granted(claim, name, direction, granted),
            Err(_) => trouble(),
        }
    }

    /// The name of the artifact that a link is asked for; `None` for an input or the output.
    pub(super) fn artifact_asked(
        name: &str,
        direction: &str,
    ) -> Result<Option<String>, Box<GatewayFrame>> {
        let refuse = |what: &str| Box::new(rejected(Code::InvalidRequest, Some(what)));
        match direction {
            "get" => Ok(None),
            "put" if name == "output" => Ok(None),
            "put" => match check_artifact_name(name) {
                Ok(()) => Ok(Some(name.to_owned())),
                Err(problem) => Err(refuse(&problem.to_string())),
            },
            _ => Err(refuse(
                "direction: get with an input's name, or put with the name output or an artifact's",
            )),
        }
    }

    /// The link to what was granted.
    pub(super) fn granted(
        &self,
        claim: LeaseClaim,
        name: &str,
        direction: &str,
        granted: Result<Granted, Refusal>,
    ) -> GatewayFrame {
        let granted = match granted {
            Ok(granted) => granted,
            Err(Refusal::TooManyObjects) => {
                let full = is_full("artifacts", MAX_ARTIFACTS).to_string();
                return rejected(Code::InvalidRequest, Some(&full));
            }
            Err(Refusal::UngrantedObject) => {
                let what = "name: an input cannot be written; choose another name for an artifact";
                return rejected(Code::InvalidRequest, Some(what));
            }
            Err(refusal) => return refused(Operation::Grant, refusal),
        };
        let until = granted.expires_at;
        if direction == "get" {
            let mut inputs = StoredInput::all_of(&granted.inputs).into_iter();
            return match inputs.find(|input| input.name() == name) {
                Some(StoredInput::Upload(upload)) => GatewayFrame::Granted {
                    url: self.get(&upload.object_key, claim.attempt, until),
                    object_key: upload.object_key,
                    parts: None,
                },
                Some(StoredInput::Elsewhere(_)) => rejected(
                    Code::InvalidRequest,
                    Some(
                        "name: this input is on the buyer's host; there are no links of ours to it",
                    ),
                ),
                None => rejected(
                    Code::InvalidRequest,
                    Some("name: the job has no such input"),
                ),
            };
        }
        match granted.artifact_key {
            Some(object_key) => GatewayFrame::Granted {
                url: self.put(&object_key, claim.attempt, until, MAX_ARTIFACT_BYTES),
                object_key,
                parts: None,
            },
            None => GatewayFrame::Granted {
                url: self.put_output(&granted.output_key, claim.attempt, until),
                object_key: granted.output_key,
                parts: None,
            },
        }
    }

    fn get(&self, key: &str, attempt: AttemptId, until: OffsetDateTime) -> String {
        self.sign(key, attempt, until, (Direction::Get, 0))
    }

    fn put_output(&self, key: &str, attempt: AttemptId, until: OffsetDateTime) -> String {
        self.put(key, attempt, until, self.max_bytes)
    }

    fn put(&self, key: &str, attempt: AttemptId, until: OffsetDateTime, most: u64) -> String {
        let most = most.min(self.max_bytes);
        self.sign(key, attempt, until, (Direction::Put, most))
    }

    fn sign(
        &self,
        key: &str,
        attempt: AttemptId,
        until: OffsetDateTime,
        (direction, max_bytes): (Direction, u64),
    ) -> String {
        let micros = until.unix_timestamp_nanos() / 1_000;
        self.links.sign(&Grant {
            key: key.to_owned(),
            direction,
            expires_at_micros: i64::try_from(micros).unwrap_or(i64::MAX),
            max_bytes,
            holder: Holder::Attempt(attempt),
            file_name: None,
        })
    }
}
