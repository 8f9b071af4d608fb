//! `/docs/`: Swagger UI, which shows the description of the API and lets people try it.

use std::io::Read as _;
use std::sync::{Arc, LazyLock};

use actix_web::http::header::{
    AcceptEncoding, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, Encoding,
    Header as _, LOCATION, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use actix_web::{HttpRequest, HttpResponse, web};
use flate2::read::GzDecoder;
use utoipa_swagger_ui::Config;

use crate::http::problem::Problem;

/// Nothing from elsewhere, and nothing sent elsewhere: a key is typed into this page. Swagger UI
/// writes styles into elements, and draws with pictures in addresses.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

static CONFIG: LazyLock<Arc<Config<'static>>> = LazyLock::new(|| {
    let config = Config::from("/v1/openapi.json");
    let config = config.use_base_layout().deep_linking(true);
    Arc::new(config.try_it_out_enabled(true).persist_authorization(false))
});

/// The files of the page name each other relatively, so the address must end in a slash.
pub(super) async fn to_first_page() -> HttpResponse {
    let mut response = HttpResponse::PermanentRedirect();
    response.insert_header((LOCATION, "/docs/")).finish()
}

/// One file of the page. Large ones are packed in the binary, and unpacked for who cannot.
pub(super) async fn file(
    request: HttpRequest,
    name: web::Path<String>,
) -> Result<HttpResponse, Problem> {
    let found = utoipa_swagger_ui::serve(&name, CONFIG.clone());
    // Our own configuration is all that it can choke on, and a test opens the page.
    let file = found.ok().flatten();
    let file = file.ok_or_else(|| Problem::not_found("page"))?;
    let mut response = HttpResponse::Ok();
    response
        .content_type(file.content_type)
        .insert_header((CONTENT_SECURITY_POLICY, POLICY))
        .insert_header((X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .insert_header((REFERRER_POLICY, "no-referrer"))
        .insert_header((CACHE_CONTROL, "public, max-age=600"))
        .insert_header((VARY, "Accept-Encoding"));
    if !file.gzpipped {
        return Ok(response.body(file.bytes.into_owned()));
    }
    if takes_gzip(&request) {
        response.insert_header((CONTENT_ENCODING, "gzip"));
        return Ok(response.body(file.bytes.into_owned()));
    }
    let mut unpacked = Vec::new();
    let mut packed = GzDecoder::new(&*file.bytes);
    packed
        .read_to_end(&mut unpacked)
        .map_err(|error| Problem::internal(&error))?;
    Ok(response.body(unpacked))
}

/// Whether the asker says that it can unpack, and would rather.
fn takes_gzip(request: &HttpRequest) -> bool {
    let Ok(accepted) = AcceptEncoding::parse(request) else {
        return false;
    };
    let offered = [Encoding::gzip(), Encoding::identity()];
    !accepted.is_empty() && accepted.negotiate(offered.iter()) == Some(Encoding::gzip())
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn only_who_says_so_gets_packed_files() {
        for (header, is_packed) in [
            (None, false),
            (Some(""), false),
            (Some("identity"), false),
            (Some("br"), false),
            (Some("gzip;q=0"), false),
            (Some("gzip;q=0, *"), false),
            (Some("identity, gzip;q=0.5"), false),
            (Some("gzip"), true),
            (Some("gzip, deflate, br"), true),
            (Some("br;q=1, gzip;q=0.8, *;q=0.1"), true),
        ] {
            let request = match header {
                Some(header) => TestRequest::default().insert_header(("Accept-Encoding", header)),
                None => TestRequest::default(),
            };
            assert_eq!(
                takes_gzip(&request.to_http_request()),
                is_packed,
                "{header:?}"
            );
        }
    }
}
