//! A bundle on a host of the buyer's, and what becomes of it when it is fetched.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use fencepost_agent::transfer::bundle::Bundle;
use fencepost_agent::transfer::{Network, StepError};
use fencepost_protocol::InputGrant;
use serde_json::{Value, json};

use super::site::{Site, whole};
use super::{SECRET, at};
use crate::gateway::sha256;

pub(crate) const PAGE: &[u8] = b"<!doctype html>";
pub(crate) const MAX_BYTES: u64 = 10_000;
pub(crate) const CODE: &[u8] = b"console.log(1)";

/// A bundle that is on a host.
pub(crate) struct Shelf {
    pub(crate) site: Site,
    pub(crate) files: Vec<Value>,
    pub(crate) grant: InputGrant,
}

impl Shelf {
    /// A bundle that has a page, and nothing else yet.
    pub(crate) async fn new() -> Self {
        let site = Site::start().await;
        let url = format!("{}/site/fencepost.json?{SECRET}", site.address);
        let mut shelf = Self {
            site,
            files: Vec::new(),
            grant: at(&url),
        };
        "bundle".clone_into(&mut shelf.grant.name);
        shelf.grant.max_bytes = Some(MAX_BYTES);
        shelf.put("index.html", PAGE);
        shelf
    }

    /// A file that is listed, and beside the manifest.
    pub(crate) fn put(&mut self, path: &str, bytes: &[u8]) {
        self.list(path, bytes);
        self.site.has(&format!("/site/{path}"), vec![whole(bytes)]);
    }

    /// A file that is listed.
    pub(crate) fn list(&mut self, path: &str, bytes: &[u8]) -> &mut Value {
        let file = json!({ "path": path, "sha256": sha256(bytes), "size_bytes": bytes.len() });
        self.files.push(file);
        self.files.last_mut().unwrap()
    }

    /// The manifest lists what there is now, and the order says its digest.
    pub(crate) fn print(&mut self) {
        let manifest = json!({ "files": self.files }).to_string();
        self.print_as(manifest.as_bytes());
    }

    pub(crate) fn print_as(&mut self, manifest: &[u8]) {
        self.grant.sha256 = Some(sha256(manifest));
        let path = format!("/site/fencepost.json?{SECRET}");
        self.site.has(&path, vec![whole(manifest)]);
    }

    /// What was asked for beside the manifest.
    pub(crate) fn asked(&self) -> Vec<String> {
        let mut asked = self.site.asked();
        asked.retain(|path| !path.starts_with("/site/fencepost.json"));
        asked.sort();
        asked
    }
}

pub(crate) struct Fetched {
    pub(crate) result: Result<u64, StepError>,
    pub(crate) temp: tempfile::TempDir,
    pub(crate) received: Vec<(u64, Option<u64>)>,
}

impl Fetched {
    /// The files in the folder by their paths.
    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let folder = self.temp.path().join("input-0");
        let files = all_within(&folder)
            .into_iter()
            .filter(|path| path.is_file());
        let named = files.map(|path| {
            let name = path
                .strip_prefix(&folder)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            (name, std::fs::read(path).unwrap())
        });
        named.collect()
    }

    /// The code and the message of a failure, in which there must be no address.
    pub(crate) fn failed(&self, what: &str) -> (&'static str, String) {
        match &self.result {
            Err(StepError::Failed { code, message }) => {
                assert!(message.starts_with("input \"bundle\""), "{what}: {message}");
                for secret in ["s3cret", "127.0.0.1", "http:"] {
                    assert!(!message.contains(secret), "{what}: {message}");
                }
                (code, message.clone())
            }
            other => panic!("{what}: {other:?}"),
        }
    }
}

pub(crate) fn all_within(folder: &Path) -> Vec<PathBuf> {
    let mut waiting = vec![folder.to_owned()];
    let mut found = Vec::new();
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).unwrap();
            waiting.extend(entries.map(|entry| entry.unwrap().path()));
        }
        found.push(path);
    }
    found
}

pub(crate) async fn fetch(network: &Network, shelf: &Shelf) -> Fetched {
    fetch_with_room(network, shelf, None).await
}

pub(crate) async fn fetch_with_room(
    network: &Network,
    shelf: &Shelf,
    room: Option<u64>,
) -> Fetched {
    let temp = tempfile::tempdir().unwrap();
    let received = Mutex::new(Vec::new());
    let result = Bundle {
        network,
        grant: &shelf.grant,
        folder: &temp.path().join("input-0"),
        room,
        received: &|bytes, all| received.lock().unwrap().push((bytes, all)),
    };
    let result = result.run().await;
    Fetched {
        result,
        temp,
        received: received.into_inner().unwrap(),
    }
}
