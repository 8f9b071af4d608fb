//! A bucket: `s3s-fs` behind real HTTP and real signatures, in this process, that can be away, be
//! silent, lose answers, refuse parts, and keep a request waiting. What it leaves out of uploads in
//! parts is added: listings by pages, and a completion that takes exactly the parts that are there.

mod store;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::dto::ETag;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s_fs::FileSystem;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use self::store::Store;
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
