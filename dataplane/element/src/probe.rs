//! Probes: packets that test a chain's treatment of the packets of a session, and account for those
//! that took a short cut in the kernel (docs/adr/0062-short-cuts.md).
//!
//! A probe is an empty packet of the session. It goes through the graph alone, from the port that
//! it represents on, and ends where a packet would leave: it is never sent. Elements treat it as
//! any packet, except as stated here.

use thruway_packet::Packet;

/// Treatment of packets of a session that may take a short cut past the element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ShortCut {
    /// The element must see every packet, or nothing proves that it need not.
    #[default]
    Never,
    /// Its treatment of a packet of an established TCP or UDP session follows from the frame's
    /// addresses and type, the IP addresses and protocol, and the ports alone (or it calls
    /// [`crate::Cx::spoil_probe`]), and a probe updates its state.
    Passes,
    /// The same, and it stores packets until they are pulled, in their order: a short cut continues
    /// at the target of its first output.
    Stores,
    /// Packets leave there; it takes probes by [`crate::Cx::end_probe`].
    Leaves,
}

/// Where packets leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Egress {
    /// The kernel's number of the interface.
    pub interface: u32,
    /// The longest packet that it takes, in bytes without the link's header.
    pub mtu: usize,
}

/// The fate of a probe.
#[derive(Debug)]
pub enum Probed {
    /// It would have been sent.
    Sent {
        /// As it would have been sent.
        packet: Packet,
        /// Where.
        egress: Egress,
    },
    /// It came to this element, which must see every packet.
    Forbidden(u32),
    /// Its path depends on bytes that differ between packets of the session, as this element
    /// reports.
    Spoiled(u32),
    /// It was dropped, kept or sent elsewhere.
    Lost,
}

/// A probe in flight.
#[derive(Debug, Default)]
pub struct Probe {
    /// Packets and bytes that it represents.
    pub stands_for: [u64; 2],
    /// The longest packet that takes the same path.
    pub len_max: Option<usize>,
    /// The element that reports that other packets may take another path.
    pub spoiled: Option<u32>,
    /// Where it ended.
    pub end: Option<(Packet, Egress)>,
}

/// Marks a probe among packets: no other packet has this tag outside of isolated parts.
pub const PROBE_TAG: u8 = Packet::TAGS;

/// The timer of a port by which it looks after short cuts: it is called once more before sessions
/// end, or go to another configuration.
pub const SHORT_CUT_TIMER: u32 = u32::MAX;
