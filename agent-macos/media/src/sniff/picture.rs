//! Recognises still pictures: never as a source, only as an output that was to be one.

use std::path::Path;

use tokio::io::{AsyncReadExt, AsyncSeekExt};

use super::{Container, cannot, open, refuse};
use crate::MediaFailure;

const JPEG: &[u8] = &[0xff, 0xd8, 0xff];
const JPEG_END: &[u8] = &[0xff, 0xd9];
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
const PNG_END: &[u8] = b"\0\0\0\0IEND\xae\x42\x60\x82";
/// How ISO media call themselves that hold one picture.
const STILL_BRANDS: [&[u8]; 5] = [b"heic", b"heix", b"mif1", b"msf1", b"avif"];

/// Whether a file that begins with `head` is a still picture of a known kind.
pub(super) fn is_picture(head: &[u8]) -> bool {
    let brand = head.get(8..12).unwrap_or_default();
    [JPEG, PNG, b"GIF8", b"II*\0", b"MM\0*"]
        .iter()
        .any(|magic| head.starts_with(magic))
        || head.starts_with(b"RIFF") && brand == b"WEBP"
        || head.get(4..8) == Some(b"ftyp") && STILL_BRANDS.contains(&brand)
}

/// The container of a still picture: JPEG or PNG, whole to its last byte.
///
/// FFmpeg fills up what is missing of a JPEG with grey and exits with 0, so its end is looked at
/// here.
pub(crate) async fn sniff_picture(file: &Path) -> Result<Container, MediaFailure> {
    let (mut file, head) = open(file).await?;
    let length = file.metadata().await.map_err(|error| cannot(&error))?.len();
    let end = length.saturating_sub(PNG_END.len() as u64);
    file.seek(std::io::SeekFrom::Start(end))
        .await
        .map_err(|error| cannot(&error))?;
    let mut tail = Vec::new();
    file.take(PNG_END.len() as u64)
        .read_to_end(&mut tail)
        .await
        .map_err(|error| cannot(&error))?;
    recognise(&head, &tail).map_err(refuse)
}

fn recognise(head: &[u8], tail: &[u8]) -> Result<Container, &'static str> {
    let (container, end) = if head.starts_with(JPEG) {
        (Container::Jpeg, JPEG_END)
    } else if head.starts_with(PNG) {
        (Container::Png, PNG_END)
    } else {
        return Err("the file is neither a jpeg nor a png picture");
    };
    if tail.ends_with(end) {
        return Ok(container);
    }
    Err("the picture does not end where its file ends")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_known_by_its_beginning_and_its_end() {
        let jpeg = [JPEG, &[0xe0; 40][..]].concat();
        assert_eq!(recognise(&jpeg, JPEG_END), Ok(Container::Jpeg));
        assert_eq!(recognise(PNG, PNG_END), Ok(Container::Png));
        assert!(recognise(&jpeg, PNG_END).is_err() && recognise(PNG, JPEG_END).is_err());
        assert!(recognise(b"GIF89a", b";").is_err());
    }

    #[test]
    fn a_still_picture_is_no_source_and_is_told_so() {
        for picture in [
            JPEG,
            PNG,
            b"GIF89a",
            b"RIFF\0\0\0\0WEBPVP8 ",
            b"\0\0\0\x18ftypheic",
            b"\0\0\0\x1cftypavif",
        ] {
            let why = super::super::recognise(picture).unwrap_err();
            assert!(why.contains("still picture"), "{picture:x?}: {why}");
        }
        assert!(!is_picture(b"\0\0\0\x20ftypisom"));
    }
}
