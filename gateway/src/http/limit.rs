//! How often an org may ask this gateway: a bucket that fills steadily, and holds a burst.
//!
//! It keeps one buyer's loop from taking the database away from all others; it is no price. Devices
//! are not counted: their leases must not end because of it.

use std::num::NonZeroU32;
use std::time::Duration;

use actix_web::dev::ServiceResponse;
use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use actix_web::{HttpMessage as _, HttpRequest};
use fencepost_domain::ids::OrgId;
use governor::clock::{Clock as _, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::keyed::DefaultKeyedStateStore;
use governor::{Quota, RateLimiter};

use super::problem::{Problem, ProblemCode};

/// How many requests may come at once.
pub const LIMIT: &str = "ratelimit-limit";
/// How many more may come now.
pub const REMAINING: &str = "ratelimit-remaining";
/// Seconds until as many may come as ever.
pub const RESET: &str = "ratelimit-reset";

type Buckets =
    RateLimiter<OrgId, DefaultKeyedStateStore<OrgId>, DefaultClock, StateInformationMiddleware>;

/// The buckets of all orgs that have asked.
#[derive(Debug)]
pub struct Limits {
    buckets: Buckets,
    clock: DefaultClock,
    per_second: NonZeroU32,
    burst: NonZeroU32,
}

/// How an org stands, for the headers of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Standing {
    limit: u32,
    remaining: u32,
    reset: u32,
}

impl Limits {
    /// Buckets that all have this size.
    pub fn new(per_second: NonZeroU32, burst: NonZeroU32) -> Self {
        let quota = Quota::per_second(per_second).allow_burst(burst);
        Self {
            buckets: RateLimiter::keyed(quota).with_middleware(),
            clock: DefaultClock::default(),
            per_second,
            burst,
        }
    }

    /// Counts a request of `org`; refused if its bucket is empty. The answer will say how it stands.
    pub fn count(&self, request: &HttpRequest, org: OrgId) -> Result<(), Problem> {
        let (standing, wait) = self.take(org);
        request.extensions_mut().insert(standing);
        let Some(wait) = wait else { return Ok(()) };
        let detail = format!(
            "your org may ask {} times a second here, and {} times at once",
            self.per_second, self.burst
        );
        Err(Problem::new(ProblemCode::TooManyRequests, detail).after(wait))
    }

    /// How the org stands after one request, and how long it has to wait if that was too much.
    fn take(&self, org: OrgId) -> (Standing, Option<Duration>) {
        let (remaining, wait) = match self.buckets.check_key(&org) {
            Ok(left) => (left.remaining_burst_capacity(), None),
            Err(full) => (0, Some(full.wait_time_from(self.clock.now()))),
        };
        let missing = self.burst.get().saturating_sub(remaining);
        let standing = Standing {
            limit: self.burst.get(),
            remaining,
            reset: missing.div_ceil(self.per_second.get()),
        };
        (standing, wait)
    }
}

/// Writes how the org that asked stands, if one did, into the answer.
pub(super) fn tell<B>(response: &mut ServiceResponse<B>) {
    let standing = response.request().extensions().get::<Standing>().copied();
    if let Some(standing) = standing {
        standing.write(response.headers_mut());
    }
}

impl Standing {
    fn write(self, headers: &mut HeaderMap) {
        for (name, number) in [
            (LIMIT, self.limit),
            (REMAINING, self.remaining),
            (RESET, self.reset),
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from(number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(per_second: u32, burst: u32) -> Limits {
        let number = |number| NonZeroU32::new(number).expect("not zero");
        Limits::new(number(per_second), number(burst))
    }

    #[test]
    fn a_burst_is_taken_and_then_one_has_to_wait_but_not_the_others() {
        let limits = limits(1, 3);
        let (org, other) = (OrgId::new(), OrgId::new());
        let left = [(); 3].map(|()| limits.take(org));
        assert_eq!(left.map(|(standing, _)| standing.remaining), [2, 1, 0]);
        assert!(left.iter().all(|(_, wait)| wait.is_none()));
        let (standing, wait) = limits.take(org);
        assert_eq!((standing.remaining, standing.reset), (0, 3));
        assert!(wait.is_some_and(|wait| wait <= Duration::from_secs(1)));
        assert_eq!(limits.take(other).1, None);
    }
}
