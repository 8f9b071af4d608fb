//! What follows from a try.

use std::time::Duration;

use fencepost_domain::text::clean;
use fencepost_domain::webhook::{Failing, Verdict, judge, retry_after};
use time::OffsetDateTime;

use super::rows::{Delivery, Endpoint, Write};
use super::{Recorded, Sent, Try};
use crate::tx::webhooks::disable::Reason;

const MAX_TEXT_BYTES: usize = 1_000;
/// When a delivery is looked at again that trouble of ours kept from being sent.
const OUR_TROUBLE: Duration = Duration::from_mins(1);

impl Try {
    /// What follows, and what it makes of the endpoint.
    pub(super) fn judge(
        &self,
        delivery: &Delivery,
        endpoint: &mut Endpoint,
        now: OffsetDateTime,
    ) -> (Write, Recorded) {
        let (status, retry, error, answer) = match &self.sent {
            Sent::Answered {
                status,
                retry_after,
                body,
            } => (Some(*status), *retry_after, None, Some(body.as_str())),
            Sent::Failed(error) => (None, None, Some(error.as_str()), None),
            Sent::NotSent => (None, None, None, None),
        };
        let (outcome, wait) = if self.sent == Sent::NotSent {
            (Recorded::NotSent, Some(OUR_TROUBLE))
        } else {
            self.follow(judge(status, retry), delivery, endpoint, now)
        };
        let state = match outcome {
            Recorded::Succeeded => "succeeded",
            Recorded::Exhausted => "failed",
            _ if !endpoint.enabled || endpoint.hopeless.is_some() => "held",
            _ => "pending",
        };
        let write = Write {
            endpoint_id: self.endpoint.0,
            event_id: self.event.0,
            claim: self.claim,
            state,
            wait_micros: wait
                .filter(|_| state == "pending")
                .map(|wait| i64::try_from(wait.as_micros()).unwrap_or(i64::MAX)),
            outcome: (outcome != Recorded::NotSent).then_some(outcome.as_str()),
            status,
            error: error.map(|text| clean(text, MAX_TEXT_BYTES)),
            answer: answer.map(|text| clean(text, MAX_TEXT_BYTES)),
            duration_ms: i32::try_from(self.took.as_millis()).unwrap_or(i32::MAX),
        };
        (write, outcome)
    }

    fn follow(
        &self,
        verdict: Verdict,
        delivery: &Delivery,
        endpoint: &mut Endpoint,
        now: OffsetDateTime,
    ) -> (Recorded, Option<Duration>) {
        let asked = match verdict {
            Verdict::Accepted => {
                endpoint.is_changed |= endpoint.failing.is_some();
                endpoint.failing = None;
                return (Recorded::Succeeded, None);
            }
            Verdict::Gone => {
                if endpoint.enabled && endpoint.hopeless.is_none() {
                    endpoint.hopeless = Some(Reason::Gone);
                    return (Recorded::Disabled, None);
                }
                return (Recorded::Held, None);
            }
            Verdict::Failed { wait, rest } => {
                let failing = Failing::again(endpoint.failing, now);
                endpoint.failing = Some(failing);
                endpoint.is_changed = true;
                endpoint.rest_until = endpoint.rest_until.max(rest.map(|rest| now + rest));
                if endpoint.enabled && failing.is_hopeless() && endpoint.hopeless.is_none() {
                    endpoint.hopeless = Some(Reason::Failing);
                    return (Recorded::Disabled, None);
                }
                wait
            }
        };
        if !endpoint.enabled || endpoint.hopeless.is_some() {
            return (Recorded::Held, None);
        }
        let tries = u32::try_from(delivery.round_tries + 1).unwrap_or(u32::MAX);
        match retry_after(tries, self.chance(delivery.tries)) {
            Some(wait) => (Recorded::Retried, Some(wait.max(asked.unwrap_or_default()))),
            None => (Recorded::Exhausted, None),
        }
    }

    /// A number that nobody chose, and the same in another run of this transaction.
    fn chance(&self, tries: i32) -> u64 {
        let ((_, event), (_, endpoint)) =
            (self.event.0.as_u64_pair(), self.endpoint.0.as_u64_pair());
        let step = u64::from(tries.unsigned_abs()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (event ^ endpoint).wrapping_add(step)
    }
}
