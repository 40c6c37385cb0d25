//! The match fields of OpenFlow that classification needs.

/// A field of a packet, as OpenFlow names it (OpenFlow 1.5.1, section 7.2.3.7). The last one is of
/// Open vSwitch (ovs-fields(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Field {
    /// Destination address of Ethernet.
    EthDst,
    /// Source address of Ethernet.
    EthSrc,
    /// Outer VLAN tag: bit 12 is set where there is one.
    Vlan,
    /// What follows the Ethernet header and its VLAN tags.
    EthType,
    /// Differentiated services of either version of IP.
    IpDscp,
    /// Congestion bits of either version of IP.
    IpEcn,
    /// Protocol of IPv4; of IPv6 that behind all extension headers.
    IpProtocol,
    /// Source address of IPv4.
    Ipv4Src,
    /// Destination address of IPv4.
    Ipv4Dst,
    /// Source address of IPv6.
    Ipv6Src,
    /// Destination address of IPv6.
    Ipv6Dst,
    /// Source port of TCP, UDP and SCTP.
    PortSrc,
    /// Destination port of TCP, UDP and SCTP.
    PortDst,
    /// Type of ICMP, and of ICMP for IPv6.
    IcmpType,
    /// Code of either.
    IcmpCode,
    /// Flags of TCP, the reserved ones too.
    TcpFlags,
    /// Time to live, hop limit.
    IpTtl,
    /// Bit 0: a fragment; bit 1: not the first.
    IpFragment,
}

/// How many fields there are.
pub const FIELDS: usize = Field::ALL.len();

impl Field {
    /// All of them, in their order.
    pub const ALL: [Field; 18] = [
        Field::EthDst,
        Field::EthSrc,
        Field::Vlan,
        Field::EthType,
        Field::IpDscp,
        Field::IpEcn,
        Field::IpProtocol,
        Field::Ipv4Src,
        Field::Ipv4Dst,
        Field::Ipv6Src,
        Field::Ipv6Dst,
        Field::PortSrc,
        Field::PortDst,
        Field::IcmpType,
        Field::IcmpCode,
        Field::TcpFlags,
        Field::IpTtl,
        Field::IpFragment,
    ];

    /// Its width.
    pub const fn bits(self) -> u32 {
        match self {
            Field::EthDst | Field::EthSrc => 48,
            Field::Vlan => 13,
            Field::EthType | Field::PortSrc | Field::PortDst => 16,
            Field::IpDscp => 6,
            Field::IpEcn | Field::IpFragment => 2,
            Field::IpProtocol | Field::IcmpType | Field::IcmpCode | Field::IpTtl => 8,
            Field::Ipv4Src | Field::Ipv4Dst => 32,
            Field::Ipv6Src | Field::Ipv6Dst => 128,
            Field::TcpFlags => 12,
        }
    }

    /// All of its bits.
    pub const fn all(self) -> u128 {
        u128::MAX >> (128 - self.bits())
    }

    /// Whether a rule may look at some of its bits alone.
    pub const fn is_maskable(self) -> bool {
        !matches!(
            self,
            Field::EthType
                | Field::IpDscp
                | Field::IpEcn
                | Field::IpProtocol
                | Field::IcmpType
                | Field::IcmpCode
                | Field::IpTtl
        )
    }
}

/// What a switch speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// OpenFlow 1.3: no flags of TCP.
    OpenFlow13,
    /// OpenFlow 1.5.
    OpenFlow15,
    /// OpenFlow 1.5 with Open vSwitch's own fields: fragments and time to live.
    OpenVSwitch,
}

impl Protocol {
    /// Whether it has a field.
    pub fn has(self, field: Field) -> bool {
        match field {
            Field::TcpFlags => self != Protocol::OpenFlow13,
            Field::IpTtl | Field::IpFragment => self == Protocol::OpenVSwitch,
            _ => true,
        }
    }
}
