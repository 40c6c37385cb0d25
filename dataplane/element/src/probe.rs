//! Probes: packets that are made to find out what a chain does to the packets of a session, and to
//! account for those that took a short cut in the kernel (docs/adr/0062-short-cuts.md).
//!
//! A probe is an empty packet of the session. It goes through the graph alone, from the port that
//! it stands for on, and ends where a packet would leave: it is never sent. Elements treat it as
//! any packet, but for what stands here.

use thruway_packet::Packet;

/// What an element is to packets of a session that may take a short cut past it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ShortCut {
    /// It must see every packet, or nobody has made sure that it need not.
    #[default]
    Never,
    /// What it does to a packet of an established TCP or UDP session follows from the frame's
    /// addresses and type, the IP addresses and protocol, and the ports alone (or it says
    /// otherwise by [`crate::Cx::spoil_probe`]), and a probe brings up to date what it keeps.
    Passes,
    /// The same, and it keeps packets until they are pulled, in their order: a short cut goes on
    /// where its first output leads.
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

/// What became of a probe.
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
    /// Its way depends on bytes that other packets of the session have other values of, as this
    /// element says.
    Spoiled(u32),
    /// It was dropped, kept or sent elsewhere.
    Lost,
}

/// A probe that is under way.
#[derive(Debug, Default)]
pub struct Probe {
    /// Packets and bytes that it stands for.
    pub stands_for: [u64; 2],
    /// The longest packet that goes the same way.
    pub len_max: Option<usize>,
    /// Who says that other packets may go another way.
    pub spoiled: Option<u32>,
    /// Where it ended.
    pub end: Option<(Packet, Egress)>,
}

/// What marks a probe among packets: no other packet has this tag outside of isolated parts.
pub const PROBE_TAG: u8 = Packet::TAGS;

/// The timer of a port by which it looks after short cuts: it is called once more before sessions
/// end, or go to another configuration.
pub const SHORT_CUT_TIMER: u32 = u32::MAX;
