//! Packet annotations: a few bytes beside the packet that elements leave for each other.

/// Where an annotation lives in the packet's 28 annotation bytes.
///
/// The offsets of Click's annotations are Click's (all below 24 except that of `VLAN_TCI`, and that
/// of `EXTRA_PACKETS`), so that configurations which name them by number keep working.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anno {
    /// First byte.
    pub offset: u8,
    /// Bytes: 1, 2, 4 or 16 (and 12 of `CONTENT`, which is not for configurations).
    pub size: u8,
}

impl Anno {
    /// Bytes of annotation space in a packet.
    pub const SPACE: usize = 28;
    /// Next hop or destination IPv4 address.
    pub const DST_IP: Anno = Anno { offset: 0, size: 4 };
    /// The same for IPv6; overlaps `DST_IP`.
    pub const DST_IP6: Anno = Anno { offset: 0, size: 16 };
    /// Packets a second that go where this IPv4 packet goes, as a monitor found; overlaps
    /// `DST_IP6`, which such packets do not have.
    pub const FWD_RATE: Anno = Anno { offset: 4, size: 4 };
    /// When the packet was first seen, nanoseconds; overlaps `DST_IP6`.
    pub const FIRST_TIMESTAMP: Anno = Anno { offset: 8, size: 8 };
    /// Where the payload is that functions of streams see; overlaps `DST_IP6`, `FWD_RATE` and
    /// `FIRST_TIMESTAMP`, which packets do not have between the entry of a context and its exit.
    pub const CONTENT: Anno = Anno { offset: 4, size: 12 };
    /// Colour of Paint.
    pub const PAINT: Anno = Anno { offset: 16, size: 1 };
    /// Offset of the parameter that an ICMP parameter problem speaks of.
    pub const ICMP_PARAM: Anno = Anno { offset: 17, size: 1 };
    /// Not zero: the source address is still to be set by FixIPSrc.
    pub const FIX_IP_SRC: Anno = Anno { offset: 19, size: 1 };
    /// Number of segments that this TCP packet represents, because a sender left segmentation to
    /// hardware; 0 or 1: a single one. They are about equally long.
    pub const SEGMENTS: Anno = Anno { offset: 18, size: 1 };
    /// VLAN tag control information.
    pub const VLAN_TCI: Anno = Anno { offset: 26, size: 2 };
    /// Aggregate (flow) number.
    pub const AGGREGATE: Anno = Anno { offset: 20, size: 4 };
    /// Packet number; overlaps `AGGREGATE`.
    pub const NUMBER: Anno = Anno { offset: 20, size: 4 };
    /// Further packets that this one represents (summaries, samples); overlaps `VLAN_TCI`, which
    /// such packets do not have.
    pub const EXTRA_PACKETS: Anno = Anno { offset: 26, size: 2 };
    /// Bytes that the packet had on the wire and the capture left out; 65,535 for more.
    pub const EXTRA_LENGTH: Anno = Anno { offset: 24, size: 2 };

    /// The names a configuration may use.
    pub const NAMES: &'static [(&'static str, Anno)] = &[
        ("AGGREGATE", Anno::AGGREGATE),
        ("DST_IP", Anno::DST_IP),
        ("DST_IP6", Anno::DST_IP6),
        ("EXTRA_LENGTH", Anno::EXTRA_LENGTH),
        ("EXTRA_PACKETS", Anno::EXTRA_PACKETS),
        ("FIX_IP_SRC", Anno::FIX_IP_SRC),
        ("FWD_RATE", Anno::FWD_RATE),
        ("ICMP_PARAM", Anno::ICMP_PARAM),
        ("PACKET_NUMBER", Anno::NUMBER),
        ("PAINT", Anno::PAINT),
        ("SEGMENTS", Anno::SEGMENTS),
        ("VLAN_TCI", Anno::VLAN_TCI),
    ];

    /// The annotation of `size` bytes at `offset`, if the annotation space contains it.
    pub fn at(offset: usize, size: usize) -> Option<Anno> {
        let fits = matches!(size, 1 | 2 | 4 | 16) && offset.checked_add(size)? <= Anno::SPACE;
        fits.then_some(Anno { offset: offset as u8, size: size as u8 })
    }
}
