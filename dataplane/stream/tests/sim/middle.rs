//! What stands between the two ends.

use thruway_packet::Packet;

use crate::frame::Side;

/// Something that packets of both directions pass.
pub trait Middle {
    /// A packet comes from a side; what leaves in consequence, and to which side.
    fn packet(&mut self, now: i64, from: Side, packet: Packet, out: &mut Vec<(Side, Packet)>);

    /// Time has passed; as above.
    fn tick(&mut self, now: i64, out: &mut Vec<(Side, Packet)>) {
        let _ = (now, out);
    }

    /// When it wants to be called next.
    fn next_tick(&self) -> Option<i64> {
        None
    }

    /// Connections that it remembers.
    fn connections(&self) -> usize {
        0
    }
}

/// A wire.
pub struct Identity;

impl Middle for Identity {
    fn packet(&mut self, _now: i64, from: Side, packet: Packet, out: &mut Vec<(Side, Packet)>) {
        out.push((from.other(), packet));
    }
}
