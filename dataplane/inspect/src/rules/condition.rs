//! What headers must be like.

use crate::rules::numbers::Range;

/// How the TCP flags that a rule names are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FlagsMode {
    /// These and no others.
    Exactly,
    /// `+`: these, and perhaps others.
    All,
    /// `*`: one of these.
    Any,
    /// `!`: not these.
    Not,
}

/// A condition on a packet's headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Condition {
    /// `dsize`: bytes of payload in the packet.
    PayloadLen(Range<u32>),
    /// `ttl`, or the hop limit.
    Ttl(Range<u8>),
    /// `ip_proto`
    IpProtocol(Range<u8>),
    /// `id` of an IPv4 packet.
    IpId(u16),
    /// `itype`
    IcmpType(Range<u8>),
    /// `icode`
    IcmpCode(Range<u8>),
    /// `icmp_id`
    IcmpId(u16),
    /// `icmp_seq`
    IcmpSeq(u16),
    /// `flags` of TCP.
    TcpFlags {
        /// Those named, as in the header's byte (FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE
        /// 64, CWR 128).
        flags: u8,
        /// How they are compared.
        mode: FlagsMode,
        /// Those not looked at.
        ignore: u8,
    },
    /// `window`: of TCP, before scaling.
    TcpWindow {
        /// Which.
        window: u16,
        /// `!`
        negated: bool,
    },
    /// `seq`
    TcpSeq(u32),
    /// `ack`
    TcpAck(u32),
    /// `sameip`
    SameAddress,
}
