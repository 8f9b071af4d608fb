//! Addresses in bodies: read strictly, before the guard judges them.

use url::Url;

/// Reads an address of at most `most` bytes; the error is a problem to complain of, without the address.
pub(super) fn parse(text: &str, most: usize, example: &str) -> Result<Url, String> {
    let must_be = || format!("must be an address like {example}");
    let is_written_out = text.starts_with("https://") || text.starts_with("http://");
    // The parser would take blanks and line breaks away without a word.
    let is_odd = |c: char| c.is_whitespace() || c.is_control();
    if !is_written_out || text.contains(is_odd) {
        return Err(must_be());
    }
    let url = Url::parse(text).map_err(|_| must_be())?;
    if url.as_str().len() > most {
        return Err(format!("must have at most {most} characters"));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_written_out_and_short() {
        let read = |text: &str| parse(text, 30, "https://x.example/").map(String::from);
        assert_eq!(
            read("https://X.example:443/a?b").as_deref(),
            Ok("https://x.example/a?b")
        );
        for odd in [
            "",
            "x.example",
            "//x.example/",
            "https:x.example",
            "https:/x.example",
            "HTTPS://x.example/",
            " https://x.example/",
            "https://x.example/a b",
            "https://x.example/\n",
            "https://x.exa\tmple/",
            "https://x.example/\u{0}",
            "https://",
            "https://[::1/",
            "https://x.example:99999/",
            "file:///etc/passwd",
            "ftp://x.example/",
            "data:,x",
        ] {
            let problem = read(odd).expect_err(odd);
            assert_eq!(
                problem, "must be an address like https://x.example/",
                "{odd}"
            );
        }
        let long = read("https://x.example/0123456789abc").expect_err("31 characters");
        assert!(long.contains("at most 30"), "{long}");
    }
}
