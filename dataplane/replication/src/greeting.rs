//! What both ends send first, unsigned: who they are, and a random number each. The keys of the
//! stream are made of both.

use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::key::Key;

/// Version of the stream.
pub const VERSION: u16 = 3;
const MAGIC: [u8; 8] = *b"THRWSESS";

/// A random number.
type Random = [u8; 32];

/// What one end sends first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// A random number of its own.
    pub random: Random,
}

impl Greeting {
    /// Bytes of a greeting.
    pub const LEN: usize = 8 + 2 + 32;

    /// A new one.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new() -> Result<Greeting, String> {
        let mut random = Random::default();
        SystemRandom::new().fill(&mut random).map_err(|_| "no random numbers of the system")?;
        Ok(Greeting { random })
    }

    /// As it is sent.
    pub fn bytes(&self) -> [u8; Greeting::LEN] {
        let mut bytes = [0; Greeting::LEN];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_be_bytes());
        bytes[10..].copy_from_slice(&self.random);
        bytes
    }

    /// Of what came.
    ///
    /// # Errors
    /// It is another protocol's, or another version's.
    pub fn parse(bytes: &[u8; Greeting::LEN]) -> Result<Greeting, String> {
        let (name, rest) = bytes.split_at(8);
        let version = &rest[..2];
        if name != MAGIC {
            return Err("the other end does not speak this protocol: write the address of a \
                        Replicate on both hosts"
                .into());
        }
        if version != VERSION.to_be_bytes() {
            let theirs = version.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
            return Err(format!(
                "the other host speaks version {theirs} and this one {VERSION}: run the same \
                 release on both hosts"
            ));
        }
        let random = bytes.last_chunk().copied().unwrap_or_default();
        Ok(Greeting { random })
    }
}

/// The keys of a stream: of the frames of the host that connects, and of the one that listens.
pub(crate) fn keys(key: &Key, listener: &Greeting, caller: &Greeting) -> [hmac::Key; 2] {
    let randoms = [&listener.random[..], &caller.random];
    ["caller", "listener"].map(|direction| key.of_stream(direction, randoms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_protocols_and_versions_are_refused() {
        let greeting = Greeting::new().unwrap();
        let mut bytes = greeting.bytes();
        assert_eq!(Greeting::parse(&bytes), Ok(greeting));
        bytes[9] = 7;
        assert!(Greeting::parse(&bytes).unwrap_err().contains("speaks version 7 and this one 3"));
        bytes[0] = b'G';
        assert!(Greeting::parse(&bytes).unwrap_err().contains("does not speak this protocol"));
    }
}
