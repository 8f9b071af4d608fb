//! Which folder or bucket this is, however it is reached: the same folder may be mounted at another
//! path on every machine, and the same path be another folder.

use object_store::{ObjectStoreExt as _, PutMode, PutOptions, PutPayload};
use uuid::Uuid;

use super::{ArtifactError, ArtifactStore, object_path};

/// The object that says which store this is. No link leads to it.
const MARKER: &str = "fencepost-store";

impl ArtifactStore {
    /// The random id of the folder or bucket, which the first one that asks gives it.
    pub async fn identity(&self) -> Result<Uuid, ArtifactError> {
        match self.read_marker().await {
            Err(ArtifactError::NotFound(_)) => {}
            known => return known,
        }
        let id = Uuid::now_v7();
        let payload = || PutPayload::from(id.to_string());
        let only_if_absent = PutOptions::from(PutMode::Create);
        let path = object_path(MARKER)?;
        match self
            .objects
            .put_opts(&path, payload(), only_if_absent)
            .await
        {
            // Another one was first.
            Ok(_) | Err(object_store::Error::AlreadyExists { .. }) => {}
            // A bucket that knows no conditions: of two at once the last one stays. The other one has
            // read what it wrote itself, is refused, and reads the right one at its next start.
            Err(object_store::Error::NotImplemented { .. }) => {
                self.objects.put(&path, payload()).await?;
            }
            Err(error) => return Err(error.into()),
        }
        self.read_marker().await
    }

    async fn read_marker(&self) -> Result<Uuid, ArtifactError> {
        let marker = self.objects.get(&object_path(MARKER)?).await?;
        let text = String::from_utf8_lossy(&marker.bytes().await?).into_owned();
        text.trim()
            .parse()
            .map_err(|_| ArtifactError::Io(format!("{MARKER} is damaged: it is no id")))
    }
}
