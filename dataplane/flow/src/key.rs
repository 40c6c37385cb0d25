//! The fast path's view of a packet: three byte slices, and a small key read from them once.

use crate::ast::{Base, Word};

/// The bytes of one packet, from each of the places that a test may count from.
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketView<'a> {
    /// From the frame's first byte (empty when unknown: frame tests are then false).
    pub frame: &'a [u8],
    /// From the IP header's first byte to the packet's end.
    pub network: &'a [u8],
    /// From the transport header's first byte to the packet's end.
    pub transport: &'a [u8],
}

impl<'a> PacketView<'a> {
    /// A view of an IP packet; the transport header is at the header length (RFC 791 section 3.1),
    /// clipped to the packet.
    pub fn from_ip(network: &'a [u8]) -> PacketView<'a> {
        let header_len = network.first().map_or(0, |b| usize::from(b & 0x0f) * 4);
        let transport = network.get(header_len..).unwrap_or(&[]);
        PacketView { frame: &[], network, transport }
    }

    /// A view of a frame for [`crate::PatternProgram`], which looks at nothing else.
    pub fn from_frame(frame: &'a [u8]) -> PacketView<'a> {
        PacketView { frame, network: &[], transport: &[] }
    }

    #[inline]
    fn bytes(&self, base: Base) -> &'a [u8] {
        match base {
            Base::Frame => self.frame,
            Base::Network => self.network,
            Base::Transport => self.transport,
        }
    }

    /// Whether the packet passes a word test.
    #[inline]
    pub fn passes(&self, word: &Word) -> bool {
        let bytes = self.bytes(word.base);
        let at = usize::from(word.at);
        match bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
            Some(four) => word.holds(u32::from_be_bytes(*four)),
            None => passes_at_the_end(bytes.get(at..).unwrap_or(&[]), word),
        }
    }

    /// The four bytes that a word test looks at, masked; `None` when bytes under the mask are
    /// missing.
    #[inline]
    pub(crate) fn word(&self, word: &Word) -> Option<u32> {
        let rest = self.bytes(word.base).get(usize::from(word.at)..).unwrap_or(&[]);
        match rest.first_chunk::<4>() {
            Some(four) => Some(u32::from_be_bytes(*four) & word.mask),
            None => last_word(rest, word),
        }
    }
}

#[cold]
fn last_word(rest: &[u8], word: &Word) -> Option<u32> {
    let mut four = [0; 4];
    for (to, from) in four.iter_mut().zip(rest) {
        *to = *from;
    }
    (rest.len() >= word.needed_bytes()).then(|| u32::from_be_bytes(four) & word.mask)
}

#[cold]
fn passes_at_the_end(rest: &[u8], word: &Word) -> bool {
    last_word(rest, word).is_some_and(|value| word.holds(value))
}

/// A port that the packet is too short to have.
pub const PORT_ABSENT: u32 = 0x1_0000;

/// The fields that index the rules, read once per packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// Source address, destination address, source port, destination port (host order; the ports
    /// are the first bytes of the transport header, or [`PORT_ABSENT`]).
    pub fields: [u32; 4],
    /// IP protocol.
    pub proto: u8,
    /// 0 whole packet, 1 first fragment, 2 last fragment, 3 one between.
    pub fragment: u8,
    /// Whether there are 20 bytes of IP header; if not, the key is undefined.
    pub whole: bool,
}

impl Key {
    /// The key of an IP packet, whatever its bytes.
    #[inline]
    pub fn from_ip(network: &[u8]) -> Key {
        Key::from_view(&PacketView::from_ip(network))
    }

    /// The key of a packet with parsed headers.
    #[inline]
    pub fn from_view(view: &PacketView<'_>) -> Key {
        let Some(header) = view.network.first_chunk::<20>() else { return Key::default() };
        let word =
            |i: usize| u32::from_be_bytes([header[i], header[i + 1], header[i + 2], header[i + 3]]);
        let (sport, dport) = match view.transport.first_chunk::<4>() {
            Some(p) => {
                let ports = u32::from_be_bytes(*p);
                (ports >> 16, ports & 0xffff)
            }
            None => short_ports(view.transport),
        };
        let flags = word(4);
        let later = u8::from(flags & 0x1fff != 0) * 2;
        let more = u8::from(flags & 0x2000 != 0);
        Key {
            fields: [word(12), word(16), sport, dport],
            proto: header[9],
            fragment: later + more,
            whole: true,
        }
    }
}

#[cold]
fn short_ports(transport: &[u8]) -> (u32, u32) {
    let sport = transport.first_chunk::<2>().map(|p| u32::from(u16::from_be_bytes(*p)));
    (sport.unwrap_or(PORT_ABSENT), PORT_ABSENT)
}
