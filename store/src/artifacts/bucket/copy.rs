//! Copies within the bucket.

use std::ops::Range;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use object_store::ObjectStoreExt as _;
use object_store::multipart::{MultipartStore as _, PartId};
use object_store::path::Path as ObjectPath;
use serde::Deserialize;

use super::Bucket;
use super::ask::Ask;
use crate::artifacts::{ArtifactError, object_path};

/// Tries of one copy, each to a key of its own.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_secs(2);
/// How many parts of an object are copied at once.
const AT_ONCE: usize = 4;

#[derive(Deserialize)]
struct Copied {
    #[serde(rename = "ETag", default)]
    e_tag: String,
}

impl Bucket {
    /// Copies the object below `to`, to a key that nothing was ever written to, and gives that key.
    ///
    /// A request is never repeated with the same target: one that we gave up may be carried out
    /// after its repetition was, and then what was checked would not be what is there.
    pub(in crate::artifacts) async fn seal(
        &self,
        from: &str,
        to: &str,
    ) -> Result<String, ArtifactError> {
        let from = object_path(from)?;
        let mut number = 1;
        loop {
            let key = format!("{to}/{number}");
            match self.copy_once(&from, &object_path(&key)?).await {
                Ok(()) => return Ok(key),
                Err(ArtifactError::NotFound(key)) => return Err(ArtifactError::NotFound(key)),
                Err(error) if number == TRIES => return Err(error),
                Err(error) => tracing::warn!(%error, "an object was not copied; trying again"),
            }
            tokio::time::sleep(PAUSE * number).await;
            number += 1;
        }
    }

    async fn copy_once(&self, from: &ObjectPath, to: &ObjectPath) -> Result<(), ArtifactError> {
        let size = self.objects.head(from).await?.size;
        if size > self.settings.copy_at_once_bytes {
            return self.copy_in_parts(from, to, size).await;
        }
        let ask = Ask {
            name: "CopyObject",
            method: Method::PUT,
            path: to,
            query: Vec::new(),
            headers: vec![("x-amz-copy-source", self.source(from))],
        };
        self.ask::<Copied>(ask).await.map(|_| ())
    }

    async fn copy_in_parts(
        &self,
        from: &ObjectPath,
        to: &ObjectPath,
        size: u64,
    ) -> Result<(), ArtifactError> {
        let upload = self.objects.create_multipart(to).await?;
        let step = self.settings.copy_at_once_bytes;
        let ranges = (0..size.div_ceil(step)).map(|n| n * step..((n + 1) * step).min(size));
        let copies = ranges
            .zip(1..)
            .map(|(range, number)| self.copy_part((from, to), (&upload, number), range));
        let copied: Result<Vec<PartId>, _> =
            stream::iter(copies).buffered(AT_ONCE).try_collect().await;
        let done = match copied {
            Ok(parts) => {
                let done = self.objects.complete_multipart(to, &upload, parts).await;
                done.map(|_| ()).map_err(ArtifactError::from)
            }
            Err(error) => Err(error),
        };
        if done.is_err()
            && let Err(error) = self.objects.abort_multipart(to, &upload).await
        {
            tracing::warn!(%error, "an unfinished copy stays until the bucket's own rule clears it");
        }
        done
    }

    async fn copy_part(
        &self,
        (from, to): (&ObjectPath, &ObjectPath),
        (upload, number): (&str, u32),
        range: Range<u64>,
    ) -> Result<PartId, ArtifactError> {
        let range = format!("bytes={}-{}", range.start, range.end - 1);
        let ask = Ask {
            name: "UploadPartCopy",
            method: Method::PUT,
            path: to,
            query: vec![
                ("partNumber", number.to_string()),
                ("uploadId", upload.to_owned()),
            ],
            headers: vec![
                ("x-amz-copy-source", self.source(from)),
                ("x-amz-copy-source-range", range),
            ],
        };
        let Copied { e_tag } = self.ask(ask).await?;
        Ok(PartId { content_id: e_tag })
    }

    /// The name of an object for another request. Our keys hold nothing that would be escaped.
    fn source(&self, from: &ObjectPath) -> String {
        format!("/{}/{from}", self.settings.bucket)
    }
}
