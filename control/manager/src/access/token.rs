//! Tokens: their text, and what is kept of them.

use std::fmt;

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::credential::Sha256;
use crate::ChainName;

/// Begins each token, so that programs that look for secrets in texts find it.
const PREFIX: &str = "thruway_";

/// Bytes of the secret: 256 bits, so that no guess and no search of hashes finds it.
const SECRET_LEN: usize = 32;

/// A token as its owner has it: `thruway_NAME.SECRET`, the secret in 64 hexadecimal digits.
///
/// Neither `Debug` nor any error shows the secret.
pub struct Token {
    /// Name of the credential.
    pub name: ChainName,
    secret: [u8; SECRET_LEN],
}

impl Token {
    /// A new one.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn generate(name: ChainName) -> Result<Token, &'static str> {
        let mut secret = [0; SECRET_LEN];
        let filled = SystemRandom::new().fill(&mut secret);
        filled.map_err(|_| "the system gives no random bytes")?;
        Ok(Token { name, secret })
    }

    /// Reads what [`Token::text`] wrote.
    pub fn parse(text: &str) -> Option<Token> {
        let (name, digits) = text.strip_prefix(PREFIX)?.split_once('.')?;
        let digits = digits.as_bytes();
        if digits.len() != 2 * SECRET_LEN {
            return None;
        }
        let mut secret = [0; SECRET_LEN];
        for (byte, pair) in secret.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
        }
        Some(Token { name: ChainName::new(name).ok()?, secret })
    }

    /// What its owner is given, once.
    pub fn text(&self) -> String {
        format!("{PREFIX}{}.{}", self.name, hex(&self.secret))
    }

    /// What is kept of it.
    pub fn hash(&self) -> Sha256 {
        sha256(&self.secret)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({}, ...)", self.name)
    }
}

/// The value of a lower-case hexadecimal digit.
fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

/// Bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The hash of bytes.
pub fn sha256(bytes: &[u8]) -> Sha256 {
    let mut hash = Sha256::default();
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}

/// The hash of the first certificate of a PEM text.
///
/// # Errors
/// It has none.
pub fn certificate_of_pem(text: &[u8]) -> Result<Sha256, String> {
    let found = CertificateDer::from_pem_slice(text);
    let found = found.map_err(|error| format!("no certificate in PEM: {error}"))?;
    Ok(sha256(&found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> ChainName {
        ChainName::new("ci-1").expect("a name")
    }

    #[test]
    fn a_token_is_read_as_it_was_written_and_each_is_another() {
        let token = Token::generate(name()).expect("random bytes");
        let again = Token::parse(&token.text()).expect("a token");
        assert_eq!((again.name.as_str(), again.hash()), ("ci-1", token.hash()));
        let other = Token::generate(name()).expect("random bytes");
        assert_ne!(other.hash(), token.hash());
        let shown = format!("{token:?}");
        assert!(!shown.contains(&token.text()[PREFIX.len() + 5..]), "{shown}");
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let digits = "0".repeat(64);
        assert!(Token::parse(&format!("thruway_a.{digits}")).is_some());
        let others = [
            String::new(),
            "thruway_".to_owned(),
            digits.clone(),
            format!("thruway_{digits}"),
            format!("thruway_A.{digits}"),
            format!("thruway_.{digits}"),
            format!("thruway_a.{digits}0"),
            format!("thruway_a.{}", &digits[1..]),
            format!("thruway_a.{}G", &digits[1..]),
            format!("thruway_a.{}A", &digits[1..]),
            format!("Thruway_a.{digits}"),
            format!("thruway_a.{digits}\n"),
            format!("thruway_a.{}\u{e9}", &digits[2..]),
        ];
        for text in others {
            assert!(Token::parse(&text).is_none(), "{text}");
        }
    }

    /// RFC 6234 section 8.5, TEST1.
    #[test]
    fn the_hash_is_sha_256() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex(&sha256(b"abc")), expected);
    }
}
