//! What the head of an answer of a host of the buyer's choice means for the input that is fetched there.

use std::time::Duration;

use reqwest::header::{CONTENT_ENCODING, CONTENT_RANGE, ETAG, HeaderMap, HeaderName, RETRY_AFTER};
use reqwest::{Response, StatusCode};

/// A body that can be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Begins {
    /// Which byte of the file it begins with.
    pub(super) at: u64,
    /// How many bytes the file has, if that is said.
    pub(super) total: Option<u64>,
    /// The host's name for this version of the file, if it is one that can be relied on.
    pub(super) tag: Option<String>,
}

/// An answer without a body for us, in words for the buyer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refused {
    /// Asking again does not help.
    Final(String),
    /// It may, perhaps after so long.
    Again(Option<Duration>, String),
    /// It may if all of the file is asked for.
    StartOver(String),
}

/// Judges the answer to a request for the file from byte `asked` on, in the version `tag`.
pub(super) fn judge(response: &Response, asked: u64, tag: Option<&str>) -> Result<Begins, Refused> {
    let headers = response.headers();
    judge_head(response.status(), headers, (asked, tag)).map(|mut begins| {
        // Where the body has no length, the client says none.
        let length = response.content_length();
        begins.total = begins.total.or(length.map(|length| begins.at + length));
        begins
    })
}

fn judge_head(
    status: StatusCode,
    headers: &HeaderMap,
    (asked, tag): (u64, Option<&str>),
) -> Result<Begins, Refused> {
    let start_over = |what: &str| Err(Refused::StartOver(what.to_owned()));
    if status.is_success() && is_packed(headers) {
        let what =
            "the buyer's URL answered with packed bytes (content-encoding), not with the file";
        return Err(Refused::Final(what.to_owned()));
    }
    match status {
        StatusCode::OK => Ok(Begins {
            at: 0,
            total: None,
            tag: strong_tag(headers),
        }),
        StatusCode::PARTIAL_CONTENT if asked > 0 => {
            let range = text(headers, &CONTENT_RANGE).and_then(content_range);
            let answered = strong_tag(headers);
            match range {
                Some((start, total))
                    if start == asked && answered.as_deref().is_none_or(|one| Some(one) == tag) =>
                {
                    Ok(Begins {
                        at: asked,
                        total,
                        tag: tag.map(str::to_owned),
                    })
                }
                _ => start_over("the buyer's URL answered with another part than was asked for"),
            }
        }
        StatusCode::RANGE_NOT_SATISFIABLE if asked > 0 => {
            start_over("the buyer's URL has not what was there before")
        }
        _ => Err(refused(status, headers)),
    }
}

fn refused(status: StatusCode, headers: &HeaderMap) -> Refused {
    let what = format!("the buyer's URL answered HTTP {status}");
    match status.as_u16() {
        300..400 => Refused::Final(format!(
            "{what}: redirects are not followed, so give the address that it leads to"
        )),
        408 | 425 | 429 | 500.. => {
            let seconds = text(headers, &RETRY_AFTER).and_then(|text| text.trim().parse().ok());
            Refused::Again(seconds.map(Duration::from_secs), what)
        }
        _ => Refused::Final(what),
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

fn is_packed(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_ENCODING)
        .is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// A weak tag stands for bytes that only look alike.
fn strong_tag(headers: &HeaderMap) -> Option<String> {
    let tag = text(headers, &ETAG)?;
    let is_strong = tag.len() > 2 && tag.starts_with('"') && tag.ends_with('"');
    is_strong.then(|| tag.to_owned())
}

/// `bytes 9-24/25` or `bytes 9-24/*`: where it starts, and how much there is.
fn content_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (start, end) = range.split_once('-')?;
    let (start, end): (u64, u64) = (start.parse().ok()?, end.parse().ok()?);
    let total = match total {
        "*" => None,
        total => Some(total.parse().ok()?),
    };
    let is_to_the_end = total.is_none_or(|total: u64| end.checked_add(1) == Some(total));
    (start <= end && is_to_the_end).then_some((start, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(HeaderName, &str)]) -> HeaderMap {
        let lines = lines.iter();
        lines
            .map(|(name, value)| (name.clone(), value.parse().unwrap()))
            .collect()
    }

    fn head(status: u16, lines: &[(HeaderName, &str)], asked: u64) -> Result<Begins, Refused> {
        let status = StatusCode::from_u16(status).unwrap();
        judge_head(status, &headers(lines), (asked, Some("\"v1\"")))
    }

    #[test]
    fn an_answer_goes_on_only_where_it_was_cut_and_only_in_the_same_version() {
        let range = (CONTENT_RANGE, "bytes 9-24/25");
        let tag = (ETAG, "\"v1\"");
        let goes_on = Begins {
            at: 9,
            total: Some(25),
            tag: Some("\"v1\"".to_owned()),
        };
        assert_eq!(
            head(206, &[range.clone(), tag.clone()], 9),
            Ok(goes_on.clone())
        );
        assert_eq!(head(206, std::slice::from_ref(&range), 9), Ok(goes_on));
        let from_the_start = head(200, std::slice::from_ref(&tag), 9).unwrap();
        assert_eq!(
            (from_the_start.at, from_the_start.tag.as_deref()),
            (0, Some("\"v1\""))
        );
        for (lines, asked) in [
            (vec![range.clone(), tag.clone()], 8),
            (vec![range.clone(), (ETAG, "\"v2\"")], 9),
            (vec![tag.clone()], 9),
            (vec![(CONTENT_RANGE, "bytes 9-20/25"), tag.clone()], 9),
            (vec![(CONTENT_RANGE, "bytes 9-8/*"), tag.clone()], 9),
            (vec![(CONTENT_RANGE, "lines 9-24/25"), tag.clone()], 9),
        ] {
            let judged = head(206, &lines, asked);
            assert!(matches!(judged, Err(Refused::StartOver(_))), "{lines:?}");
        }
        assert!(matches!(head(416, &[], 9), Err(Refused::StartOver(_))));
        // Nobody asked for a part.
        assert!(matches!(head(206, &[range], 0), Err(Refused::Final(_))));
        assert!(matches!(head(416, &[], 0), Err(Refused::Final(_))));
    }

    #[test]
    fn what_may_pass_is_asked_again_and_everything_else_is_final() {
        for status in [408, 425, 429, 500, 502, 503, 504] {
            let judged = head(status, &[(RETRY_AFTER, "7")], 0);
            let wait = Some(Duration::from_secs(7));
            assert!(
                matches!(&judged, Err(Refused::Again(after, _)) if *after == wait),
                "{status}: {judged:?}"
            );
        }
        for status in [
            201, 204, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 405, 410, 451,
        ] {
            let judged = head(status, &[], 0);
            let Err(Refused::Final(what)) = judged else {
                panic!("{status}: {judged:?}");
            };
            assert!(what.contains(&status.to_string()), "{what}");
        }
        let packed = head(200, &[(CONTENT_ENCODING, "gzip")], 0);
        assert!(matches!(packed, Err(Refused::Final(_))), "{packed:?}");
        assert!(head(200, &[(CONTENT_ENCODING, "identity")], 0).is_ok());
    }

    #[test]
    fn a_weak_tag_is_no_tag() {
        for tag in ["W/\"v1\"", "v1", "\"\"", "\""] {
            assert_eq!(head(200, &[(ETAG, tag)], 0).unwrap().tag, None, "{tag}");
        }
    }
}
