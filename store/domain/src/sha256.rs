//! How digests of files are written: 64 hexadecimal digits in lower case, and in no other way, so that
//! equal digests are equal texts.

/// What a refusal says that they must be.
pub const EXPECTED: &str = "64 hexadecimal digits in lower case";

/// The digest that is written so.
pub fn parse(text: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    let is_lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
    let is_read = hex::decode_to_slice(text, &mut digest).is_ok();
    (is_lower && is_read).then_some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_written_in_one_way() {
        assert_eq!(parse(&"0a".repeat(32)), Some([10; 32]));
        for wrong in [
            "",
            &"0A".repeat(32),
            &"0a".repeat(31),
            &"0a".repeat(33),
            &"0g".repeat(32),
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
