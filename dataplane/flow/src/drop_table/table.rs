//! The table, its machine, and the headers that the machine reads first.

use std::collections::BTreeMap;

use crate::decision::LeafId;

/// A target: the index of a test, or an end.
pub type Next = u32;
/// The packet goes to the chain.
pub const SOFTWARE: Next = 1 << 31;
/// The packet is dropped, as the chain would drop it.
pub const DROP: Next = SOFTWARE | 1;
/// The packet belongs to a class; the lower 16 bits are its number.
const CLASS: Next = SOFTWARE | 1 << 16;

/// The end of packets of a class.
pub(super) fn class_end(class: LeafId) -> Next {
    CLASS | Next::from(class)
}

/// The class that an end stands for; `None` if it is none.
pub fn class_of(end: Next) -> Option<LeafId> {
    (end & !0xffff == CLASS).then_some(end as LeafId)
}

/// Most tests on the path of one packet.
pub const DEPTH_MAX: u32 = 255;
/// Most tests of a table, where nothing else is wanted: 4 MB of the kernel's memory.
pub const TESTS_MAX: usize = 1 << 17;
/// Bytes of a frame that tests may look at.
pub const REACH: usize = 1024;

/// Length of an Ethernet header (IEEE 802.3, section 3.1.1), bytes.
pub const ETHERNET_LEN: usize = 14;
/// Lengths of the headers of IP without options (RFC 791 section 3.1, RFC 8200 section 3).
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
/// EtherTypes (IEEE 802 numbers).
pub const IPV4: u16 = 0x0800;
/// See [`IPV4`].
pub const IPV6: u16 = 0x86dd;
/// Types of VLAN tags; the chain looks behind those.
pub const VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// Next headers of IPv6 behind which another one follows (IANA, IPv6 extension header types).
pub const EXTENSIONS: [u8; 10] = [0, 43, 44, 51, 60, 135, 139, 140, 253, 254];
/// IANA protocol numbers.
pub const ICMP: u8 = 1;
/// See [`ICMP`].
pub const ICMPV6: u8 = 58;
/// Types of ICMP errors, which may belong to a session: RFC 792, RFC 4443 section 2.1.
pub const ERRORS4: [u8; 5] = [3, 4, 5, 11, 12];
/// See [`ERRORS4`].
pub const ERRORS6: [u8; 4] = [1, 2, 3, 4];

/// Whether the four big-endian bytes at an offset, masked, are in a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Test {
    /// Offset from the frame's first byte, or from the transport header's.
    pub at: u32,
    /// All bits, if the offset counts from the transport header; else none. (A machine adds the
    /// header's offset, masked with it.)
    pub from_transport: u32,
    /// The tested bits.
    pub mask: u32,
    /// Smallest value that passes.
    pub lo: u32,
    /// Largest value that passes, less the smallest.
    pub span: u32,
    /// Target of packets that pass.
    pub yes: Next,
    /// Target of other packets.
    pub no: Next,
    /// Target of packets that end before all four bytes.
    pub short: Next,
}

impl Test {
    /// The same as eight words, in the order of the fields.
    pub fn words(&self) -> [u32; 8] {
        let Test { at, from_transport, mask, lo, span, yes, no, short } = *self;
        [at, from_transport, mask, lo, span, yes, no, short]
    }
}

/// Which headers a packet has, and so where it begins in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Start {
    /// A whole IPv4 packet, no fragment.
    V4 = 0,
    /// IPv6 without extension headers.
    V6 = 1,
    /// No IP.
    Other = 2,
}

impl Start {
    /// All of them, in order.
    pub const ALL: [Start; 3] = [Start::V4, Start::V6, Start::Other];
}

/// Why packets that the chain would drop are left to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum Excluded {
    /// A rule looks at bytes far behind the headers.
    #[error("a rule looks further than {REACH} bytes into the frame")]
    Far,
    /// More tests than wanted.
    #[error("more tests than the table may have")]
    Limit,
    /// A path through the decision is too long.
    #[error("more than {DEPTH_MAX} tests one after the other")]
    Depth,
}

/// Which packets a chain drops at once, and of which classes others are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropTable {
    /// The tests.
    pub tests: Vec<Test>,
    /// By [`Start`]: where its packets begin.
    pub starts: [Next; 3],
    /// Most consecutive tests, of those that packets can reach; a packet runs [`DEPTH_MAX`] at
    /// most.
    pub depth: u32,
    /// Whether ICMP errors are the chain's: they may belong to a session.
    pub leaves_errors: bool,
    /// Ends of the decision that are left to the chain, and why.
    pub excluded: BTreeMap<Excluded, usize>,
}

impl DropTable {
    /// Whether it drops no packet and distinguishes no classes.
    pub fn is_empty(&self) -> bool {
        let ends = |test: &Test| [test.yes, test.no, test.short];
        let mut ends = self.starts.into_iter().chain(self.tests.iter().flat_map(ends));
        let is_other = |class: LeafId| Some(class) != class_of(self.starts[0]);
        !ends.any(|end| end == DROP || class_of(end).is_some_and(is_other))
    }

    /// Whether no limit of tables cut it short.
    pub fn is_whole(&self) -> bool {
        let limits = [Excluded::Limit, Excluded::Depth];
        !limits.iter().any(|why| self.excluded.contains_key(why))
    }

    /// Whether a frame is dropped.
    pub fn drops(&self, frame: &[u8]) -> bool {
        self.run(frame) == Some(DROP)
    }

    /// The end that a frame reaches; `None` if the table does not cover its headers, or it passes
    /// too many tests.
    pub fn run(&self, frame: &[u8]) -> Option<Next> {
        let (start, transport) = headers(frame, self.leaves_errors)?;
        let mut at = self.starts[start as usize];
        for _ in 0..DEPTH_MAX {
            if at & SOFTWARE != 0 {
                return Some(at);
            }
            let test = self.tests.get(at as usize)?;
            let offset = test.at as usize + (transport & test.from_transport as usize);
            let four = frame.get(offset..).and_then(|rest| rest.first_chunk::<4>());
            at = match four.map(|four| u32::from_be_bytes(*four) & test.mask) {
                Some(value) if value.wrapping_sub(test.lo) <= test.span => test.yes,
                Some(_) => test.no,
                None => test.short,
            };
        }
        None
    }
}

/// Which headers a frame has, and where the transport header begins; `None`: the chain may read
/// others.
fn headers(frame: &[u8], leaves_errors: bool) -> Option<(Start, usize)> {
    let byte = |at: usize| frame.get(at).copied();
    let half = |at: usize| Some(u16::from_be_bytes([byte(at)?, byte(at + 1)?]));
    let ends_before = |end: usize| end > frame.len();
    let (start, protocol, transport) = match half(ETHERNET_LEN - 2)? {
        kind if VLAN.contains(&kind) => return None,
        IPV4 if ends_before(ETHERNET_LEN + IPV4_LEN) => return None,
        IPV4 => {
            let first = byte(ETHERNET_LEN)?;
            let header_len = usize::from(first & 0x0f) * 4;
            let total = usize::from(half(ETHERNET_LEN + 2)?);
            let is_fragment = half(ETHERNET_LEN + 6)? & 0x3fff != 0;
            let is_whole = first >> 4 == 4
                && header_len >= IPV4_LEN
                && total >= header_len
                && !ends_before(ETHERNET_LEN + total);
            if is_fragment || !is_whole {
                return None;
            }
            (Start::V4, byte(ETHERNET_LEN + 9)?, ETHERNET_LEN + header_len)
        }
        IPV6 if ends_before(ETHERNET_LEN + IPV6_LEN) => return None,
        IPV6 => {
            let payload = usize::from(half(ETHERNET_LEN + 4)?);
            let next = byte(ETHERNET_LEN + 6)?;
            let transport = ETHERNET_LEN + IPV6_LEN;
            let is_whole = byte(ETHERNET_LEN)? >> 4 == 6 && !ends_before(transport + payload);
            if !is_whole || EXTENSIONS.contains(&next) {
                return None;
            }
            (Start::V6, next, transport)
        }
        _ => return Some((Start::Other, 0)),
    };
    let errors: &[u8] = match (start, protocol) {
        (Start::V4, ICMP) => &ERRORS4,
        (Start::V6, ICMPV6) => &ERRORS6,
        _ => &[],
    };
    if leaves_errors && !errors.is_empty() && errors.contains(&byte(transport)?) {
        return None;
    }
    Some((start, transport))
}
