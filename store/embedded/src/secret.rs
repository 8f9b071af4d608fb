//! The password and what contains it: shapes whose `Debug` shows nothing.

use std::fmt;

/// Bytes of randomness in the generated password.
const PASSWORD_BYTES: usize = 24;

/// The generated password of the server's one role; lower-case hex, so it needs no escaping.
pub(crate) struct Password(String);

impl Password {
    pub(crate) fn generate() -> Self {
        use fmt::Write as _;
        let bytes: [u8; PASSWORD_BYTES] = rand::random();
        let mut hex = String::with_capacity(2 * PASSWORD_BYTES);
        for byte in bytes {
            let _ = write!(hex, "{byte:02x}");
        }
        Self(hex)
    }

    /// Reads a stored password; `None` if it is not one that [`generate`](Self::generate) made.
    pub(crate) fn parse(stored: &str) -> Option<Self> {
        let text = stored.trim();
        let is_ours =
            text.len() == 2 * PASSWORD_BYTES && text.bytes().all(|b| b.is_ascii_hexdigit());
        is_ours.then(|| Self(text.to_owned()))
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

/// A `postgres://` URL with the password in it. It has no `Display`, and its `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct ConnectionUrl(String);

impl ConnectionUrl {
    pub(crate) fn new(user: &str, password: &Password, port: u16, database: &str) -> Self {
        let secret = password.expose();
        let database = percent_encode(database);
        Self(format!(
            "postgres://{user}:{secret}@127.0.0.1:{port}/{database}?sslmode=disable"
        ))
    }

    /// The URL itself. Hand it to a client; never to a log, an error or an argument list.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ConnectionUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConnectionUrl(..)")
    }
}

/// Escapes everything that is not unreserved in RFC 3986.
fn percent_encode(text: &str) -> String {
    use fmt::Write as _;
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::{ConnectionUrl, Password};

    #[test]
    fn debug_output_never_contains_the_password() {
        let password = Password::generate();
        let url = ConnectionUrl::new("fencepost", &password, 6543, "fencepost");
        assert!(url.expose().contains(password.expose()));
        let shown = format!("{password:?} {url:?}");
        assert_eq!(shown, "Password(..) ConnectionUrl(..)");
    }

    #[test]
    fn a_stored_password_is_read_back_and_anything_else_refused() {
        let password = Password::generate();
        let read = Password::parse(&format!("{}\n", password.expose())).unwrap();
        assert_eq!(read.expose(), password.expose());
        assert!(Password::parse("").is_none());
        assert!(Password::parse("hunter2").is_none());
        assert_ne!(password.expose(), Password::generate().expose());
    }

    #[test]
    fn odd_database_names_are_escaped_in_the_url() {
        let password = Password::generate();
        let url = ConnectionUrl::new("fencepost", &password, 1, "a b/ä");
        assert!(url.expose().ends_with(":1/a%20b%2F%C3%A4?sslmode=disable"));
    }
}
