//! The secret that both hosts share.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;

use ring::hmac;

/// Fewest bytes of a key, without white space at its ends.
const LEN_MIN: usize = 16;
/// Most bytes of a key's file.
const LEN_MAX: u64 = 4096;

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("KEY {0}: {1}")]
    Unreadable(String, std::io::Error),
    /// Others may read it.
    #[error("KEY {0}: other users may read it (mode {1:o}); chmod 600 {0}")]
    Open(String, u32),
    /// It has too few bytes, or too many.
    #[error(
        "KEY {0}: a key has {LEN_MIN} to {LEN_MAX} bytes; write one with: head -c 32 /dev/urandom \
         | base64 > {0}"
    )]
    Length(String),
}

/// The secret.
#[derive(Clone)]
pub struct Key(hmac::Key);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// Of these bytes.
    pub fn of_bytes(bytes: &[u8]) -> Key {
        Key(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// Of a file.
    ///
    /// # Errors
    /// As [`KeyError`].
    pub fn of_file(name: &str) -> Result<Key, KeyError> {
        let unreadable = |error| KeyError::Unreadable(name.to_owned(), error);
        let file = File::open(name).map_err(unreadable)?;
        let mode = file.metadata().map_err(unreadable)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(KeyError::Open(name.to_owned(), mode));
        }
        let mut bytes = Vec::new();
        file.take(LEN_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        let secret = bytes.trim_ascii();
        if secret.len() < LEN_MIN || bytes.len() as u64 > LEN_MAX {
            return Err(KeyError::Length(name.to_owned()));
        }
        Ok(Key::of_bytes(secret))
    }

    /// The key of one direction of one stream: others for each pair of random numbers, so that no
    /// frame of another stream is taken.
    pub fn of_stream(&self, direction: &str, randoms: [&[u8]; 2]) -> hmac::Key {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(direction.as_bytes());
        randoms.iter().for_each(|random| context.update(random));
        hmac::Key::new(hmac::HMAC_SHA256, context.sign().as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_no_keys_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let name = directory.path().join("key").to_str().unwrap().to_owned();
        let refused = |name: &str| Key::of_file(name).unwrap_err().to_string();
        assert!(refused(&name).contains("No such file"));
        std::fs::write(&name, "too short\n").unwrap();
        let mode = |mode| {
            std::fs::set_permissions(&name, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(0o644);
        assert!(refused(&name).contains("chmod 600"));
        mode(0o600);
        assert!(refused(&name).contains("16 to 4096"));
        std::fs::write(&name, "0123456789abcdef\n").unwrap();
        assert!(Key::of_file(&name).is_ok());
    }
}
