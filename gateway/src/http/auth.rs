//! Who asks. The credentials never stand in for one another: each begins with its own word, and
//! each is looked up in its own place.

use actix_web::dev::Payload;
use actix_web::http::header::AUTHORIZATION;
use actix_web::{FromRequest, HttpRequest, web};
use fencepost_domain::ids::{DeviceId, OrgId};
use fencepost_store::secrets::Credential;
use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;

use super::problem::{Problem, ProblemCode};
use super::state::AppState;

/// No credential of ours is longer.
const MAX_BYTES: usize = 200;

/// A buyer, by an API key of their org.
#[derive(Debug, Clone, Copy)]
pub struct Buyer {
    /// The org.
    pub org: OrgId,
}

impl FromRequest for Buyer {
    type Error = Problem;
    type Future = LocalBoxFuture<'static, Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let key = bearer(request, &["fp_live_", "fp_test_"]);
        let state = request.app_data::<web::Data<AppState>>().cloned();
        let request = request.clone();
        async move {
            let hint = "send an API key of your org: Authorization: Bearer fp_live_…";
            let (Some(key), Some(state)) = (key, state) else {
                return Err(Problem::new(ProblemCode::Unauthorized, hint));
            };
            match state.actors.shared().key.call(key).await? {
                Some(org) => {
                    state.limits.count(&request, org)?;
                    Ok(Self { org })
                }
                None => Err(Problem::new(
                    ProblemCode::Unauthorized,
                    "the API key is unknown or revoked",
                )),
            }
        }
        .boxed_local()
    }
}

/// A device, by its token.
#[derive(Debug, Clone)]
pub struct Device {
    /// The device.
    pub id: DeviceId,
    /// Its token.
    pub token: Credential,
}

impl FromRequest for Device {
    type Error = Problem;
    type Future = LocalBoxFuture<'static, Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let token = bearer(request, &["fp_device_"]);
        let state = request.app_data::<web::Data<AppState>>().cloned();
        async move {
            let hint = "send the device's token: Authorization: Bearer fp_device_…";
            let (Some(token), Some(state)) = (token, state) else {
                return Err(Problem::new(ProblemCode::Unauthorized, hint));
            };
            match state.actors.shared().device.call(token.clone()).await? {
                Some(id) => Ok(Self { id, token }),
                None => Err(Self::unknown()),
            }
        }
        .boxed_local()
    }
}

impl Device {
    /// The one answer to a token that opens nothing.
    pub fn unknown() -> Problem {
        let detail = "the device token is unknown or void, or the device is disabled";
        Problem::new(ProblemCode::Unauthorized, detail)
    }
}

/// The bearer credential of a request, if it begins with one of `prefixes`.
pub fn bearer(request: &HttpRequest, prefixes: &[&str]) -> Option<Credential> {
    let header = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, text) = header.split_once(' ')?;
    let text = text.trim();
    let is_ours = scheme.eq_ignore_ascii_case("bearer")
        && text.len() <= MAX_BYTES
        && prefixes.iter().any(|prefix| text.starts_with(prefix));
    is_ours.then(|| Credential::presented(text))
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    fn presented(header: &str) -> Option<Credential> {
        let request = TestRequest::default().insert_header(("Authorization", header));
        bearer(&request.to_http_request(), &["fp_live_"])
    }

    #[test]
    fn a_bearer_with_the_right_prefix_is_taken() {
        for header in ["Bearer fp_live_1", "bearer  fp_live_1 "] {
            assert!(
                presented(header) == Some(Credential::presented("fp_live_1")),
                "{header}"
            );
        }
    }

    #[test]
    fn other_schemes_other_credentials_and_overlong_ones_are_not() {
        let long = format!("Bearer fp_live_{}", "1".repeat(MAX_BYTES));
        for header in [
            "Basic fp_live_1",
            "Bearer fp_device_1",
            "fp_live_1",
            "Bearer",
            &long,
        ] {
            assert!(presented(header).is_none(), "{header}");
        }
        assert!(bearer(&TestRequest::default().to_http_request(), &[""]).is_none());
    }
}
