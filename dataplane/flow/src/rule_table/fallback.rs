//! Why packets are classified by the host.

/// Why a switch cannot decide as the chain does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum Fallback {
    /// No field holds these bytes.
    #[error("OpenFlow has no field for bytes that a rule looks at")]
    Bytes,
    /// The protocol has no such field.
    #[error("the switch's protocol lacks a field")]
    Field,
    /// A rule looks at some bits of a field that is matched as a whole.
    #[error("a rule looks at part of a field that OpenFlow matches as a whole")]
    Mask,
    /// A rule looks behind the IP header without saying of which protocol.
    #[error("a rule looks at the transport header of any protocol")]
    Transport,
    /// The first next header of IPv6 is not what a switch sees.
    #[error("IPv6 extension headers: a switch sees the last next header, rules the first")]
    Extensions,
    /// Rules tell fragments from whole packets.
    #[error("a fragment")]
    Fragment,
    /// A VLAN tag stands before what the rules look at.
    #[error("a VLAN tag")]
    Vlan,
    /// A label stands before what the rules look at, and might be taken for that of a class.
    #[error("an MPLS label of its own")]
    Label,
    /// A label would hide the protocol behind it.
    #[error("not IP: an MPLS label would hide what it is")]
    NotIp,
    /// IEEE 802.3 instead of an EtherType.
    #[error("no EtherType")]
    Length,
    /// The switch found no whole header, so its fields are zeros.
    #[error("zeros, as a switch sees in truncated headers")]
    Zeros,
    /// It may belong to a session, by the packet that it quotes.
    #[error("an ICMP error, which may belong to a session")]
    IcmpError,
    /// One rule of the chain is too many rules of a switch.
    #[error("a rule of the chain becomes too many of a switch")]
    TooMany,
    /// More classes than tags.
    #[error("more classes than tags")]
    Tags,
    /// More rules than wanted.
    #[error("more rules than the limit")]
    Limit,
}
