//! A link is worth exactly what was signed.

use time::OffsetDateTime;

use super::*;

fn signer(fill: u8) -> LinkSigner {
    LinkSigner::new(SigningKey::new(vec![fill; 32]).unwrap())
}

fn grant() -> Grant {
    Grant {
        key: "outputs/a/b/output.mp4".to_owned(),
        direction: Direction::Put,
        expires_at_micros: 1_700_000_000_000_001,
        max_bytes: 1 << 40,
        holder: Holder::Attempt(AttemptId::new()),
        file_name: Some("a.mp4".to_owned()),
    }
}

fn token(link: &str) -> String {
    link.strip_prefix("/v1/blobs/").unwrap().to_owned()
}

#[test]
fn a_signed_link_opens_to_the_same_grant() {
    for holder in [
        Holder::Attempt(AttemptId::new()),
        Holder::Upload(UploadId::new()),
        Holder::Buyer,
    ] {
        let grant = Grant { holder, ..grant() };
        assert_eq!(signer(1).open(&token(&signer(1).sign(&grant))), Ok(grant));
    }
}

#[test]
fn a_link_is_one_path_segment_of_plain_characters() {
    let token = token(&signer(1).sign(&grant()));
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    assert!(token.chars().all(plain), "{token}");
}

#[test]
fn any_changed_character_closes_a_link() {
    let token = token(&signer(1).sign(&grant()));
    for position in 0..token.len() {
        let mut changed = token.clone().into_bytes();
        changed[position] = if changed[position] == b'A' {
            b'B'
        } else {
            b'A'
        };
        let changed = String::from_utf8(changed).unwrap();
        assert_eq!(signer(1).open(&changed), Err(LinkError), "{position}");
    }
}

#[test]
fn another_key_a_missing_part_or_a_longer_mac_opens_nothing() {
    let token = token(&signer(1).sign(&grant()));
    assert_eq!(signer(2).open(&token), Err(LinkError));
    let (payload, mac) = token.split_once('.').unwrap();
    for wrong in [
        payload.to_owned(),
        format!("{payload}."),
        format!(".{mac}"),
        format!("{token}.{mac}"),
        format!("{token}AAAA"),
        String::new(),
    ] {
        assert_eq!(signer(1).open(&wrong), Err(LinkError), "{wrong}");
    }
}

#[test]
fn a_grant_is_expired_at_equality_and_not_a_microsecond_before() {
    let at = |micros: i128| OffsetDateTime::from_unix_timestamp_nanos(micros * 1_000).unwrap();
    assert!(!grant().is_expired(at(1_700_000_000_000_000)));
    assert!(grant().is_expired(at(1_700_000_000_000_001)));
    assert!(grant().is_expired(at(1_700_000_000_000_002)));
}

#[test]
fn short_keys_are_refused_and_no_key_is_ever_shown() {
    assert!(SigningKey::new(vec![7; 31]).is_err());
    assert_eq!(
        format!("{:?}", signer(7)),
        "LinkSigner { key: SigningKey(..) }"
    );
}
