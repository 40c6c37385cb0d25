//! Flags of TCP segments, as far as the life of a connection depends on them.

/// FIN, SYN, RST, ACK (RFC 9293 section 3.1).
pub const TCP_FIN: u8 = 0x01;
/// See [`TCP_FIN`].
pub const TCP_SYN: u8 = 0x02;
/// See [`TCP_FIN`].
pub const TCP_RST: u8 = 0x04;
/// See [`TCP_FIN`].
pub const TCP_ACK: u8 = 0x10;

/// In [`crate::tcp::Segment::flags`]: the checksum of the segment is wrong. (None of the flags
/// above has this bit.)
pub const UNSOUND: u8 = 1 << 7;
