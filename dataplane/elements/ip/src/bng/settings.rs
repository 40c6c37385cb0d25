//! The gateway's settings, and the headers in front of its packets.

use thruway_wire::Header;
use thruway_wire::MacAddr;
use thruway_wire::ethernet::EthernetHeader;
use thruway_wire::vlan::VlanTag;

/// The settings, besides the tables.
pub(super) struct Settings {
    pub(super) access_mac: MacAddr,
    pub(super) core_mac: MacAddr,
    pub(super) ip: u32,
    pub(super) gateway: Option<u32>,
    /// Ports towards subscribers.
    pub(super) access: usize,
    pub(super) outer_type: u16,
    pub(super) checksum: bool,
    pub(super) ttl: u8,
    pub(super) mtu: usize,
    pub(super) punt: Option<usize>,
}

/// Length of Ethernet header and tags.
pub(super) const FRONT: usize = EthernetHeader::LEN + 2 * VlanTag::LEN;
