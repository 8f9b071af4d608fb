//! How a download is named to whoever saves it (RFC 6266), whatever its name is made of.

use std::fmt::Write as _;

/// What stands in the header `Content-Disposition` of a file that is to be saved, never shown: with its
/// name, if it has one. A name that is not plain is given twice: once without what is odd in it, and
/// once in full, by its escaped bytes (RFC 8187).
pub fn attachment(name: Option<&str>) -> String {
    let Some(name) = name else {
        return "attachment".to_owned();
    };
    let is_odd =
        |c: char| !(c.is_ascii_graphic() || c == ' ') || matches!(c, '"' | '\\' | '/' | '%');
    let plain = name.replace(is_odd, "_");
    let mut header = format!("attachment; filename=\"{plain}\"");
    if plain != name {
        header.push_str("; filename*=UTF-8''");
        for byte in name.bytes() {
            if byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~".contains(&byte) {
                header.push(char::from(byte));
            } else {
                // Writing into a text does not fail.
                let _ = write!(header, "%{byte:02X}");
            }
        }
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_name_stands_as_it_is_and_an_odd_one_twice() {
        for (name, header) in [
            ("a-1.mp4", "attachment; filename=\"a-1.mp4\""),
            ("my film.mov", "attachment; filename=\"my film.mov\""),
            (
                "ü \"x\".log",
                "attachment; filename=\"_ _x_.log\"; filename*=UTF-8''%C3%BC%20%22x%22.log",
            ),
            (
                "a%20b",
                "attachment; filename=\"a_20b\"; filename*=UTF-8''a%2520b",
            ),
        ] {
            assert_eq!(attachment(Some(name)), header);
        }
        assert_eq!(attachment(None), "attachment");
    }

    #[test]
    fn no_name_breaks_out_of_the_header_or_the_folder() {
        for name in [
            "a\r\nSet-Cookie: x",
            "\";filename=evil.exe",
            "../../etc/passwd",
            "\u{7f}\0",
        ] {
            let header = attachment(Some(name));
            assert!(
                header.bytes().all(|byte| (b' '..=b'~').contains(&byte)),
                "{header}"
            );
            let inner = header.strip_prefix("attachment; filename=\"").unwrap();
            let (plain, rest) = inner.split_once('"').unwrap();
            assert!(!plain.contains('/'), "{header}");
            assert!(rest.starts_with("; filename*=UTF-8''"), "{header}");
            assert!(!rest[2..].contains([';', '"', '/', ' ']), "{header}");
        }
    }
}
