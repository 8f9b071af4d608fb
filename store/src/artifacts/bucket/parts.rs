//! Large files that come in parts, by a link for each.
//!
//! Nobody but us completes an upload, and only with the parts that make up exactly what was
//! declared. So parts that were sent by somebody who has lost its lease become nothing.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use http::Method;
use object_store::multipart::{MultipartStore as _, PartId};
use object_store::path::Path as ObjectPath;
use object_store::signer::SignedUrlOptions;
use serde::Deserialize;

use super::Bucket;
use super::ask::Ask;
use crate::artifacts::{ArtifactError, object_path};

/// An upload in parts that was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenUpload {
    /// The bucket's name for it.
    pub id: String,
    /// The size of every part but the last.
    pub part_bytes: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PartsPage {
    #[serde(rename = "Part", default)]
    parts: Vec<ListedPart>,
    #[serde(default)]
    is_truncated: bool,
    #[serde(default)]
    next_part_number_marker: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListedPart {
    #[serde(rename = "PartNumber")]
    number: u32,
    #[serde(rename = "ETag", default)]
    e_tag: String,
    size: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct UploadsPage {
    #[serde(rename = "Upload", default)]
    uploads: Vec<ListedUpload>,
    #[serde(default)]
    is_truncated: bool,
    #[serde(default)]
    next_key_marker: Option<String>,
    #[serde(default)]
    next_upload_id_marker: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListedUpload {
    key: String,
    #[serde(rename = "UploadId")]
    id: String,
}

impl Bucket {
    /// Begins an upload in parts; gives the bucket's name for it.
    pub async fn begin_parts(&self, key: &str) -> Result<String, ArtifactError> {
        Ok(self.objects.create_multipart(&object_path(key)?).await?)
    }

    /// A link for each of these parts.
    pub fn part_links(
        &self,
        key: &str,
        upload: &str,
        numbers: RangeInclusive<u32>,
    ) -> Result<Vec<String>, ArtifactError> {
        let path = object_path(key)?;
        let links = numbers.map(|number| {
            let options = SignedUrlOptions::default().with_query([
                ("partNumber", number.to_string()),
                ("uploadId", upload.to_owned()),
            ]);
            let url = self.sign(Method::PUT, &path, self.settings.link_time, &options)?;
            Ok(url.into())
        });
        links.collect()
    }

    /// Makes the parts of an object of `size` bytes that object, if they are all there and each as
    /// long as it must be. If they are not, or the upload is gone, nothing happens: it may have been
    /// completed before, with an answer that was lost. What is there then is for its digest to say.
    pub async fn complete_parts(
        &self,
        key: &str,
        upload: &OpenUpload,
        size: u64,
    ) -> Result<(), ArtifactError> {
        let path = object_path(key)?;
        let there = match self.list_parts(&path, &upload.id).await {
            Err(ArtifactError::NotFound(_)) => return Ok(()),
            there => there?,
        };
        let Some(parts) = exactly(&there, upload.part_bytes, size) else {
            return Ok(());
        };
        match self
            .objects
            .complete_multipart(&path, &upload.id, parts)
            .await
        {
            Ok(_) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends one upload in parts.
    pub async fn abandon_parts(&self, key: &str, upload: &str) -> Result<(), ArtifactError> {
        let upload = upload.to_owned();
        Ok(self
            .objects
            .abort_multipart(&object_path(key)?, &upload)
            .await?)
    }

    /// Ends every upload in parts to this very key, the known one and those that nobody wrote down.
    pub async fn abort_parts(&self, key: &str, known: Option<&str>) -> Result<(), ArtifactError> {
        let path = object_path(key)?;
        let mut ids = match self.list_uploads(key).await {
            // Then the rule of the bucket that clears unfinished uploads has to do.
            Err(ArtifactError::Unsupported(_)) => Vec::new(),
            uploads => uploads?,
        };
        ids.extend(known.map(str::to_owned));
        for id in ids {
            match self.objects.abort_multipart(&path, &id).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                // Servers differ in what they say of an upload that is over.
                Err(object_store::Error::PermissionDenied { .. }) if Some(&*id) == known => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The parts of an upload, by number.
    async fn list_parts(
        &self,
        path: &ObjectPath,
        upload: &str,
    ) -> Result<BTreeMap<u32, (u64, String)>, ArtifactError> {
        let mut all = BTreeMap::new();
        let mut marker = None;
        loop {
            let mut query = vec![("uploadId", upload.to_owned())];
            query.extend(marker.map(|marker| ("part-number-marker", marker)));
            let page: PartsPage = self.ask(list("ListParts", path, query)).await?;
            let parts = page.parts.into_iter();
            all.extend(parts.map(|part| (part.number, (part.size, part.e_tag))));
            match page.next_part_number_marker.filter(|_| page.is_truncated) {
                Some(next) => marker = Some(next),
                None => return Ok(all),
            }
        }
    }

    /// The names of the unfinished uploads to a key.
    async fn list_uploads(&self, key: &str) -> Result<Vec<String>, ArtifactError> {
        let root = ObjectPath::default();
        let mut all = Vec::new();
        let mut markers = None;
        loop {
            let mut query = vec![("uploads", String::new()), ("prefix", key.to_owned())];
            if let Some((key, upload)) = markers {
                query.extend([("key-marker", key), ("upload-id-marker", upload)]);
            }
            let page: UploadsPage = self.ask(list("ListMultipartUploads", &root, query)).await?;
            let of_key = page.uploads.into_iter().filter(|upload| upload.key == key);
            all.extend(of_key.map(|upload| upload.id));
            match (page.next_key_marker, page.next_upload_id_marker) {
                (Some(key), Some(upload)) if page.is_truncated => markers = Some((key, upload)),
                _ => return Ok(all),
            }
        }
    }
}

fn list<'a>(
    name: &'static str,
    path: &'a ObjectPath,
    query: Vec<(&'static str, String)>,
) -> Ask<'a> {
    Ask {
        name,
        method: Method::GET,
        path,
        query,
        headers: Vec::new(),
    }
}

/// The parts that make up `size` bytes, or `None` if one is missing or has another length. Parts
/// beyond are left out: a run that was begun anew may have made less than the one before.
fn exactly(
    there: &BTreeMap<u32, (u64, String)>,
    part_bytes: u64,
    size: u64,
) -> Option<Vec<PartId>> {
    let count = u32::try_from(size.div_ceil(part_bytes)).ok()?;
    let parts = (1..=count).map(|number| {
        let (length, e_tag) = there.get(&number)?;
        let before = u64::from(number - 1) * part_bytes;
        let is_whole = *length == part_bytes.min(size - before);
        is_whole.then(|| PartId {
            content_id: e_tag.clone(),
        })
    });
    parts
        .collect::<Option<Vec<_>>>()
        .filter(|parts| !parts.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there(sizes: &[u64]) -> BTreeMap<u32, (u64, String)> {
        let parts = (1..).zip(sizes);
        parts
            .map(|(number, size)| (number, (*size, format!("e{number}"))))
            .collect()
    }

    #[test]
    fn only_the_exact_parts_make_up_an_object() {
        let ids = |sizes: &[u64], size| {
            let parts = exactly(&there(sizes), 5, size)?;
            Some(
                parts
                    .into_iter()
                    .map(|part| part.content_id)
                    .collect::<Vec<_>>(),
            )
        };
        let first = |count: usize| {
            let all = ["e1", "e2", "e3"].map(str::to_owned);
            Some(all[..count].to_vec())
        };
        assert_eq!(ids(&[5, 5, 2], 12), first(3));
        assert_eq!(ids(&[5, 5], 10), first(2));
        // What an earlier, longer run sent is left out.
        assert_eq!(ids(&[5, 5, 2], 10), first(2));
        assert_eq!(ids(&[5, 2], 12), None);
        assert_eq!(ids(&[5, 4, 2], 12), None);
        assert_eq!(ids(&[5, 5, 3], 12), None);
        assert_eq!(ids(&[], 12), None);
        assert_eq!(ids(&[], 0), None);
    }
}
