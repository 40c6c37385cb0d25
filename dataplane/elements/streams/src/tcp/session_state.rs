//! The state of a TCP session, and its packets.

use thruway_element::Wants;
use thruway_packet::Packet;
use thruway_stream::segment::protocol;
use thruway_wire::ip_protocol;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Instead of a connection's number: functions only look at it.
pub const FOLLOWED: u32 = u32::MAX;

/// The state of the session: the connection's number + 1.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Clone, Copy)]
#[repr(C)]
pub struct SessionState {
    pub conn: u32,
}

/// TCPIn's demand on the flow manager.
pub const WANTS: Wants = Wants {
    classes: &["tcp or tcp6"],
    whole: true,
    ..Wants::session::<SessionState>("connection")
};

/// Whether TCP follows the IP header, or its extensions.
#[inline]
pub fn is_tcp(packet: &Packet) -> bool {
    match protocol(packet) {
        Some(ip_protocol::TCP) => true,
        None | Some(ip_protocol::UDP) => false,
        // Behind extension headers only the classifier has looked; what is no TCP has no ports
        // that it could have found.
        Some(_) => packet.network().first().is_some_and(|first| first >> 4 == 6),
    }
}
