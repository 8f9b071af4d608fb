//! What is written on the command line as `name=value`.

use std::path::PathBuf;

use fencepost_domain::ids::UploadId;
use fencepost_domain::secret_url::SecretUrl;
use serde_json::Value;

/// Where an input comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// A file, to be sent.
    File(PathBuf),
    /// A file that was sent before.
    Upload(UploadId),
    /// An address from where the Mac fetches it.
    Url(SecretUrl),
}

/// `height=720` is the number 720, `codec=h264` a text, `x="720"` the text 720. What begins like JSON
/// must be JSON.
pub(super) fn parameter(text: &str) -> Result<(String, Value), String> {
    let (name, value) = split(text)?;
    if name.contains('[') || name.split('.').any(str::is_empty) {
        return Err(format!(
            "{name:?} names no parameter: write encode.codec=h264, and lists as JSON: clips=[{{…}}]"
        ));
    }
    let is_json = value.starts_with(['{', '[', '"']);
    match serde_json::from_str(value) {
        Ok(value) => Ok((name, value)),
        Err(error) if is_json => Err(format!("the value of {name} is no JSON: {error}")),
        Err(_) => Ok((name, Value::from(value))),
    }
}

/// `order=42` is always a text.
pub(super) fn word(text: &str) -> Result<(String, String), String> {
    let (name, value) = split(text)?;
    Ok((name, value.to_owned()))
}

/// `source=film.mp4`, `source=upload:ID`, `source=https://…` or `source=url-in:FILE`.
pub(super) fn input(text: &str) -> Result<(String, Source), String> {
    let (name, value) = split(text)?;
    let source = if let Some(id) = value.strip_prefix("upload:") {
        let id = id.parse();
        Source::Upload(id.map_err(|_| format!("{value:?} does not name the id of an upload"))?)
    } else if let Some(file) = value.strip_prefix("url-in:") {
        let written = std::fs::read_to_string(file);
        let written = written.map_err(|error| format!("{file} cannot be read: {error}"))?;
        Source::Url(SecretUrl::new(written.trim()))
    } else if value.starts_with("https://") || value.starts_with("http://") {
        Source::Url(SecretUrl::new(value))
    } else if value.is_empty() {
        return Err("write NAME=FILE, such as source=film.mp4".to_owned());
    } else {
        Source::File(PathBuf::from(value))
    };
    Ok((name, source))
}

fn split(text: &str) -> Result<(String, &str), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value)),
        _ => Err("write NAME=VALUE, such as height=720".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_json_where_they_can_be_and_text_otherwise() {
        for (text, value) in [
            ("a=720", json!(720)),
            ("a=h264", json!("h264")),
            ("a=\"720\"", json!("720")),
            ("a=true", json!(true)),
            ("a={\"b\":[1]}", json!({ "b": [1] })),
            ("a=", json!("")),
            ("a=x=y", json!("x=y")),
        ] {
            assert_eq!(parameter(text), Ok(("a".to_owned(), value)), "{text}");
        }
        for bad in [
            "height", "=1", "a={", "a=[1,", "a=\"b", "a..b=1", ".a=1", "a[0].b=1",
        ] {
            assert!(parameter(bad).is_err(), "{bad}");
        }
        assert_eq!(word("order=42"), Ok(("order".to_owned(), "42".to_owned())));
    }

    #[test]
    fn an_input_is_a_file_an_upload_or_an_address() {
        let id = UploadId::new();
        let upload = input(&format!("source=upload:{id}")).unwrap();
        assert_eq!(upload, ("source".to_owned(), Source::Upload(id)));
        let file = input("source=a=b.mp4").unwrap();
        assert_eq!(file.1, Source::File(PathBuf::from("a=b.mp4")));
        assert!(input("source=upload:x").is_err() && input("source=").is_err());
        let address = "https://files.example/a?sig=b=c";
        let url = Source::Url(SecretUrl::new(address));
        assert_eq!(input(&format!("source={address}")).unwrap().1, url);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("address");
        std::fs::write(&file, format!("{address}\n")).unwrap();
        let named = format!("source=url-in:{}", file.display());
        assert_eq!(input(&named).unwrap().1, url);
        assert!(input("source=url-in:/nowhere/at/all").is_err());
    }
}
