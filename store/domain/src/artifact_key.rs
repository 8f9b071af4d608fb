//! The shape of every object's name, in one place.
//!
//! Outputs are named by attempt, so two attempts of one job can never overwrite each other; the
//! copy that is verified and served is named by verification epoch, a key that no grant ever
//! covered. There are no folders per job: making one costs more than all else that an output costs,
//! and nobody would ever remove it.

use crate::ids::{AttemptId, JobId, UploadId};

/// A file that a buyer sent. In a bucket it is below this key.
pub fn upload(id: UploadId) -> String {
    format!("uploads/{id}")
}

/// The upload that an input's object belongs to.
pub fn upload_of(key: &str) -> Option<&str> {
    let id = key.strip_prefix("uploads/")?;
    Some(id.split_once('/').map_or(id, |(id, _)| id))
}

/// Where a buyer sends a file to a bucket. It becomes an upload when it is copied.
pub fn incoming_upload(id: UploadId) -> String {
    format!("incoming/{id}")
}

/// Where an attempt's agent may write its output.
pub fn attempt_output(job: JobId, attempt: AttemptId, extension: &str) -> String {
    format!("outputs/{job}.{attempt}.{extension}")
}

/// Where an attempt's agent may write a named artifact under the lease of one epoch.
pub fn attempt_artifact(job: JobId, attempt: AttemptId, epoch: i64, name: &str) -> String {
    format!("artifacts/{job}.{attempt}.{epoch}.{name}")
}

/// Whether a key is that of a named artifact.
pub fn is_artifact(key: &str) -> bool {
    key.starts_with("artifacts/")
}

/// The copy of an attempt's output that is verified, and served if it is good. In a bucket it is
/// below this key.
pub fn verified_copy(job: JobId, attempt: AttemptId, verification_epoch: i64) -> String {
    format!("verified/{job}.{attempt}.{verification_epoch}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_is_known_by_its_object_on_disk_and_in_a_bucket() {
        let file = UploadId::new();
        let id = file.to_string();
        assert_eq!(upload_of(&upload(file)), Some(&*id));
        assert_eq!(upload_of(&format!("uploads/{id}/copy/1")), Some(&*id));
        assert_eq!(upload_of("outputs/a.b.mp4"), None);
    }
}
