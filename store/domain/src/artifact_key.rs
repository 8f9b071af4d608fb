//! The shape of every object's name, in one place.
//!
//! Outputs are named by attempt, so two attempts of one job can never overwrite each other; the
//! copy that is verified and served is named by verification epoch, a key that no grant ever
//! covered. There are no folders per job: making one costs more than all else that an output costs,
//! and nobody would ever remove it.

use crate::ids::{AttemptId, JobId, UploadId};

/// A file that a buyer sent.
pub fn upload(id: UploadId) -> String {
    format!("uploads/{id}")
}

/// Where an attempt's agent may write its output.
pub fn attempt_output(job: JobId, attempt: AttemptId, extension: &str) -> String {
    format!("outputs/{job}.{attempt}.{extension}")
}

/// Where an attempt's agent may write a named artifact under the lease of one epoch.
pub fn attempt_artifact(job: JobId, attempt: AttemptId, epoch: i64, name: &str) -> String {
    format!("artifacts/{job}.{attempt}.{epoch}.{name}")
}

/// The copy of an attempt's output that is verified, and served if it is good.
pub fn verified_copy(job: JobId, attempt: AttemptId, verification_epoch: i64) -> String {
    format!("verified/{job}.{attempt}.{verification_epoch}")
}
