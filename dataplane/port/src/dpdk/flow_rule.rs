//! Rules of a port, as they are asked for (DPDK, rte_flow.h).

/// Bytes of the longest header of an item: IPv6 (RFC 8200, section 3).
pub const HEADER_LEN_MAX: usize = 40;
/// Most headers of a rule.
pub const ITEMS_MAX: usize = 3;

/// What a packet's header must look like: equal to `spec` in the bits of `mask`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowItem {
    /// Which header: 0 Ethernet, 1 IPv4, 2 IPv6, 3 TCP, 4 UDP, 5 SCTP, 6 ICMP, 7 ICMP for IPv6.
    pub header: u8,
    /// Of Ethernet: no VLAN tag follows; of IPv6: no extension header.
    pub alone: bool,
    /// The header's bytes, in the network's order.
    pub spec: [u8; HEADER_LEN_MAX],
    /// The bits that count.
    pub mask: [u8; HEADER_LEN_MAX],
}

/// What a port does with packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowAction {
    /// It drops them, and counts them or not.
    Drop {
        /// Whether it counts them.
        counts: bool,
    },
    /// It spreads them over its queues, as without rules.
    Pass {
        /// How many queues there are.
        queues: u16,
        /// The mark that they get.
        mark: Option<u32>,
    },
}

/// A rule of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowRule {
    /// Headers from the outermost on, at most [`ITEMS_MAX`].
    pub items: Vec<FlowItem>,
    /// Rules with lower numbers come first.
    pub priority: u32,
    /// What it does.
    pub action: FlowAction,
}
