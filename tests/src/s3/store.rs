//! What answers for the bucket: the published file server, and what it cannot do itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, CompleteMultipartUploadInput,
    CompleteMultipartUploadOutput, CopyObjectInput, CopyObjectOutput, CreateMultipartUploadInput,
    CreateMultipartUploadOutput, DeleteObjectInput, DeleteObjectOutput, ETag, GetObjectInput,
    GetObjectOutput, HeadObjectInput, HeadObjectOutput, ListMultipartUploadsInput,
    ListMultipartUploadsOutput, ListObjectsV2Input, ListObjectsV2Output, ListPartsInput,
    ListPartsOutput, MultipartUpload, PutObjectInput, PutObjectOutput, UploadPartCopyInput,
    UploadPartCopyOutput, UploadPartInput, UploadPartOutput,
};
use s3s::{S3, S3Request, S3Response, S3Result, s3_error};
use s3s_fs::FileSystem;

use super::{Inside, PAGE, State};

pub(super) struct Store {
    pub(super) files: FileSystem,
    pub(super) inside: Arc<Inside>,
}

impl Store {
    fn parts(&self, upload: &str) -> S3Result<BTreeMap<i32, String>> {
        let state = self.inside.state();
        let upload = state.uploads.get(upload);
        let (_, parts) = upload.ok_or_else(|| s3_error!(NoSuchUpload))?;
        Ok(parts.clone())
    }
}

/// Passes requests on as they are.
macro_rules! as_they_are {
    ($($name:ident($input:ty) -> $output:ty;)+) => {
        #[async_trait::async_trait]
        impl S3 for Store {
            $(async fn $name(&self, request: S3Request<$input>) -> S3Result<S3Response<$output>> {
                self.inside.pass(stringify!($name)).await;
                self.files.$name(request).await
            })+

            async fn create_multipart_upload(
                &self,
                request: S3Request<CreateMultipartUploadInput>,
            ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
                let key = request.input.key.clone();
                let answer = self.files.create_multipart_upload(request).await?;
                let id = answer.output.upload_id.clone().unwrap_or_default();
                self.inside.state().uploads.insert(id, (key, BTreeMap::new()));
                Ok(answer)
            }

            async fn upload_part(
                &self,
                request: S3Request<UploadPartInput>,
            ) -> S3Result<S3Response<UploadPartOutput>> {
                let (id, number) = (request.input.upload_id.clone(), request.input.part_number);
                self.parts(&id)?;
                self.inside.pass("upload_part").await;
                if self.inside.must_refuse(number) {
                    return Err(s3_error!(SlowDown));
                }
                let answer = self.files.upload_part(request).await?;
                self.inside.took(&id, number, answer.output.e_tag.as_ref());
                Ok(answer)
            }

            async fn upload_part_copy(
                &self,
                request: S3Request<UploadPartCopyInput>,
            ) -> S3Result<S3Response<UploadPartCopyOutput>> {
                let (id, number) = (request.input.upload_id.clone(), request.input.part_number);
                self.parts(&id)?;
                let answer = self.files.upload_part_copy(request).await?;
                let copied = answer.output.copy_part_result.as_ref();
                self.inside.took(&id, number, copied.and_then(|copied| copied.e_tag.as_ref()));
                Ok(answer)
            }

            async fn list_parts(
                &self,
                request: S3Request<ListPartsInput>,
            ) -> S3Result<S3Response<ListPartsOutput>> {
                let tags = self.parts(&request.input.upload_id)?;
                let after = request.input.part_number_marker;
                let mut answer = self.files.list_parts(request).await?;
                page_of_parts(&mut answer.output, &tags, after);
                Ok(answer)
            }

            async fn complete_multipart_upload(
                &self,
                request: S3Request<CompleteMultipartUploadInput>,
            ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
                let id = request.input.upload_id.clone();
                self.inside.pass("complete_multipart_upload").await;
                let tags = self.parts(&id)?;
                let named = request.input.multipart_upload.as_ref();
                for part in named.and_then(|named| named.parts.as_ref()).into_iter().flatten() {
                    let tag = part.part_number.and_then(|number| tags.get(&number));
                    if tag.map(String::as_str) != part.e_tag.as_ref().map(ETag::value) {
                        return Err(s3_error!(InvalidPart));
                    }
                }
                let answer = self.files.complete_multipart_upload(request).await?;
                let mut state = self.inside.state();
                state.uploads.remove(&id);
                if state.lose_completions > 0 {
                    state.lose_completions -= 1;
                    return Err(s3_error!(InternalError));
                }
                Ok(answer)
            }

            async fn abort_multipart_upload(
                &self,
                request: S3Request<AbortMultipartUploadInput>,
            ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
                let id = request.input.upload_id.clone();
                self.parts(&id)?;
                let answer = self.files.abort_multipart_upload(request).await?;
                self.inside.state().uploads.remove(&id);
                Ok(answer)
            }

            async fn list_multipart_uploads(
                &self,
                request: S3Request<ListMultipartUploadsInput>,
            ) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
                Ok(S3Response::new(page_of_uploads(&self.inside.state(), &request.input)))
            }
        }
    };
}

as_they_are! {
    put_object(PutObjectInput) -> PutObjectOutput;
    get_object(GetObjectInput) -> GetObjectOutput;
    head_object(HeadObjectInput) -> HeadObjectOutput;
    copy_object(CopyObjectInput) -> CopyObjectOutput;
    delete_object(DeleteObjectInput) -> DeleteObjectOutput;
    list_objects_v2(ListObjectsV2Input) -> ListObjectsV2Output;
}

fn page_of_parts(output: &mut ListPartsOutput, tags: &BTreeMap<i32, String>, after: Option<i32>) {
    let mut parts = output.parts.take().unwrap_or_default();
    parts.sort_by_key(|part| part.part_number);
    parts.retain(|part| part.part_number > after);
    let is_truncated = parts.len() > PAGE;
    parts.truncate(PAGE);
    for part in &mut parts {
        let tag = part.part_number.and_then(|number| tags.get(&number));
        part.e_tag = tag.map(|tag| ETag::Strong(tag.clone()));
    }
    let last = parts.last().and_then(|part| part.part_number);
    output.is_truncated = Some(is_truncated);
    output.next_part_number_marker = last;
    output.parts = Some(parts);
}

fn page_of_uploads(state: &State, input: &ListMultipartUploadsInput) -> ListMultipartUploadsOutput {
    let prefix = input.prefix.clone().unwrap_or_default();
    let after = (
        input.key_marker.clone().unwrap_or_default(),
        input.upload_id_marker.clone().unwrap_or_default(),
    );
    let mut all: Vec<(String, String)> = state
        .uploads
        .iter()
        .map(|(id, (key, _))| (key.clone(), id.clone()))
        .filter(|upload| upload.0.starts_with(&prefix) && *upload > after)
        .collect();
    all.sort();
    let is_truncated = all.len() > PAGE;
    all.truncate(PAGE);
    let last = all.last().cloned().filter(|_| is_truncated);
    let uploads = all.into_iter().map(|(key, id)| MultipartUpload {
        key: Some(key),
        upload_id: Some(id),
        ..MultipartUpload::default()
    });
    ListMultipartUploadsOutput {
        uploads: Some(uploads.collect()),
        is_truncated: Some(is_truncated),
        next_key_marker: last.as_ref().map(|last| last.0.clone()),
        next_upload_id_marker: last.map(|last| last.1),
        ..ListMultipartUploadsOutput::default()
    }
}
