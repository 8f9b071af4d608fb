//! What is promised of a list of compositions: that it is one.

use std::collections::HashSet;
use std::path::Path;

use fencepost_domain::service::Compositions;

use crate::services::remotion::MAX_DOCUMENT_BYTES;
use crate::{CheckFailure, Checked, Rejection};

/// Reads a list of compositions as whoever ordered it would.
pub(crate) async fn check(file: &Path) -> Result<Checked, CheckFailure> {
    let trouble = |error| CheckFailure::Trouble(format!("the file cannot be read: {error}"));
    let size = tokio::fs::metadata(file).await.map_err(trouble)?.len();
    if size > MAX_DOCUMENT_BYTES {
        let problem = format!("it has {size} bytes, and a list has at most {MAX_DOCUMENT_BYTES}");
        return Err(Rejection::NotCompositions(problem).into());
    }
    judge(&tokio::fs::read(file).await.map_err(trouble)?)?;
    Ok(Checked {
        container: None,
        size: None,
        fps: None,
        duration_seconds: 0.0,
        frames: 0,
        has_audio: false,
    })
}

fn judge(text: &[u8]) -> Result<(), Rejection> {
    let list: Compositions = serde_json::from_slice(text)
        .map_err(|error| Rejection::NotCompositions(error.to_string()))?;
    let mut seen = HashSet::new();
    match list.compositions.iter().find(|one| !seen.insert(&one.id)) {
        Some(twice) => Err(Rejection::NotCompositions(format!(
            "{:?} is in it twice",
            twice.id
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn composition() -> Value {
        json!({"id": "film", "width": 320, "height": 180, "fps": 25, "duration_in_frames": 20})
    }

    fn list(compositions: &[Value]) -> Vec<u8> {
        let list = json!({"renderer_version": "4.0.529", "compositions": compositions});
        list.to_string().into_bytes()
    }

    #[test]
    fn a_list_of_compositions_is_whole_and_names_each_once() {
        assert_eq!(judge(&list(&[])), Ok(()));
        assert_eq!(judge(&list(&[composition()])), Ok(()));
        let mut odd = composition();
        odd["width"] = json!("wide");
        for wrong in [
            b"{}".to_vec(),
            b"no json".to_vec(),
            list(&[composition(), composition()]),
            list(&[odd]),
        ] {
            let found = judge(&wrong);
            assert!(
                matches!(found, Err(Rejection::NotCompositions(_))),
                "{found:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_file_that_is_longer_than_a_list_is_not_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut text = list(&[composition()]);
        text.resize(usize::try_from(MAX_DOCUMENT_BYTES).unwrap(), b' ');
        std::fs::write(file.path(), &text).unwrap();
        assert!(check(file.path()).await.is_ok());
        text.push(b' ');
        std::fs::write(file.path(), &text).unwrap();
        let found = check(file.path()).await;
        let Err(CheckFailure::Rejected(Rejection::NotCompositions(problem))) = found else {
            panic!("{found:?}");
        };
        assert!(problem.contains("1048577 bytes"), "{problem}");
    }
}
