//! Recognises files that hold nothing but sound.
//!
//! MP3 and AAC have no header of the whole file: they are frames, one after the other. Two bytes
//! are soon found in noise, so a frame must make sense and another one follow it.

use super::Container;

/// Bit rates of MPEG-1 layer III by their index, in kilobits per second.
const RATES_1: [usize; 15] = [
    0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320,
];
/// The same of MPEG-2 and 2.5, whose sampling rates are lower.
const RATES_2: [usize; 15] = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160];
/// Sampling rates of MPEG-1 by their index.
const HERTZ: [usize; 3] = [44_100, 48_000, 32_000];
/// The sampling rates that ADTS has an index for.
const ADTS_RATES: u8 = 13;

/// The bytes of the ID3 tag that a file begins with, if it does.
pub(super) fn tag_length(head: &[u8]) -> Option<u64> {
    const HEADER: u64 = 10;
    let [b'I', b'D', b'3', _, _, flags, size @ ..] = head else {
        return None;
    };
    // Seven bits of each byte, so that no tag looks like a frame.
    let size = size.get(..4)?.iter();
    let size = size.fold(0, |all, &byte| all << 7 | u64::from(byte & 0x7f));
    let footer = if flags & 0x10 == 0 { 0 } else { HEADER };
    Some(HEADER + size + footer)
}

/// The container of a file of sound that begins with `head`, if it is one.
pub(super) fn recognise(head: &[u8]) -> Option<Container> {
    // RF64 is what WAVE becomes beyond 4 GiB.
    if matches!(head.get(..4), Some(b"RIFF" | b"RF64")) && head.get(8..12) == Some(b"WAVE") {
        let is_stream = [b"RIFF\0\0\0\0", b"RIFF\xff\xff\xff\xff"]
            .iter()
            .any(|start| head.starts_with(*start));
        return Some(if is_stream {
            Container::WavStream
        } else {
            Container::Wav
        });
    }
    if head.starts_with(b"fLaC") {
        return Some(Container::Flac);
    }
    if are_frames(head, mp3_frame) {
        return Some(Container::Mp3);
    }
    are_frames(head, adts_frame).then_some(Container::Adts)
}

/// Whether `head` begins with a frame and, as far as it reaches, with another one after it.
fn are_frames(head: &[u8], length: fn(&[u8]) -> Option<usize>) -> bool {
    let Some(first) = length(head) else {
        return false;
    };
    match head.get(first..) {
        Some(next) if next.len() >= 4 => length(next).is_some(),
        Some(_) | None => true,
    }
}

/// The bytes of the layer III frame that `bytes` begin with.
fn mp3_frame(bytes: &[u8]) -> Option<usize> {
    let [0xff, version_and_layer, rates, _, ..] = *bytes else {
        return None;
    };
    // Eleven bits are set, the version is not the reserved one, the layer is III.
    if version_and_layer & 0xe6 != 0xe2 || version_and_layer & 0x18 == 0x08 {
        return None;
    }
    let first_version = version_and_layer & 0x18 == 0x18;
    let (rates_known, samples) = if first_version {
        (RATES_1, 1152)
    } else {
        (RATES_2, 576)
    };
    let kbps = *rates_known.get(usize::from(rates >> 4))?;
    let hertz = *HERTZ.get(usize::from(rates >> 2 & 3))?;
    let hertz = match version_and_layer & 0x18 {
        0x18 => hertz,
        0x10 => hertz / 2,
        _ => hertz / 4,
    };
    let padding = usize::from(rates >> 1 & 1);
    // Without a stated rate (index 0) nothing says where the next frame is.
    (kbps > 0).then(|| samples / 8 * kbps * 1000 / hertz + padding)
}

/// The bytes of the ADTS frame that `bytes` begin with.
fn adts_frame(bytes: &[u8]) -> Option<usize> {
    let [0xff, sync, config, high, middle, low, ..] = *bytes else {
        return None;
    };
    // Twelve bits are set and the layer is 0.
    if sync & 0xf6 != 0xf0 || config >> 2 & 0x0f >= ADTS_RATES {
        return None;
    }
    let length = usize::from(high & 3) << 11 | usize::from(middle) << 3 | usize::from(low) >> 5;
    (length > 7).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two frames of so many bytes with this beginning.
    fn twice(start: &[u8], length: usize) -> Vec<u8> {
        let mut frame = start.to_vec();
        frame.resize(length, 0);
        frame.repeat(2)
    }

    #[test]
    fn mp3_of_every_version_is_known_by_two_frames() {
        // 64 kbit/s at 44.1 kHz; 32 kbit/s at 22.05 kHz; 8 kbit/s at 8 kHz.
        for (start, length) in [
            ([0xff, 0xfb, 0x50, 0xc4], 208),
            ([0xff, 0xfa, 0x50, 0xc4], 208),
            ([0xff, 0xf3, 0x40, 0xc4], 104),
            ([0xff, 0xe3, 0x18, 0xc4], 72),
        ] {
            assert_eq!(
                recognise(&twice(&start, length)),
                Some(Container::Mp3),
                "{start:x?}"
            );
            assert_eq!(recognise(&twice(&start, length + 1)), None, "{start:x?}");
        }
    }

    #[test]
    fn a_tag_is_as_long_as_it_says_with_its_header_and_footer() {
        assert_eq!(tag_length(b"ID3\x04\0\0\0\0\x02\x01rest"), Some(10 + 257));
        assert_eq!(tag_length(b"ID3\x04\0\x10\0\0\x02\x01"), Some(20 + 257));
        assert_eq!(tag_length(b"ID3\x04\0\0\0\0\x02"), None);
        assert_eq!(tag_length(b"RIFF\0\0\0\0\0\0\0\0"), None);
    }

    #[test]
    fn aac_is_known_by_two_frames() {
        let frame = twice(&[0xff, 0xf1, 0x50, 0x40, 0x26, 0xdf, 0xfc, 0xde], 310);
        assert_eq!(recognise(&frame), Some(Container::Adts));
        assert_eq!(recognise(&frame[1..]), None);
    }

    #[test]
    fn wave_and_flac_are_known_and_what_only_resembles_sound_is_not() {
        assert_eq!(recognise(b"RIFF\x24\x10\0\0WAVEfmt "), Some(Container::Wav));
        for unknown in [&b"RIFF\0\0\0\0WAVE"[..], b"RIFF\xff\xff\xff\xffWAVE"] {
            assert_eq!(recognise(unknown), Some(Container::WavStream));
        }
        assert_eq!(recognise(b"RF64\xff\xff\xff\xffWAVE"), Some(Container::Wav));
        assert_eq!(recognise(b"fLaC\0\0\0\x22"), Some(Container::Flac));
        for odd in [
            &b"RIFF\0\0\0\0WEBP"[..],
            b"flac",
            // UTF-16, a layer, a bit rate and a sampling rate that there are not.
            b"\xff\xfea\0b\0c\0",
            b"\xff\xf9\xff\xff\xff\xff\xff\xff",
            b"\xff\xfb\xf0\0\0\0",
            b"\xff\xfb\x5c\0\0\0",
            b"\xff",
        ] {
            assert_eq!(recognise(odd), None, "{odd:x?}");
        }
    }
}
