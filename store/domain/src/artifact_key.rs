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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_names_what_alone_may_write_it() {
        let (job, attempt, file) = (JobId::new(), AttemptId::new(), UploadId::new());
        assert_eq!(upload(file), format!("uploads/{file}"));
        let output = attempt_output(job, attempt, "mp4");
        assert_eq!(output, format!("outputs/{job}.{attempt}.mp4"));
        let artifact = attempt_artifact(job, attempt, 7, "encoder.log");
        assert_eq!(artifact, format!("artifacts/{job}.{attempt}.7.encoder.log"));
        let copy = verified_copy(job, attempt, 2);
        assert_eq!(copy, format!("verified/{job}.{attempt}.2"));
    }
}
