//! Recognises a container by its first bytes, before FFmpeg sees the file.
//!
//! FFmpeg guesses too, and its guess includes playlists: a text named `input.mp4` can make it read
//! other files or call other hosts. So what is not one of these containers is refused, and the
//! demuxer of the one that it is, is forced.

mod picture;
mod sound;

use std::path::Path;

use tokio::io::{AsyncReadExt, AsyncSeekExt as _, SeekFrom};

use crate::{FailureCode, MediaFailure};

pub(crate) use picture::sniff_picture;

/// The containers that sources may come in and outputs are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    /// ISO media: mp4, m4v, 3gp.
    Mp4,
    /// QuickTime.
    Mov,
    /// Matroska.
    Matroska,
    /// WebM.
    Webm,
    /// MPEG transport stream.
    MpegTs,
    /// MPEG program stream.
    MpegPs,
    /// AVI.
    Avi,
    /// Flash video.
    Flv,
    /// ASF: wmv.
    Asf,
    /// Ogg.
    Ogg,
    /// Material Exchange Format.
    Mxf,
    /// MP3, which may carry a cover picture but no video.
    Mp3,
    /// AAC in ADTS frames, one after the other.
    Adts,
    /// FLAC, which may carry a cover picture but no video.
    Flac,
    /// WAVE.
    Wav,
    /// WAVE from a pipe: its header was written before anybody knew how long it would be.
    WavStream,
    /// A JPEG picture. Never a source: a still picture is no video.
    Jpeg,
    /// A PNG picture. Never a source.
    Png,
}

impl Container {
    /// Name of FFmpeg's demuxer.
    pub fn demuxer(self) -> &'static str {
        match self {
            Self::Mp4 | Self::Mov => "mov",
            Self::Matroska | Self::Webm => "matroska",
            Self::MpegTs => "mpegts",
            Self::MpegPs => "mpeg",
            Self::Avi => "avi",
            Self::Flv => "flv",
            Self::Asf => "asf",
            Self::Ogg => "ogg",
            Self::Mxf => "mxf",
            Self::Mp3 => "mp3",
            Self::Adts => "aac",
            Self::Flac => "flac",
            Self::Wav | Self::WavStream => "wav",
            Self::Jpeg => "jpeg_pipe",
            Self::Png => "png_pipe",
        }
    }

    /// What that demuxer has to be told.
    pub(crate) fn demuxer_options(self) -> &'static [&'static str] {
        match self {
            Self::WavStream => &["-ignore_length", "1"],
            _ => &[],
        }
    }

    /// The name shown to people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mp4 => "mp4",
            Self::Mov => "mov",
            Self::Matroska => "matroska",
            Self::Webm => "webm",
            Self::MpegTs => "mpegts",
            Self::MpegPs => "mpegps",
            Self::Avi => "avi",
            Self::Flv => "flv",
            Self::Asf => "asf",
            Self::Ogg => "ogg",
            Self::Mxf => "mxf",
            Self::Mp3 => "mp3",
            Self::Adts => "aac",
            Self::Flac => "flac",
            Self::Wav => "wav",
            Self::WavStream => "wav without a length",
            Self::Jpeg => "jpeg",
            Self::Png => "png",
        }
    }

    /// Whether a stated duration can be believed. Streams without an index only have a guess made
    /// from their bit rate or from their last time stamp, which may have started over.
    pub fn states_duration(self) -> bool {
        matches!(
            self,
            Self::Mp4
                | Self::Mov
                | Self::Matroska
                | Self::Webm
                | Self::Mxf
                | Self::Flac
                | Self::Wav
        )
    }

    /// Whether a seek leads to a frame that everything from a time on can be decoded from. Without
    /// an index it leads to a guess, which may be past what was asked for.
    pub(crate) fn finds_times(self) -> bool {
        self.states_duration()
    }

    /// Whether it is made for lossy transport: recordings of broadcasts have gaps at every joint
    /// and are played all the same. A file from a pipe ends where it ends, also within a packet.
    pub fn survives_damage(self) -> bool {
        matches!(self, Self::MpegTs | Self::MpegPs | Self::WavStream)
    }
}

const HEAD: u64 = 4096;

/// Reads the beginning of a regular file and recognises its container.
pub(crate) async fn sniff(file: &Path) -> Result<Container, MediaFailure> {
    let (mut file, head) = open(file).await?;
    let Some(tag) = sound::tag_length(&head) else {
        return recognise(&head).map_err(refuse);
    };
    // Not only mp3 has tags in front, which may be longer than what was read.
    let mut sound = Vec::new();
    file.seek(SeekFrom::Start(tag))
        .await
        .map_err(|error| cannot(&error))?;
    file.take(HEAD)
        .read_to_end(&mut sound)
        .await
        .map_err(|error| cannot(&error))?;
    Ok(sound::recognise(&sound).unwrap_or(Container::Mp3))
}

/// A regular file and its beginning.
async fn open(file: &Path) -> Result<(tokio::fs::File, Vec<u8>), MediaFailure> {
    // Asked before opening: opening a FIFO would wait for its writer.
    let metadata = tokio::fs::metadata(file)
        .await
        .map_err(|error| cannot(&error))?;
    if !metadata.is_file() {
        return Err(refuse("not a regular file"));
    }
    let mut head = Vec::new();
    let mut file = tokio::fs::File::open(file)
        .await
        .map_err(|error| cannot(&error))?;
    (&mut file)
        .take(HEAD)
        .read_to_end(&mut head)
        .await
        .map_err(|error| cannot(&error))?;
    Ok((file, head))
}

fn cannot(error: &std::io::Error) -> MediaFailure {
    MediaFailure::io("the file cannot be read", error)
}

fn refuse(why: &str) -> MediaFailure {
    MediaFailure::new(FailureCode::InputInvalid, why)
}

/// The container of a file that begins with `head`, or why there is none.
pub(crate) fn recognise(head: &[u8]) -> Result<Container, &'static str> {
    let at = |offset: usize, magic: &[u8]| {
        head.get(offset..offset + magic.len())
            .is_some_and(|found| found == magic)
    };
    if picture::is_picture(head) {
        return Err("the file is a still picture or an animated one, not video or sound");
    }
    let box_name = head.get(4..8).unwrap_or_default();
    if box_name == b"ftyp" {
        return Ok(if at(8, b"qt  ") {
            Container::Mov
        } else {
            Container::Mp4
        });
    }
    if [&b"moov"[..], b"mdat", b"free", b"skip", b"wide", b"pnot"].contains(&box_name) {
        return Ok(Container::Mov);
    }
    if at(0, &[0x1a, 0x45, 0xdf, 0xa3]) {
        let webm = head.iter().take(64).copied().collect::<Vec<_>>();
        let is_webm = webm.windows(4).any(|word| word == b"webm");
        return Ok(if is_webm {
            Container::Webm
        } else {
            Container::Matroska
        });
    }
    let packets = |start: usize, size: usize| (0..3).all(|n| at(start + n * size, &[0x47]));
    if packets(0, 188) || packets(4, 192) {
        return Ok(Container::MpegTs);
    }
    let known: [(&[u8], Container); 5] = [
        (&[0x00, 0x00, 0x01, 0xba], Container::MpegPs),
        (b"FLV\x01", Container::Flv),
        (
            &[0x30, 0x26, 0xb2, 0x75, 0x8e, 0x66, 0xcf, 0x11],
            Container::Asf,
        ),
        (b"OggS", Container::Ogg),
        (&[0x06, 0x0e, 0x2b, 0x34], Container::Mxf),
    ];
    if let Some((_, container)) = known.iter().find(|(magic, _)| at(0, magic)) {
        return Ok(*container);
    }
    if at(0, b"RIFF") && at(8, b"AVI ") {
        return Ok(Container::Avi);
    }
    sound::recognise(head).ok_or_else(|| explain(head))
}

fn explain(head: &[u8]) -> &'static str {
    let is_text = std::str::from_utf8(&head[..head.len().min(64)])
        .is_ok_and(|text| text.chars().all(|c| !c.is_control() || c.is_whitespace()));
    if head.is_empty() {
        "the file is empty"
    } else if is_text {
        "the file is text, not video; playlists and pages are not followed"
    } else {
        "the file is not in a container that this service reads"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_make_ffmpeg_follow_other_files_are_no_container() {
        for text in [
            "#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd",
            "ffconcat version 1.0\nfile canary.mp4",
            "v=0\no=- 0 0 IN IP4 127.0.0.1",
            "<?xml version=\"1.0\"?><MPD/>",
            "<!doctype html><title>404</title>",
            "\u{feff}#EXTM3U",
        ] {
            assert!(
                recognise(text.as_bytes()).unwrap_err().contains("text"),
                "{text}"
            );
        }
    }

    #[test]
    fn quicktime_and_mp4_and_webm_and_matroska_are_told_apart() {
        assert_eq!(recognise(b"\0\0\0\x14ftypqt  "), Ok(Container::Mov));
        assert_eq!(recognise(b"\0\0\0\x20ftypisom"), Ok(Container::Mp4));
        let ebml = b"\x1a\x45\xdf\xa3\x9f\x42\x82\x84webm";
        assert_eq!(recognise(ebml), Ok(Container::Webm));
        assert_eq!(
            recognise(b"\x1a\x45\xdf\xa3\x9f\x42\x82\x88matroska"),
            Ok(Container::Matroska)
        );
    }

    #[test]
    fn nothing_and_one_byte_and_noise_are_refused() {
        for noise in [&b""[..], b"\0", b"\x01\x02\x03\x04\x05\x06\x07\x08\x09"] {
            assert!(recognise(noise).is_err());
        }
    }
}
