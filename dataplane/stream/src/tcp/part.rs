//! Parts of a segment.

use thruway_packet::Packet;
use thruway_wire::ip_protocol;
use thruway_wire::tcp::flags;

use super::Seq;
use crate::segment::{Parts, finish, tcp_mut};

/// Makes a part of a segment one.
pub(super) fn set_part(packet: &mut Packet, parts: &mut Parts, seq: Seq, fin: bool) {
    if let Some(header) = tcp_mut(packet, parts) {
        header.set_seq(seq.get());
        let last = flags::FIN | flags::PSH;
        let flags = header.flags();
        header.set_flags(if fin { flags | flags::FIN } else { flags & !last });
    }
    // A part is no longer than its receiver's maximum.
    let _ = finish(packet, parts, ip_protocol::TCP);
}
