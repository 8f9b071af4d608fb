//! Requests that the library has no function for, each sent once.

use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode};
use object_store::client::HttpRequestBody;
use object_store::path::Path as ObjectPath;
use object_store::signer::SignedUrlOptions;
use quick_xml::de::from_reader;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Bucket;
use crate::artifacts::ArtifactError;

/// Our own requests are sent at once.
const LINK_TIME: Duration = Duration::from_mins(1);

/// One request.
pub(super) struct Ask<'a> {
    /// What it is called in S3, for messages.
    pub(super) name: &'static str,
    pub(super) method: Method,
    pub(super) path: &'a ObjectPath,
    pub(super) query: Vec<(&'static str, String)>,
    pub(super) headers: Vec<(&'static str, String)>,
}

/// How S3 says no, sometimes with a status of 200: a copy may fail after its answer has begun.
#[derive(Deserialize)]
#[serde(rename = "Error", rename_all = "PascalCase")]
struct Refusal {
    #[serde(default)]
    code: String,
}

impl Bucket {
    /// Sends a request and reads its answer.
    pub(super) async fn ask<T: DeserializeOwned>(&self, ask: Ask<'_>) -> Result<T, ArtifactError> {
        let (name, path) = (ask.name, ask.path);
        let trouble = |what: &str| ArtifactError::Io(format!("{name}: {what}"));
        let request = self.request(ask)?;
        // The address holds a signature, and the library's errors hold the address.
        let answer = self.http.execute(request).await;
        let answer = answer.map_err(|error| trouble(&format!("{:?}", error.kind())))?;
        let (status, body) = (answer.status(), answer.into_body());
        let chunks: Vec<Bytes> = body
            .bytes_stream()
            .try_collect()
            .await
            .map_err(|error| trouble(&format!("{:?}", error.kind())))?;
        let body = chunks.concat();
        let is_refusal = !status.is_success() || is_error(&body);
        if !is_refusal {
            return from_reader(body.as_slice()).map_err(|error| trouble(&error.to_string()));
        }
        let code =
            from_reader(body.as_slice()).map_or_else(|_| String::new(), |no: Refusal| no.code);
        if status == StatusCode::NOT_FOUND || code.starts_with("NoSuch") {
            return Err(ArtifactError::NotFound(path.to_string()));
        }
        if status == StatusCode::NOT_IMPLEMENTED {
            return Err(ArtifactError::Unsupported(name));
        }
        Err(trouble(&format!("HTTP {status} {code}")))
    }

    fn request(&self, ask: Ask<'_>) -> Result<Request<HttpRequestBody>, ArtifactError> {
        let bad = |error: http::Error| ArtifactError::Io(format!("{}: {error}", ask.name));
        let mut options = SignedUrlOptions::default().with_query(ask.query);
        let mut request = Request::builder().method(ask.method.clone());
        for (header, value) in ask.headers {
            let value = HeaderValue::from_str(&value).map_err(|error| bad(error.into()))?;
            let header = HeaderName::from_static(header);
            options = options.with_signed_header(header.clone(), value.clone());
            request = request.header(header, value);
        }
        let url = self.sign(ask.method, ask.path, LINK_TIME, &options)?;
        let request = request.uri(url.as_str()).body(HttpRequestBody::empty());
        request.map_err(bad)
    }
}

/// Whether the document is an error. It begins with its only element, perhaps after a declaration.
fn is_error(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body);
    let text = text.trim_start();
    let text = match text.strip_prefix("<?xml") {
        Some(rest) => rest.split_once("?>").map_or("", |(_, rest)| rest),
        None => text,
    };
    text.trim_start().starts_with("<Error")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_whatever_stands_before_it() {
        for error in [
            "<Error><Code>SlowDown</Code></Error>",
            "<?xml version=\"1.0\"?>\n<Error/>",
            "  \n <?xml version=\"1.0\"?><Error></Error>",
        ] {
            assert!(is_error(error.as_bytes()), "{error}");
        }
        for good in [
            "",
            "<CopyObjectResult><ETag>\"<Error\"</ETag></CopyObjectResult>",
            "<?xml version=\"1.0\"?><CopyObjectResult/>",
        ] {
            assert!(!is_error(good.as_bytes()), "{good}");
        }
    }
}
