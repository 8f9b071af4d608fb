//! `/docs/`: Swagger UI, which shows the description of the API and lets people try it.

use std::sync::{Arc, LazyLock};

use actix_web::http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, LOCATION, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use actix_web::{HttpResponse, web};
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

/// One file of the page.
pub(super) async fn file(name: web::Path<String>) -> Result<HttpResponse, Problem> {
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
        .insert_header((CACHE_CONTROL, "public, max-age=600"));
    if file.gzpipped {
        response.insert_header((CONTENT_ENCODING, "gzip"));
    }
    Ok(response.body(file.bytes.into_owned()))
}
