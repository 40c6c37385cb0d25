//! How ports are to be used, and what is reported on them.

/// How a port is to be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortConfig {
    /// Queues to receive by. With several, packets are spread over them by a hash that is the same
    /// for both directions of a connection, where the port can.
    pub rx_queues: u16,
    /// Queues to send by; fewer where the port has not as many.
    pub tx_queues: u16,
    /// Queues to send by that it must have.
    pub tx_queues_min: u16,
    /// Receive frames for other hosts as well.
    pub promiscuous: bool,
    /// Check IPv4 header checksums, where the port can, and drop packets with wrong ones.
    pub checks: bool,
    /// Bytes of the longest packet without its Ethernet header; `None`: as it is.
    pub mtu: Option<u16>,
    /// Slots of each receive queue; 0: as the driver likes.
    pub rx_slots: u16,
    /// Slots of each transmit queue; 0: as the driver likes.
    pub tx_slots: u16,
}

impl Default for PortConfig {
    fn default() -> PortConfig {
        PortConfig {
            rx_queues: 0,
            tx_queues: 0,
            tx_queues_min: 0,
            promiscuous: true,
            checks: false,
            mtu: None,
            rx_slots: 0,
            tx_slots: 0,
        }
    }
}

/// What a port is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Its device's name.
    pub name: String,
    /// Its driver's name.
    pub driver: String,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Queues to receive by, as it was started.
    pub rx_queues: u16,
    /// Queues to send by, as it was started.
    pub tx_queues: u16,
    /// Queues to receive by that it can have at most.
    pub rx_queues_max: u16,
    /// Queues to send by that it can have at most.
    pub tx_queues_max: u16,
    /// Bytes of the longest packet without its Ethernet header.
    pub mtu: u16,
    /// The longest MTU that it can have; 0 if it does not say.
    pub mtu_max: u16,
    /// Whether it can spread packets over its queues.
    pub hashes: bool,
    /// Whether it can check IPv4 header checksums.
    pub can_check: bool,
    /// Whether it does.
    pub checks: bool,
    /// NUMA node, if it is at one.
    pub node: Option<u16>,
}

/// The state of a port's link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Link {
    /// Whether it is up.
    pub is_up: bool,
    /// Megabits per second; 0 if nobody knows.
    pub mbps: u32,
    /// Whether both sides may send at once.
    pub is_full_duplex: bool,
}

/// What a port has counted since it was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets received.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Dropped because they came faster than they were read.
    pub missed: u64,
    /// Dropped because they were damaged.
    pub receive_errors: u64,
    /// Dropped because there was no frame for them.
    pub no_frame: u64,
    /// Not sent.
    pub send_errors: u64,
}
