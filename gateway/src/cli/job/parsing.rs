//! What is written on the command line as `name=value`.

use std::io::{self, Read as _};
use std::path::PathBuf;

use fencepost_domain::ids::UploadId;
use serde_json::Value;

use super::address::{Address, Unfit, address, scheme};

/// The longest file with an address that is read, in bytes: twice the longest address that is taken.
const MAX_FILE_BYTES: usize = 8 * 1024;
/// What stands for standard input.
const STDIN: &str = "-";

/// Where an input comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// A file, to be sent.
    File(PathBuf),
    /// A file that was sent before.
    Upload(UploadId),
    /// An address from where the Mac fetches it.
    Url(Address),
}

/// An input by its name.
pub(super) type Named = (String, Result<Source, Unfit>);

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

/// `source=film.mp4`, `source=upload:ID`, `source=https://…` or `source=url-in:FILE`; an address may end
/// with `#sha256=…`.
pub(super) fn input(text: &str) -> Result<Named, String> {
    let (name, value) = split(text)?;
    let source = if let Some(id) = value.strip_prefix("upload:") {
        let id = id.parse();
        let id = id.map_err(|_| format!("{value:?} does not name the id of an upload"))?;
        Ok(Source::Upload(id))
    } else if let Some(file) = value.strip_prefix("url-in:") {
        address(&written_in(file)?).map(Source::Url)
    } else if scheme(value).is_some() {
        address(value).map(Source::Url)
    } else if value.is_empty() {
        return Err("write NAME=FILE, such as source=film.mp4".to_owned());
    } else {
        Ok(Source::File(PathBuf::from(value)))
    };
    Ok((name, source))
}

/// The one line that is written in a file, or comes by standard input if the file is called `-`. What is
/// wrong is said without a word of what is in it.
fn written_in(file: &str) -> Result<String, String> {
    let name = if file == STDIN {
        "standard input"
    } else {
        file
    };
    let wrong = |what: &str| Err(format!("{name} {what}; it must hold one address"));
    let mut bytes = Vec::new();
    let most = MAX_FILE_BYTES as u64 + 1;
    let read = if file == STDIN {
        io::stdin().lock().take(most).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(most).read_to_end(&mut bytes))
    };
    read.map_err(|error| format!("{name} cannot be read: {error}"))?;
    if bytes.len() > MAX_FILE_BYTES {
        return wrong(&format!("has more than {MAX_FILE_BYTES} bytes"));
    }
    let Ok(text) = str::from_utf8(&bytes) else {
        return wrong("is no text (UTF-8)");
    };
    match text.trim() {
        "" => wrong("is empty"),
        line if line.contains(['\n', '\r']) => wrong("has several lines"),
        line => Ok(line.to_owned()),
    }
}

fn split(text: &str) -> Result<(String, &str), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value)),
        _ => Err("write NAME=VALUE, such as height=720".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use fencepost_domain::secret_url::SecretUrl;
    use serde_json::json;

    use super::*;

    fn at(url: &str) -> Source {
        Source::Url(Address {
            url: SecretUrl::new(url),
            sha256: None,
            size_bytes: None,
        })
    }

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
        assert_eq!(upload, ("source".to_owned(), Ok(Source::Upload(id))));
        let file = input("source=a=b.mp4").unwrap();
        assert_eq!(file.1, Ok(Source::File(PathBuf::from("a=b.mp4"))));
        assert!(input("source=upload:x").is_err() && input("source=").is_err());
        let address = "https://files.example/a?sig=b=c";
        let url = Ok(at(address));
        assert_eq!(input(&format!("source={address}")).unwrap().1, url);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("address");
        std::fs::write(&file, format!("{address}\n")).unwrap();
        let named = format!("source=url-in:{}", file.display());
        assert_eq!(input(&named).unwrap().1, url);
        assert!(input("source=url-in:/nowhere/at/all").is_err());
    }
    #[test]
    fn a_scheme_is_known_in_any_case_and_what_no_mac_fetches_from_is_no_file() {
        for text in [
            "https://x.example/A?b=C",
            "HTTPS://x.example/A?b=C",
            "hTTps://x.example/A?b=C",
        ] {
            let url = Ok(at("https://x.example/A?b=C"));
            assert_eq!(input(&format!("source={text}")).unwrap().1, url, "{text}");
        }
        for (text, scheme) in [
            ("ftp://x.example/a", "ftp"),
            ("S3://bucket/a", "s3"),
            ("file:///etc/passwd", "file"),
            ("git+ssh://x.example/a", "git+ssh"),
        ] {
            let foreign = Err(Unfit::Scheme(scheme.to_owned()));
            assert_eq!(input(&format!("source={text}")).unwrap().1, foreign);
        }
        for text in ["./https://a", "a b://c", "1://a", "://a", "/https:/a"] {
            let file = Ok(Source::File(PathBuf::from(text)));
            assert_eq!(input(&format!("source={text}")).unwrap().1, file);
        }
    }

    #[test]
    fn a_file_with_an_address_holds_one_line_and_is_named_when_it_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("address");
        let named = format!("source=url-in:{}", file.display());
        let longest = format!("https://x.example/{}", "s".repeat(MAX_FILE_BYTES - 18));
        for (bytes, says) in [
            (&b""[..], "is empty"),
            (b" \n\n", "is empty"),
            (
                b"https://x.example/s3cret\nhttps://x.example/",
                "has several lines",
            ),
            (b"https://x.example/s3cret\rx", "has several lines"),
            (format!("{longest}s").as_bytes(), "has more than 8192 bytes"),
            (b"https://x.example/s3cret\xff", "is no text"),
        ] {
            std::fs::write(&file, bytes).unwrap();
            let refused = input(&named).unwrap_err();
            assert!(refused.contains(says), "{refused}");
            assert!(refused.contains(&file.display().to_string()), "{refused}");
            assert!(!refused.contains("x.example"), "{refused}");
        }
        std::fs::write(&file, &longest).unwrap();
        let url = Ok(at(&longest));
        assert_eq!(input(&named).unwrap().1, url);
        std::fs::write(&file, "FTP://x.example/a\n").unwrap();
        assert_eq!(
            input(&named).unwrap().1,
            Err(Unfit::Scheme("ftp".to_owned()))
        );
    }
}
