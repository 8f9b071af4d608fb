//! A bucket: `s3s-fs` behind real HTTP and real signatures, in this process, that can be away, be
//! silent, lose answers, refuse parts, and keep a request waiting. What it leaves out of uploads in
//! parts is added: listings by pages, and a completion that takes exactly the parts that are there.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, CompleteMultipartUploadInput,
    CompleteMultipartUploadOutput, CopyObjectInput, CopyObjectOutput, CreateMultipartUploadInput,
    CreateMultipartUploadOutput, DeleteObjectInput, DeleteObjectOutput, ETag, GetObjectInput,
    GetObjectOutput, HeadObjectInput, HeadObjectOutput, ListMultipartUploadsInput,
    ListMultipartUploadsOutput, ListObjectsV2Input, ListObjectsV2Output, ListPartsInput,
    ListPartsOutput, MultipartUpload, PutObjectInput, PutObjectOutput, UploadPartCopyInput,
    UploadPartCopyOutput, UploadPartInput, UploadPartOutput,
};
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{S3, S3Request, S3Response, S3Result, s3_error};
use s3s_fs::FileSystem;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::wait::PATIENCE;

/// The bucket's name, which is also that of its folder.
const BUCKET: &str = "artifacts";
const KEY_ID: &str = "AKIDFENCEPOSTTEST";
const SECRET: &str = "the-secret-of-the-buckets-own-key";
/// Listings are short, so that every one has pages.
const PAGE: usize = 2;

/// A running bucket.
pub struct Bucket {
    /// What goes wrong, and what is unfinished.
    pub inside: Arc<Inside>,
    folder: PathBuf,
    address: SocketAddr,
    service: S3Service,
    serving: Option<JoinHandle<()>>,
}

/// What the bucket knows besides its files.
#[derive(Default)]
pub struct Inside(Mutex<State>);

#[derive(Default)]
struct State {
    /// Unfinished uploads by name: their key, and the size and tag of each part.
    uploads: BTreeMap<String, (String, BTreeMap<i32, String>)>,
    /// The next so many requests for this part are refused.
    refuse_part: Option<(i32, u32)>,
    /// The next completions are carried out and answered by an error.
    lose_completions: u32,
    /// How many parts were taken.
    parts_taken: usize,
    /// Which requests wait: their name, whether one has come, and whether they may go on.
    gate: Option<(&'static str, watch::Sender<bool>, watch::Receiver<bool>)>,
}

/// Requests that are kept waiting, until they are let go or this is dropped.
pub struct Held {
    came: watch::Receiver<bool>,
    open: watch::Sender<bool>,
}

impl Held {
    /// Waits until such a request has come.
    pub async fn came(&mut self) {
        let coming = tokio::time::timeout(PATIENCE, self.came.wait_for(|came| *came));
        coming.await.expect("in time").expect("the bucket is there");
    }

    /// Lets them go on, those that come later too.
    pub fn let_go(self) {
        self.open.send_replace(true);
    }
}

impl Inside {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses the next `times` requests for this part.
    pub fn refuse_part(&self, number: i32, times: u32) {
        self.state().refuse_part = Some((number, times));
    }

    /// Carries out the next `times` completions and loses their answers.
    pub fn lose_completions(&self, times: u32) {
        self.state().lose_completions = times;
    }

    /// How many uploads in parts are unfinished.
    pub fn unfinished(&self) -> usize {
        self.state().uploads.len()
    }

    /// How many parts were taken.
    pub fn parts_taken(&self) -> usize {
        self.state().parts_taken
    }

    /// Keeps requests of this name (`copy_object`) waiting from now on.
    pub fn hold(&self, name: &'static str) -> Held {
        let (come, came) = watch::channel(false);
        let (open, opened) = watch::channel(false);
        self.state().gate = Some((name, come, opened));
        Held { came, open }
    }

    /// A request of this name has come, and waits if it must.
    async fn pass(&self, name: &str) {
        let mut gate = match &self.state().gate {
            Some((held, come, open)) if *held == name => {
                come.send_replace(true);
                open.clone()
            }
            _ => return,
        };
        // Whoever held it may be gone.
        let _ = gate.wait_for(|open| *open).await;
    }

    fn must_refuse(&self, part: i32) -> bool {
        match &mut self.state().refuse_part {
            Some((number, times @ 1..)) if *number == part => {
                *times -= 1;
                true
            }
            _ => false,
        }
    }

    fn took(&self, upload: &str, part: i32, tag: Option<&ETag>) {
        let mut state = self.state();
        state.parts_taken += 1;
        let tag = tag.map_or("", ETag::value).to_owned();
        if let Some((_, parts)) = state.uploads.get_mut(upload) {
            parts.insert(part, tag);
        }
    }
}

impl Bucket {
    /// A bucket whose objects are files below `folder`, in a folder of the bucket's name.
    pub async fn start(folder: &Path) -> Self {
        std::fs::create_dir_all(folder.join(BUCKET)).expect("a folder can be made");
        let inside = Arc::new(Inside::default());
        let store = Store {
            files: FileSystem::new(folder).expect("the folder is there"),
            inside: Arc::clone(&inside),
        };
        let mut builder = S3ServiceBuilder::new(store);
        builder.set_auth(SimpleAuth::from_single(KEY_ID, SECRET));
        for (name, content) in [("s3-key-id", KEY_ID), ("s3-secret", SECRET)] {
            std::fs::write(folder.join(name), content).expect("a file can be written");
        }
        let mut bucket = Self {
            inside,
            folder: folder.to_owned(),
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            service: builder.build(),
            serving: None,
        };
        bucket.come_back().await;
        bucket
    }

    /// Where it is.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What a gateway needs to be told to keep its objects here.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let path = |name: &str| self.folder.join(name).display().to_string();
        vec![
            ("artifacts.kind", "s3".to_owned()),
            ("artifacts.s3.bucket", BUCKET.to_owned()),
            ("artifacts.s3.region", "us-east-1".to_owned()),
            ("artifacts.s3.endpoint", self.endpoint()),
            ("artifacts.s3.path_style", "true".to_owned()),
            ("artifacts.s3.access_key_id_file", path("s3-key-id")),
            ("artifacts.s3.secret_access_key_file", path("s3-secret")),
        ]
    }

    /// The secret of its key.
    pub fn secret() -> &'static str {
        SECRET
    }

    /// The same bucket as the product's own store sees it, with parts of this size.
    pub fn settings_of_store(&self, part_bytes: u64) -> fencepost_store::artifacts::BucketSettings {
        fencepost_store::artifacts::BucketSettings {
            bucket: BUCKET.to_owned(),
            region: "us-east-1".to_owned(),
            endpoint: Some(self.endpoint()),
            path_style: true,
            access_key_id: KEY_ID.to_owned(),
            secret_access_key: SECRET.to_owned(),
            link_time: std::time::Duration::from_mins(15),
            part_bytes,
            copy_at_once_bytes: part_bytes,
        }
    }

    /// Goes away: nobody listens, and connections are cut.
    pub fn go_away(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.abort();
        }
    }

    /// Goes away as behind a network that swallows everything: connections are taken, and nothing is
    /// ever said on them.
    pub async fn fall_silent(&mut self) {
        let listener = self.listen().await;
        self.serving = Some(tokio::spawn(keep_silent(listener)));
    }

    /// Answers again, at the same address.
    pub async fn come_back(&mut self) {
        let listener = self.listen().await;
        self.serving = Some(tokio::spawn(serve(listener, self.service.clone())));
    }

    async fn listen(&mut self) -> TcpListener {
        self.go_away();
        let listener = loop {
            match TcpListener::bind(self.address).await {
                Ok(listener) => break listener,
                // What was aborted a moment ago may still hold it.
                Err(error) if self.address.port() == 0 => panic!("no port: {error}"),
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            }
        };
        self.address = listener.local_addr().expect("it is bound");
        listener
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        self.go_away();
    }
}

async fn serve(listener: TcpListener, service: S3Service) {
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        connections.spawn(answer(socket, service.clone()));
    }
}

async fn keep_silent(listener: TcpListener) {
    let mut kept = Vec::new();
    while let Ok((socket, _)) = listener.accept().await {
        kept.push(socket);
    }
}

async fn answer(socket: TcpStream, service: S3Service) {
    let server = Builder::new(TokioExecutor::new());
    // A client that goes away is no matter.
    let _ = server.serve_connection(TokioIo::new(socket), service).await;
}

struct Store {
    files: FileSystem,
    inside: Arc<Inside>,
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
