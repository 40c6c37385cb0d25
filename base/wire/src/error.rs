//! Why bytes are not the header they were taken for. Small, `Copy`, explained without allocating.

use core::fmt;

/// The protocol of the header being read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layer {
    /// Ethernet II.
    Ethernet,
    /// IEEE 802.1Q or 802.1ad tag.
    Vlan,
    /// ARP for IPv4 over Ethernet.
    Arp,
    /// IPv4.
    Ipv4,
    /// An option of an IPv4 header.
    Ipv4Option,
    /// IPv6, the fixed header.
    Ipv6,
    /// An IPv6 extension header.
    Ipv6Extension,
    /// ICMP for IPv4.
    Icmpv4,
    /// ICMP for IPv6.
    Icmpv6,
    /// Neighbour discovery message or option.
    Ndp,
    /// TCP.
    Tcp,
    /// An option of a TCP header.
    TcpOption,
    /// UDP.
    Udp,
    /// MPLS label stack.
    Mpls,
    /// GRE.
    Gre,
    /// GTP.
    Gtp,
    /// VXLAN.
    Vxlan,
    /// VXLAN with a field for the next protocol.
    VxlanGpe,
    /// Geneve, or an option of it.
    Geneve,
    /// Network service header.
    Nsh,
    /// Bidirectional forwarding detection.
    Bfd,
    /// DHCP for IPv4.
    Dhcp,
}

impl Layer {
    /// The name people use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ethernet => "Ethernet",
            Self::Vlan => "VLAN",
            Self::Arp => "ARP",
            Self::Ipv4 => "IPv4",
            Self::Ipv4Option => "IPv4 option",
            Self::Ipv6 => "IPv6",
            Self::Ipv6Extension => "IPv6 extension",
            Self::Icmpv4 => "ICMP",
            Self::Icmpv6 => "ICMPv6",
            Self::Ndp => "neighbour discovery",
            Self::Tcp => "TCP",
            Self::TcpOption => "TCP option",
            Self::Udp => "UDP",
            Self::Mpls => "MPLS",
            Self::Gre => "GRE",
            Self::Gtp => "GTP",
            Self::Vxlan => "VXLAN",
            Self::VxlanGpe => "VXLAN-GPE",
            Self::Geneve => "Geneve",
            Self::Nsh => "NSH",
            Self::Bfd => "BFD",
            Self::Dhcp => "DHCP",
        }
    }
}

/// The defect. Lengths are in bytes, from the start of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Defect {
    /// The bytes end before the header does.
    TooShort {
        /// Length that the header needs.
        required_len: usize,
        /// Available length.
        len: usize,
    },
    /// The value does not fit the length field of the header being made.
    TooLong {
        /// The most the field can say.
        max_len: usize,
        /// The requested length.
        len: usize,
    },
    /// The version field has another value than the protocol's.
    BadVersion {
        /// The version field.
        version: u8,
    },
    /// The header length field is less than the fixed header, or wrong for its kind.
    BadHeaderLength {
        /// The header length field, in bytes.
        header_len: usize,
    },
    /// The total length field is less than the header, or more than the available bytes.
    BadTotalLength {
        /// The total length field.
        total_len: usize,
        /// Available length.
        len: usize,
    },
    /// A field that has one legal value has another (ARP's types, VXLAN's I flag).
    BadField {
        /// Name of the field.
        name: &'static str,
        /// The field's value.
        value: u32,
    },
    /// More nested headers than this crate walks.
    TooDeep {
        /// How many it walks.
        limit: usize,
    },
}

/// Why bytes are not the header they were taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The protocol.
    pub layer: Layer,
    /// The defect.
    pub defect: Defect,
}

impl ParseError {
    /// An error of `layer`.
    #[must_use]
    #[inline]
    pub const fn new(layer: Layer, defect: Defect) -> Self {
        Self { layer, defect }
    }

    /// `len` bytes where `layer` needs `required_len`.
    #[must_use]
    #[inline]
    pub const fn too_short(layer: Layer, required_len: usize, len: usize) -> Self {
        Self::new(layer, Defect::TooShort { required_len, len })
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.layer.name())?;
        match self.defect {
            Defect::TooShort { required_len, len } => {
                write!(f, ": needs {required_len} bytes, {len} there")
            }
            Defect::TooLong { max_len, len } => {
                write!(f, ": {len} bytes do not fit a length field of at most {max_len}")
            }
            Defect::BadVersion { version } => write!(f, ": bad version {version}"),
            Defect::BadHeaderLength { header_len } => {
                write!(f, ": bad header length of {header_len} bytes")
            }
            Defect::BadTotalLength { total_len, len } => {
                write!(f, ": bad total length of {total_len} bytes, {len} there")
            }
            Defect::BadField { name, value } => write!(f, ": bad {name} {value:#x}"),
            Defect::TooDeep { limit } => write!(f, ": more than {limit} headers deep"),
        }
    }
}

impl core::error::Error for ParseError {}
