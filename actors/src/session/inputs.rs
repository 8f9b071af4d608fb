//! The inputs of a job as they are stored with it, and as they are offered.

use fencepost_domain::ids::JobId;
use fencepost_domain::secret_url::SecretUrl;
use fencepost_protocol::InputGrant;
use fencepost_store::vault::{Sealed, Vault};
use serde::Deserialize;
use serde_json::Value;

/// An input as it is stored with its job.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum StoredInput {
    /// With us.
    Upload(StoredUpload),
    /// On a host of the buyer's choice.
    Elsewhere(StoredElsewhere),
}

#[derive(Debug, Deserialize)]
pub(super) struct StoredUpload {
    name: String,
    pub(super) object_key: String,
    sha256: String,
    size_bytes: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct StoredElsewhere {
    name: String,
    host: String,
    sealed_url: Option<String>,
    sha256: Option<String>,
    size_bytes: Option<u64>,
}

impl StoredInput {
    /// All inputs of a job; submit_job wrote them from the same fields.
    pub(super) fn all_of(inputs: &Value) -> Vec<Self> {
        Vec::<Self>::deserialize(inputs).unwrap_or_default()
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Upload(upload) => &upload.name,
            Self::Elsewhere(elsewhere) => &elsewhere.name,
        }
    }
}

impl StoredUpload {
    /// What a device is told of it; `url` is the link that was made for it.
    pub(super) fn grant(self, url: String) -> InputGrant {
        InputGrant {
            name: self.name,
            url,
            sha256: Some(self.sha256),
            size_bytes: Some(self.size_bytes),
            max_bytes: None,
        }
    }
}

impl StoredElsewhere {
    /// What a device is told of it: the buyer's own address, and that no more than `max_bytes` are taken.
    pub(super) fn grant(self, job: JobId, vault: &Vault, max_bytes: u64) -> InputGrant {
        let sealed = self.sealed_url.as_deref().and_then(Sealed::from_hex);
        let url = sealed.and_then(|sealed| vault.open_url(job, &self.name, &sealed));
        if url.is_none() {
            tracing::error!(
                job.id = %job,
                input = self.name,
                host = self.host,
                "the address of an input was sealed with another key: give the old one back, or the job \
                 fails"
            );
        }
        InputGrant {
            // An empty one fails the attempt, and the job with its last one.
            url: url.as_ref().map_or("", SecretUrl::expose).to_owned(),
            name: self.name,
            sha256: self.sha256,
            size_bytes: self.size_bytes,
            max_bytes: Some(max_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_address_is_opened_for_its_own_job_alone_and_is_empty_where_it_cannot_be() {
        let (job, vault) = (JobId::new(), Vault::new(&[b"one"]));
        let url = SecretUrl::new("https://files.example/film.mp4?sig=abc");
        let sealed = vault.seal_url(job, "source", &url);
        let stored = json!([
            { "name": "captions", "object_key": "uploads/x", "sha256": "ab", "size_bytes": 3 },
            {
                "name": "source",
                "host": "files.example",
                "sealed_url": sealed.to_hex(),
                "sha256": null,
                "size_bytes": null,
            },
        ]);
        let grant = |job, vault: &Vault| {
            let mut inputs = StoredInput::all_of(&stored);
            assert_eq!(inputs.len(), 2);
            let Some(StoredInput::Elsewhere(elsewhere)) = inputs.pop() else {
                panic!("it is elsewhere");
            };
            elsewhere.grant(job, vault, 9)
        };
        let granted = grant(job, &vault);
        assert_eq!(granted.url, url.expose());
        assert_eq!((granted.size_bytes, granted.max_bytes), (None, Some(9)));
        assert!(granted.is_elsewhere() && !format!("{granted:?}").contains("abc"));
        assert_eq!(grant(JobId::new(), &vault).url, "");
        assert_eq!(grant(job, &Vault::new(&[b"two"])).url, "");
    }
}
