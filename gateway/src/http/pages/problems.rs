//! `/docs/problems`: what each refusal means and what to do about it. The `type` of a problem leads
//! here.

use std::fmt::Write as _;
use std::sync::LazyLock;

use actix_web::HttpResponse;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, X_CONTENT_TYPE_OPTIONS};

use crate::http::problem::ProblemCode;

const HEAD: &str = r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Problems · Fencepost</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
section { border-top: 1px solid #8884; padding: .5rem 0; }
section:target { background: #fe84; }
h2 { font-size: 1.1rem; margin: .5rem 0 0; }
small { opacity: .7; font-weight: normal; }
p { margin: .25rem 0; }
@media (prefers-color-scheme: dark) { body { background: #181818; color: #ddd; } a { color: #8bf; } }
</style>
</head>
<body>
<h1>Problems</h1>
<p>Every refusal is <code>application/problem+json</code> (RFC 9457). <code>code</code> says what kind
it is, <code>detail</code> what is wrong in this case, <code>field</code> where, and
<code>retryable</code> whether the same request may succeed later. Refusals about leases say
<code>disposition</code> besides: <code>stop</code> (drop the work), <code>retry</code> or
<code>fix</code>; they are 409 whatever is said below. <a href="/docs/">The whole API</a></p>
"#;

static PAGE: LazyLock<String> = LazyLock::new(|| {
    let sections = ProblemCode::ALL.iter().map(|code| section(*code));
    format!("{HEAD}{}</body>\n</html>\n", sections.collect::<String>())
});

/// The page.
pub(super) async fn page() -> HttpResponse {
    HttpResponse::Ok()
        .content_type("text/html; charset=utf-8")
        .insert_header((
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'",
        ))
        .insert_header((X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .insert_header((CACHE_CONTROL, "public, max-age=600"))
        .body(PAGE.as_str())
}

fn section(code: ProblemCode) -> String {
    let word = code.as_str();
    let again = if code.is_retryable() {
        "worth sending again"
    } else {
        "the same request will fail again"
    };
    let mut html = format!(
        "<section id=\"{word}\">\n<h2><code>{word}</code> {}",
        code.title()
    );
    // A String takes all that is written into it.
    let _ = write!(
        html,
        " <small>{} · {again}</small></h2>\n<p>{}</p>\n</section>\n",
        code.status(),
        with_code(code.help())
    );
    html
}

/// What stands between backticks, as code. Our own words hold nothing else that HTML knows.
fn with_code(text: &str) -> String {
    let mut parts = text.split('`');
    let mut html = parts.next().unwrap_or("").to_owned();
    let mut code = true;
    for part in parts {
        html.push_str(if code { "<code>" } else { "</code>" });
        html.push_str(part);
        code = !code;
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_place_and_says_what_to_do() {
        for code in ProblemCode::ALL {
            let id = code.page().split_once('#').expect("a place").1.to_owned();
            assert!(PAGE.contains(&format!("<section id=\"{id}\">")), "{id}");
            assert!(code.help().len() > 20, "{id}");
            let plain =
                !code.help().contains(['<', '>', '&']) && !code.title().contains(['<', '>', '&']);
            assert!(plain, "{id} holds what HTML knows");
        }
    }

    #[test]
    fn words_between_backticks_are_code() {
        assert_eq!(with_code("a `b` c"), "a <code>b</code> c");
    }
}
