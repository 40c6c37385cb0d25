//! Bidirectional forwarding detection: control packets (RFC 5880 section 4.1).

use crate::{Defect, Extent, Header, Layer, ParseError};
use zerocopy::byteorder::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// UDP destination port of a single hop (RFC 5881 section 4).
pub const PORT: u16 = 3784;
/// Least UDP source port (RFC 5881 section 4).
pub const SOURCE_PORT_MIN: u16 = 49152;

/// Bits for [`BfdHeader::has`], below the two of the state (RFC 5880 section 4.1).
pub mod flag {
    /// The sender wants an answer at once.
    pub const POLL: u8 = 0x20;
    /// This is that answer.
    pub const FINAL: u8 = 0x10;
    /// There is an authentication section.
    pub const AUTHENTICATED: u8 = 0x04;
    /// The sender wants the other side to fall silent.
    pub const DEMAND: u8 = 0x02;
    /// Reserved; must be zero.
    pub const MULTIPOINT: u8 = 0x01;
}

/// Why a session went down (RFC 5880 section 4.1).
pub mod diagnostic {
    /// It did not.
    pub const NONE: u8 = 0;
    /// Nothing was heard for the detection time.
    pub const TIME_EXPIRED: u8 = 1;
    /// The other side reports that it is down.
    pub const NEIGHBOR_DOWN: u8 = 3;
    /// The operator wants it so.
    pub const ADMINISTRATIVELY_DOWN: u8 = 7;
}

/// State of a session (RFC 5880 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BfdState {
    /// Held down by the operator.
    AdminDown,
    /// Nothing was heard of late.
    Down,
    /// The other side was heard, and does not hear this one yet.
    Init,
    /// Both sides hear each other.
    Up,
}

/// The mandatory section, 24 bytes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct BfdHeader {
    version_diagnostic: u8,
    state_flags: u8,
    multiplier: u8,
    len: u8,
    my_discriminator: U32,
    your_discriminator: U32,
    desired_min_tx_us: U32,
    required_min_rx_us: U32,
    required_min_echo_rx_us: U32,
}

impl Header for BfdHeader {
    const LAYER: Layer = Layer::Bfd;

    /// Version 1; the length covers the mandatory section, that of authentication where the flag
    /// is set, and is there (RFC 5880 section 6.8.6).
    #[inline]
    fn extent(&self, available: usize) -> Result<Extent, ParseError> {
        let version = self.version_diagnostic >> 5;
        if version != 1 {
            return Err(ParseError::new(Layer::Bfd, Defect::BadVersion { version }));
        }
        let end = usize::from(self.len);
        let least = Self::LEN + if self.has(flag::AUTHENTICATED) { 2 } else { 0 };
        if end < least || end > available {
            let defect = Defect::BadTotalLength { total_len: end, len: available };
            return Err(ParseError::new(Layer::Bfd, defect));
        }
        Ok(Extent { header_len: Self::LEN, end })
    }
}

impl BfdHeader {
    /// A packet of a session in this state, all times zero.
    #[must_use]
    pub fn new(state: BfdState, diagnostic: u8, multiplier: u8) -> Self {
        let state = match state {
            BfdState::AdminDown => 0,
            BfdState::Down => 1,
            BfdState::Init => 2,
            BfdState::Up => 3u8,
        };
        Self {
            version_diagnostic: 1 << 5 | diagnostic & 0x1f,
            state_flags: state << 6,
            multiplier,
            len: Self::LEN as u8,
            my_discriminator: U32::ZERO,
            your_discriminator: U32::ZERO,
            desired_min_tx_us: U32::ZERO,
            required_min_rx_us: U32::ZERO,
            required_min_echo_rx_us: U32::ZERO,
        }
    }

    accessors! {
        /// Missed packets after which the other side is taken for gone.
        multiplier, set_multiplier: u8;
        /// The sender's number of the session; not zero.
        my_discriminator, set_my_discriminator: u32;
        /// The receiver's number of the session; zero while the sender does not know it.
        your_discriminator, set_your_discriminator: u32;
        /// Time between packets that the sender wants to send, microseconds.
        desired_min_tx_us, set_desired_min_tx_us: u32;
        /// Least time between packets that the sender takes, microseconds; zero for none at all.
        required_min_rx_us, set_required_min_rx_us: u32;
        /// The same of echo packets; zero: none.
        required_min_echo_rx_us, set_required_min_echo_rx_us: u32;
    }

    /// The sender's state.
    #[must_use]
    #[inline]
    pub fn state(&self) -> BfdState {
        match self.state_flags >> 6 {
            0 => BfdState::AdminDown,
            1 => BfdState::Down,
            2 => BfdState::Init,
            _ => BfdState::Up,
        }
    }

    /// Why the sender's session went down last, see [`diagnostic`].
    #[must_use]
    #[inline]
    pub fn diagnostic(&self) -> u8 {
        self.version_diagnostic & 0x1f
    }

    /// Whether any of these bits of [`flag`] is set.
    #[must_use]
    #[inline]
    pub fn has(&self, flags: u8) -> bool {
        self.state_flags & flags & 0x3f != 0
    }

    /// Sets bits of [`flag`].
    #[inline]
    pub fn set_flags(&mut self, flags: u8) {
        self.state_flags |= flags & 0x3f;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout() {
        let mut header = BfdHeader::new(BfdState::Up, diagnostic::NEIGHBOR_DOWN, 3);
        header.set_my_discriminator(7);
        header.set_desired_min_tx_us(20_000);
        header.set_flags(flag::POLL);
        let mut bytes = vec![0x23, 0xe0, 3, 24, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0x4e, 0x20];
        bytes.extend([0; 8]);
        assert_eq!(header.as_bytes(), bytes);
        let (read, rest) = BfdHeader::parse(&bytes).unwrap();
        assert_eq!((read.state(), read.diagnostic(), rest.len()), (BfdState::Up, 3, 0));
        assert!(read.has(flag::POLL) && !read.has(flag::FINAL | flag::DEMAND));
        for state in [BfdState::AdminDown, BfdState::Down, BfdState::Init, BfdState::Up] {
            assert_eq!(BfdHeader::new(state, 0, 1).state(), state);
        }
    }

    #[test]
    fn defects() {
        let good = BfdHeader::new(BfdState::Down, 0, 3);
        let with = |at: usize, byte: u8| {
            let mut bytes = [0; 24];
            bytes.copy_from_slice(good.as_bytes());
            bytes[at] = byte;
            BfdHeader::parse(&bytes).map(|_| ()).map_err(|error| error.defect)
        };
        assert_eq!(with(3, 24), Ok(()));
        assert_eq!(with(0, 0x40), Err(Defect::BadVersion { version: 2 }));
        for len in [0, 23, 25] {
            assert!(with(3, len).is_err(), "{len}");
        }
        assert!(with(1, flag::AUTHENTICATED).is_err(), "authentication needs a section");
        assert!(BfdHeader::parse(&good.as_bytes()[..23]).is_err());
    }
}
